//! `sendo add webhook`: a defaulter, a validator, or conversions for a kind.

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;

use super::conversion::conversion_values;
use crate::edit::{Code, EditFlags, Edits};
use crate::names::{Kind, article};
use crate::syntax::{KindType, Program};
use crate::template::{NewFile, Values};

/// Add webhooks to a kind: what the API server asks before it stores an object, or to read one
/// in another version
///
/// Each is a file beside the kind's controller, with its test, and a call after
/// `Manager::new(…)`. What the kind's definition can say needs no webhook:
/// ranges, patterns, fixed defaults, versions whose fields have the same names.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sendo add webhook Bar --validate             refuse what cannot be
  sendo add webhook Bar --default --validate   and fill in what is missing
  sendo add webhook Bar --convert              versions with other fields: `sendo add version` first")]
pub(super) struct AddWebhook {
    /// The kind, one of the project's own
    kind: Kind,

    #[command(flatten)]
    which: WhichWebhooks,

    #[command(flatten)]
    flags: EditFlags,
}

/// The webhooks of a kind.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = true)]
struct WhichWebhooks {
    /// A function that fills in fields before an object is stored
    #[arg(long)]
    default: bool,

    /// A function that refuses objects, with a reason
    #[arg(long)]
    validate: bool,

    /// Functions that convert between the versions of the kind
    #[arg(long)]
    convert: bool,
}

/// Types that a webhook's code uses.
const TAKEN_KINDS: &[&str] = &["Admission", "Change", "Convert", "Denied", "Webhook"];

impl AddWebhook {
    pub(super) fn run(self) -> Result<()> {
        let code = Code::here()?;
        let versions = code.versions_of(self.kind.as_str())?;
        let target = Target::new(&code, &self.kind, &versions)?;
        let tests = Tests::new(&code, &target)?;
        let mut edits = Edits::new(&code);
        edits.add_dependencies()?;
        if let Tests::None(why) = &tests {
            edits.note(format!("There is no test of it: {why}."));
        }
        if self.which.default {
            let part = Part {
                module: "defaults",
                template: include_str!("../../templates/defaults.rs.in"),
                tests: include_str!("../../templates/defaults_tests.rs.in"),
                function: "defaulter",
            };
            add_function(&code, &target, &part, &tests, &mut edits)?;
        }
        if self.which.validate {
            let part = Part {
                module: "validation",
                template: include_str!("../../templates/validation.rs.in"),
                tests: include_str!("../../templates/validation_tests.rs.in"),
                function: "validator",
            };
            add_function(&code, &target, &part, &tests, &mut edits)?;
        }
        if self.which.convert {
            add_conversions(&code, &target, &versions, &tests, &mut edits)?;
        }
        edits.note("`cargo test` calls webhooks, and `sendo dev` has the cluster call them: neither needs a certificate.");
        edits.finish(self.flags)
    }
}

/// The kind that webhooks are added to.
struct Target<'a> {
    kind: &'a Kind,
    /// The version in which objects are stored.
    stored: &'a KindType<'a>,
    /// The folder of the kind's code, as a module.
    folder: String,
    /// The module of the stored version in it.
    version: String,
}

impl<'a> Target<'a> {
    fn new(code: &Code, kind: &'a Kind, versions: &'a [KindType<'a>]) -> Result<Self> {
        if TAKEN_KINDS.contains(&kind.as_str()) {
            bail!(
                "a webhook's code uses the name `{}` for something else: write it by hand, as the guide's chapter on webhooks shows",
                kind.as_str()
            );
        }
        let stored = versions.iter().find(|version| version.is_stored);
        let stored = stored.with_context(|| {
            format!(
                "no version of {} is stored: take `storage = false` out of one of them",
                kind.as_str()
            )
        })?;
        let module = stored.file.module_path();
        match module.as_deref() {
            Some([folder, version]) if code.file(std::slice::from_ref(folder)).is_some() => {
                Ok(Target {
                    kind,
                    stored,
                    folder: folder.clone(),
                    version: version.clone(),
                })
            }
            _ => bail!(
                "{} is not in a folder of its own, as src/bar/v1.rs is: write the webhook by hand, as the guide's chapter on webhooks shows",
                stored.file.path.display()
            ),
        }
    }

    fn values(&self, code: &Code) -> Values {
        let module = self.kind.module();
        Values::for_program(&code.project.name, &code.project.library)
            .with("a_kind", self.kind.with_article())
            .with("a_module", format!("{}_{module}", article(&module)))
            .with("kind", &*self.stored.type_name)
            .with("module", module)
            .with("version", &*self.version)
    }

    /// Fails if the kind has a module of this name.
    fn refuse_known(&self, code: &Code, module: &str) -> Result<()> {
        let path = [self.folder.clone(), module.to_owned()];
        if let Some(known) = code.file(&path) {
            bail!(
                "{} is there already: change it there, or remove it with `sendo remove webhook {}`",
                known.path.display(),
                self.kind.as_str()
            );
        }
        Ok(())
    }
}

/// A webhook that is one function.
struct Part {
    /// The module of its file.
    module: &'static str,
    template: &'static str,
    tests: &'static str,
    /// The function that returns it.
    function: &'static str,
}

/// What tests of webhooks are written with.
enum Tests {
    /// The fields of an object that the API server takes, and its namespace.
    With {
        fields: String,
        namespace: &'static str,
    },
    /// Why there can be none.
    None(String),
}

impl Tests {
    fn new(code: &Code, target: &Target<'_>) -> Result<Self> {
        if !code.has_manager_function() {
            return Ok(Tests::None(
                "src/lib.rs has no `pub fn manager() -> Manager` that a test could run".to_owned(),
            ));
        }
        let path = format!("samples/{}.yaml", target.folder);
        let Ok(text) = std::fs::read_to_string(code.project.root.join(&path)) else {
            return Ok(Tests::None(format!(
                "it needs an object as in {path}, which is not there"
            )));
        };
        let samples = crate::api::yaml_documents(&text)
            .with_context(|| format!("{path} has no objects that a test could use"))?;
        let is_of_kind = |sample: &&Value| {
            let version = sample["apiVersion"].as_str().unwrap_or_default();
            sample["kind"] == target.kind.as_str()
                && version.split('/').next() == Some(&*target.stored.group)
        };
        let Some(sample) = samples.iter().find(is_of_kind) else {
            let kind = target.kind.as_str();
            return Ok(Tests::None(format!(
                "it needs an object, and {path} has no {kind}"
            )));
        };
        let version = format!("{}/{}", target.stored.group, target.stored.version);
        let mut fields = format!(
            "            \"apiVersion\": \"{version}\",\n            \"kind\": \"{}\",\n",
            target.kind.as_str()
        );
        for (name, value) in sample.as_object().into_iter().flatten() {
            if !["apiVersion", "kind", "metadata", "status"].contains(&&**name) {
                fields += &format!("            \"{name}\": {value},\n");
            }
        }
        Ok(Tests::With {
            fields,
            namespace: match target.stored.namespaced {
                true => " \"namespace\": \"default\"",
                false => "",
            },
        })
    }

