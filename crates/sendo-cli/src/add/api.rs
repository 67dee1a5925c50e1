//! `sendo add api`: a kind of one's own, with its controller.

use anyhow::{Result, bail};
use clap::Args;

use crate::edit::{Code, EditFlags, Edits};
use crate::names::Api;
use crate::syntax::Program;
use crate::template::{Scope, Values, kind_files};

/// Add a kind of your own: its type, a controller, a test and a sample
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sendo add api example.dev/v1alpha1/Bar
  sendo add api example.dev/v1/Fleet --cluster-scoped")]
pub(super) struct AddApi {
    /// The kind, as GROUP/VERSION/KIND
    #[arg(value_name = "GROUP/VERSION/KIND")]
    api: Api,

    /// Objects of the kind are in no namespace
    #[arg(long)]
    cluster_scoped: bool,

    #[command(flatten)]
    flags: EditFlags,
}

impl AddApi {
    pub(super) fn run(self) -> Result<()> {
        let code = Code::here()?;
        let (api, module) = (&self.api, self.api.kind.module());
        refuse_known(&code, api, &module)?;
        let scope = match self.cluster_scoped {
            true => Scope::Cluster,
            false => Scope::Namespaced,
        };
        let values =
            Values::for_program(&code.project.name, &code.project.library).with_api(api, scope);
        let mut edits = Edits::new(&code);
        let mut files = kind_files(&values, api);
        if !code.has_manager_function() {
            files.retain(|file| !file.path.starts_with("tests"));
            edits.note("There is no test of it: src/lib.rs has no `pub fn manager() -> Manager` that a test could run.");
        }
        edits.create_all(files)?;
        edits.add_dependencies()?;

        let path = format!("{module}::{}::{}", api.version.as_str(), api.kind.as_str());
        edits.by_hand(format!("in src/lib.rs:               pub mod {module};"));
        edits.by_hand(format!("after `Manager::new(…)`:     .defines::<{path}>()"));
        edits.by_hand(format!(
            "                             .controller({module}::controller::controller())"
        ));
        edits.by_hand(format!("and `sendo new DIR --kind {} --group {} --version {}` elsewhere makes the files to copy: src/{module}, tests/{module}.rs, samples/{module}.yaml",
            api.kind.as_str(), api.group.as_str(), api.version.as_str()));
        edits.place(|edits| {
            let program = Program::find(&code.files)?;
            let root = code.root()?;
            root.declare_module(&module, edits.splices(root));
            let path = code.path_from(&program, &path);
            let controller =
                code.path_from(&program, &format!("{module}::controller::controller()"));
            let splices = edits.splices(program.file);
            program.add(
                &["defines", "version"],
                &format!(".defines::<{path}>()"),
                splices,
            );
            let controller = format!(".controller({controller})");
            program.add(&["controller", "defines", "version"], &controller, splices);
            Ok(())
        })?;
        edits.note(format!(
            "{} is src/{module}/{}.rs, and what is done about it src/{module}/controller.rs.",
            api.kind.as_str(),
            api.version.as_str()
        ));
        edits.finish(self.flags)
    }
}

/// A kind that is there, or a module of its name, is not written over.
fn refuse_known(code: &Code, api: &Api, module: &str) -> Result<()> {
    let kinds = code.kinds();
    let same = |known: &&crate::syntax::KindType<'_>| {
        known.kind == api.kind.as_str() && known.group == api.group.as_str()
    };
    if let Some(known) = kinds.iter().find(same) {
        let place = known.file.path.display();
        if known.version == api.version.as_str() {
            bail!("{api} is there already, in {place}");
        }
        bail!(
            "{} is there already, in {place}: add the version with `sendo add version {} --of {}`",
            known.kind,
            api.version.as_str(),
            known.kind
        );
    }
    if code.root()?.module(module).is_some() || code.project.root.join("src").join(module).exists()
    {
        bail!(
            "the module `{module}` is there already, in src: take another name for the kind, as in `My{}`",
            api.kind.as_str()
        );
    }
    Ok(())
}
