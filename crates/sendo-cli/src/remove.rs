//! `sendo remove`: the reverse of `sendo add`.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

use crate::edit::{Code, EditFlags, Edits};
use crate::names::{Kind, KindRef, Version};
use crate::syntax::{Call, Program, SourceFile, bytes, rust_files, uses_of_module};

/// Remove a kind, a version of one, a controller or webhooks from the project in this folder
///
/// Its files go, and so do `pub mod …;` and the calls after `Manager::new(…)`
/// that name it. If other code still uses it, nothing is changed, and the places
/// are named.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo remove api Bar                         a kind with its versions and its controller
  sendo remove version v1alpha1 --of Bar       one version of it
  sendo remove controller --for apps/v1/Deployment
  sendo remove webhook Bar --validate          one kind of webhook; without a flag all of Bar's"
)]
pub(crate) struct Remove {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Remove a kind of the project's own: all versions, the controller, test and sample
    Api {
        /// The kind, such as Bar
        kind: Kind,
        #[command(flatten)]
        flags: EditFlags,
    },
    /// Remove a version of a kind
    ///
    /// Objects that are stored in it must have been written anew in another
    /// version before, or the API server refuses the definition without it.
    Version {
        /// The version, such as v1alpha1
        version: Version,
        /// The kind
        #[arg(long, value_name = "KIND")]
        of: Kind,
        #[command(flatten)]
        flags: EditFlags,
    },
    /// Remove the controller of a kind; the kind itself stays
    Controller {
        /// The kind, as GROUP/VERSION/KIND
        #[arg(long = "for", value_name = "GROUP/VERSION/KIND")]
        kind: KindRef,
        #[command(flatten)]
        flags: EditFlags,
    },
    /// Remove webhooks of a kind: those that are named by flags, or all
    Webhook {
        /// The kind, one of the project's own
        kind: Kind,
        #[command(flatten)]
        which: ChosenWebhooks,
        #[command(flatten)]
        flags: EditFlags,
    },
}

/// Webhooks of a kind; all of them if none is named.
#[derive(Clone, Copy, Debug, Args)]
struct ChosenWebhooks {
    /// The function that fills in fields
    #[arg(long)]
    default: bool,

    /// The function that refuses objects
    #[arg(long)]
    validate: bool,

    /// The functions that convert between versions
    #[arg(long)]
    convert: bool,
}

impl ChosenWebhooks {
    /// The modules with their code.
    fn modules(self) -> Vec<&'static str> {
        let named = [
            (self.default, "defaults"),
            (self.validate, "validation"),
            (self.convert, "conversion"),
        ];
        let all = named.iter().all(|(is_named, _)| !is_named);
        let chosen = named.into_iter().filter(|(is_named, _)| all || *is_named);
        chosen.map(|(_, module)| module).collect()
    }
}

impl Remove {
    pub(crate) fn run(self) -> Result<()> {
        let code = Code::here()?;
        match self.part {
            Part::Api { kind, flags } => remove_api(&code, &kind, flags),
            Part::Version { version, of, flags } => remove_version(&code, &version, &of, flags),
            Part::Controller { kind, flags } => remove_controller(&code, &kind, flags),
            Part::Webhook { kind, which, flags } => remove_webhooks(&code, &kind, which, flags),
        }
    }
}

fn remove_api(code: &Code, kind: &Kind, flags: EditFlags) -> Result<()> {
    let versions = code.versions_of(kind.as_str())?;
    let mut folders: Vec<Option<String>> = Vec::new();
    for version in &versions {
        folders.push(
            version
                .file
                .module_path()
                .and_then(|path| path.first().cloned()),
        );
    }
    folders.dedup();
    let [Some(module)] = &folders[..] else {
        bail!(
            "{} is not in one folder of src alone: remove it by hand",
            kind.as_str()
        );
    };
    let others = code.kinds();
    let other = others.iter().find(|other| {
        other.kind != kind.as_str()
            && other
                .file
                .module_path()
                .is_some_and(|path| path.first() == Some(module))
    });
    if let Some(other) = other {
        bail!(
            "src/{module} has {} too: remove {} by hand",
            other.kind,
            kind.as_str()
        );
    }
    let mut edits = Edits::new(code);
    remove_module(code, std::slice::from_ref(module), &mut edits)?;
    for name in [
        format!("tests/{module}.rs"),
        format!("samples/{module}.yaml"),
    ] {
        if code.project.root.join(&name).is_file() {
            edits.changes.remove(Path::new(&name))?;
        }
    }
    edits.note("Clusters keep the kind and its objects until `sendo uninstall` or `kubectl delete crd` takes them away.");
    edits.finish(flags)
}

fn remove_version(code: &Code, version: &Version, kind: &Kind, flags: EditFlags) -> Result<()> {
    let versions = code.versions_of(kind.as_str())?;
    let version = version.as_str();
    let Some(found) = versions.iter().find(|known| known.version == version) else {
        let there: Vec<&str> = versions.iter().map(|known| &*known.version).collect();
        bail!(
            "{} has no version {version}; there is {}",
            kind.as_str(),
            there.join(", ")
        );
    };
    if versions.len() == 1 {
        bail!(
            "{version} is the only version of {0}: `sendo remove api {0}` removes the kind",
            kind.as_str()
        );
    }
    if found.is_stored {
        bail!(
            "objects of {} are stored in {version}: take `storage = false` out of the #[kube(…)] of another version, and put it into that of {version}, first",
            kind.as_str()
        );
    }
    let module = found
        .file
        .module_path()
        .filter(|path| path.last() == Some(&found.version));
    let module = module.with_context(|| {
        format!(
            "{} is not named after the version: remove it by hand",
            found.file.path.display()
        )
    })?;
    let mut edits = Edits::new(code);
    remove_module(code, &module, &mut edits)?;
    edits.finish(flags)
}