    /// A template filled with tests, or without.
    fn fill(&self, values: &Values, template: &str, tests: &str) -> String {
        let tests = match self {
            Tests::With { fields, namespace } => values
                .clone()
                .with("json_fields", fields)
                .with("json_namespace", *namespace)
                .fill(tests),
            Tests::None(_) => String::new(),
        };
        let text = values.clone().with("tests", tests).fill(template);
        format!("{}\n", text.trim_end())
    }
}

fn add_function(
    code: &Code,
    target: &Target<'_>,
    part: &Part,
    tests: &Tests,
    edits: &mut Edits<'_>,
) -> Result<()> {
    let (folder, module) = (&target.folder, part.module);
    target.refuse_known(code, module)?;
    let path = format!("src/{folder}/{module}.rs");
    let text = tests.fill(&target.values(code), part.template, part.tests);
    edits.changes.create(NewFile::new(&path, text))?;
    let call = format!("{folder}::{module}::{}()", part.function);
    edits.by_hand(format!(
        "write the function and the webhook into {path}, as the guide's chapter on webhooks shows"
    ));
    edits.by_hand(format!("in the module `{folder}`:    pub mod {module};"));
    edits.by_hand(format!("after `Manager::new(…)`:  .webhook({call})"));
    edits.place(|edits| {
        let program = Program::find(&code.files)?;
        declare(code, target, module, edits)?;
        let call = format!(".webhook({})", code.path_from(&program, &call));
        let after = ["webhook", "serves", "defines", "version"];
        program.add(&after, &call, edits.splices(program.file));
        Ok(())
    })?;
    edits.note(format!("What it does is {path}."));
    Ok(())
}

fn add_conversions(
    code: &Code,
    target: &Target<'_>,
    versions: &[KindType<'_>],
    tests: &Tests,
    edits: &mut Edits<'_>,
) -> Result<()> {
    let (folder, kind) = (&target.folder, target.kind.as_str());
    target.refuse_known(code, "conversion")?;
    let others: Vec<_> = versions.iter().filter(|other| !other.is_stored).collect();
    if others.is_empty() {
        bail!(
            "{kind} has one version, and nothing to convert: add another with `sendo add version VERSION --of {kind}`"
        );
    }
    let (values, unmatched) = conversion_values(target.values(code), target.stored, &others)?;
    let path = format!("src/{folder}/conversion.rs");
    let text = tests.fill(
        &values,
        include_str!("../../templates/conversion.rs.in"),
        include_str!("../../templates/conversion_tests.rs.in"),
    );
    edits.changes.create(NewFile::new(&path, text))?;
    edits.by_hand(format!("write `impl Convert for …` for each version but {} into {path}, as the guide's chapter on webhooks shows", target.version));
    edits.by_hand(format!("in the module `{folder}`:    pub mod conversion;"));
    edits.by_hand("after `Manager::new(…)`:  `.serves::<…>()` in place of `.defines::<…>()` for each of these versions".to_owned());
    edits.place(|edits| {
        let program = Program::find(&code.files)?;
        declare(code, target, "conversion", edits)?;
        for other in &others {
            let module = other.file.module_path();
            let module =
                module.with_context(|| format!("{} is in no module", other.file.path.display()))?;
            let calls = program.calls_naming("defines", &code.project.library, &module);
            let [call] = calls[..] else {
                bail!(
                    "{} is not declared by one `.defines::<…>()`",
                    module.join("::")
                );
            };
            edits
                .splices(program.file)
                .replace(call.name_range(), "serves");
        }
        Ok(())
    })?;
    edits.note(format!("How versions are converted is {path}."));
    for field in unmatched {
        edits.note(format!("{field}: say in {path} what becomes of it."));
    }
    Ok(())
}

/// Declares a module in the kind's folder.
fn declare(code: &Code, target: &Target<'_>, module: &str, edits: &mut Edits<'_>) -> Result<()> {
    let folder = std::slice::from_ref(&target.folder);
    let parent = code.file(folder);
    let parent = parent.with_context(|| format!("there is no module `{}`", target.folder))?;
    parent.declare_module(module, edits.splices(parent));
    Ok(())
}