fn remove_controller(code: &Code, kind: &KindRef, flags: EditFlags) -> Result<()> {
    let own = code.kinds();
    let own = own
        .iter()
        .find(|own| own.kind == kind.kind && own.group == kind.group);
    let module = match own {
        Some(own) => own
            .file
            .module_path()
            .and_then(|path| path.first().cloned())
            .unwrap_or_default(),
        None => Kind::built_in(&kind.kind).module(),
    };
    let controller = [module.clone(), "controller".to_owned()];
    if code.file(&controller).is_none() {
        bail!("{kind} has no controller in src/{module}/controller.rs");
    }
    let mut edits = Edits::new(code);
    match own {
        Some(_) => remove_module(code, &controller, &mut edits)?,
        None => remove_module(code, std::slice::from_ref(&module), &mut edits)?,
    }
    let test = format!("tests/{module}.rs");
    if code.project.root.join(&test).is_file() {
        match own {
            Some(_) => edits.note(format!("{test} stays: take out what tests the controller.")),
            None => edits.changes.remove(Path::new(&test))?,
        }
    }
    edits.finish(flags)
}

fn remove_webhooks(
    code: &Code,
    kind: &Kind,
    which: ChosenWebhooks,
    flags: EditFlags,
) -> Result<()> {
    let versions = code.versions_of(kind.as_str())?;
    let folder = versions[0].file.module_path().unwrap_or_default();
    let folder = folder.first().cloned().unwrap_or_default();
    let modules = which.modules();
    let path = |module: &str| [folder.clone(), module.to_owned()];
    let there = modules
        .iter()
        .filter(|module| code.file(&path(module)).is_some());
    let there: Vec<_> = there.copied().collect();
    let is_named = which.default || which.validate || which.convert;
    let missing = modules.iter().find(|module| !there.contains(module));
    if let Some(missing) = missing.filter(|_| is_named || there.is_empty()) {
        let kind = kind.as_str();
        bail!(
            "there is no src/{folder}/{missing}.rs, where `sendo add webhook {kind}` puts it: remove what you wrote elsewhere by hand"
        );
    }
    let mut edits = Edits::new(code);
    for module in &there {
        remove_module(code, &path(module), &mut edits)?;
    }
    if there.contains(&"conversion") {
        edits.by_hand(format!(
            "write `.defines` in place of `.serves` for the versions of {}",
            kind.as_str()
        ));
        edits.place(|edits| {
            let program = Program::find(&code.files)?;
            for version in &versions {
                let module = version.file.module_path().unwrap_or_default();
                for call in program.calls_naming("serves", &code.project.library, &module) {
                    edits
                        .splices(program.file)
                        .replace(call.name_range(), "defines");
                }
            }
            Ok(())
        })?;
        edits.note("Versions convert by the names of their fields again: a field that is to survive has the same name in all.");
    }
    edits.finish(flags)
}

/// Removes a module with all files below it, its declaration, and the calls of the program that name it.
fn remove_module(code: &Code, module: &[String], edits: &mut Edits<'_>) -> Result<()> {
    let path = module.join("::");
    let is_inside = |file: &SourceFile| {
        file.module_path()
            .is_some_and(|path| path.starts_with(module))
    };
    edits.by_hand(format!(
        "remove src/{}, its `mod {};`, and the calls after `Manager::new(…)` that name {path}",
        module.join("/"),
        module.last().map_or("", String::as_str)
    ));
    edits.place(|edits| {
        let program = Program::find(&code.files)?;
        let (name, above) = module.split_last().context("the root of a crate stays")?;
        let parent = code
            .file(above)
            .or(code.root().ok().filter(|_| above.is_empty()));
        let parent = parent.with_context(|| format!("there is no module above {path}"))?;
        let declaration = parent.module(name);
        let declaration = declaration
            .with_context(|| format!("{} has no `mod {name};`", parent.path.display()))?;
        let declared = bytes(declaration);
        edits
            .splices(parent)
            .remove(parent.module_text(declaration));

        let library = &code.project.library;
        let uses = uses_of_module(program.file, library, module);
        let names_it = |call: &&Call| {
            let declares = ["defines", "serves", "controller", "webhook"].contains(&&*call.name);
            declares && uses.iter().any(|used| call.range.contains(&used.start))
        };
        let calls: Vec<&Call> = program.calls.iter().filter(names_it).collect();
        for call in &calls {
            edits.splices(program.file).remove(program.call_text(call));
        }

        let mut left = Vec::new();
        let tests = rust_files(&code.project.root, "tests")?;
        let own_test = Path::new("tests").join(&module[0]).with_extension("rs");
        let kept_tests = tests
            .iter()
            .filter(|test| module.len() > 1 || test.path != own_test);
        let kept = code
            .files
            .iter()
            .filter(|file| !is_inside(file))
            .chain(kept_tests);
        for file in kept {
            for used in uses_of_module(file, library, module) {
                let in_call = file.path == program.file.path
                    && calls.iter().any(|call| call.range.contains(&used.start));
                let in_declaration = file.path == parent.path && declared.contains(&used.start);
                if !in_call && !in_declaration {
                    left.push(file.place(used.start));
                }
            }
        }
        if !left.is_empty() {
            bail!("{path} is used in {}", left.join(", "));
        }
        Ok(())
    })?;
    for file in code.files.iter().filter(|file| is_inside(file)) {
        edits.changes.remove(&file.path)?;
    }
    Ok(())
}
