//! The files of new projects and kinds, filled from `templates/`.

use std::path::PathBuf;

use crate::names::{Api, ProgramName, article};

/// Whether objects of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// A file that is to be, by its path in the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl NewFile {
    pub(crate) fn new(path: impl Into<PathBuf>, text: String) -> Self {
        NewFile {
            path: path.into(),
            text,
        }
    }
}

/// The values of a template's `{{names}}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(Vec<(&'static str, String)>);

impl Values {
    /// Sets a value.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// Those of a program.
    pub(crate) fn for_program(name: &str, library: &str) -> Self {
        Values::default().with("name", name).with("crate", library)
    }

    /// Adds those of a kind.
    pub(crate) fn with_api(self, api: &Api, scope: Scope) -> Self {
        let (kind, module) = (api.kind.as_str(), api.kind.module());
        let (namespaced, set, mutable, sample, owned) = match scope {
            Scope::Namespaced => (
                "\n    namespaced,",
                format!("\n    {module}.metadata.namespace = Some(\"default\".to_owned());"),
                format!("mut {module}"),
                "\n  namespace: default",
                format!("{module}.metadata.namespace.clone()"),
            ),
            Scope::Cluster => (
                "",
                String::new(),
                module.clone(),
                "",
                "Some(\"default\".to_owned())".to_owned(),
            ),
        };
        self.with("a_module", format!("{}_{module}", article(&module)))
            .with("a_kind", api.kind.with_article())
            .with("group", api.group.as_str())
            .with("kind", kind)
            .with("module", module)
            .with("mut_module", mutable)
            .with("namespaced", namespaced)
            .with("owned_namespace", owned)
            .with("sample_namespace", sample)
            .with("set_namespace", set)
            .with("version", api.version.as_str())
    }

    /// Fills a template.
    ///
    /// # Panics
    /// If the template has a name without a value, which is a mistake in this program.
    pub(crate) fn fill(&self, template: &str) -> String {
        let mut filled = template.to_owned();
        for (name, value) in &self.0 {
            filled = filled.replace(&format!("{{{{{name}}}}}"), value);
        }
        let unfilled = filled.split("{{").nth(1).filter(|rest| rest.contains("}}"));
        assert!(
            unfilled.is_none(),
            "a template has a name without a value: {unfilled:?}"
        );
        filled
    }
}

/// The files of a kind of one's own: type, controller, test, sample.
pub(crate) fn kind_files(values: &Values, api: &Api) -> Vec<NewFile> {
    let module = api.kind.module();
    let version = api.version.as_str();
    let filled = |path: String, template: &str| NewFile::new(path, values.fill(template));
    vec![
        filled(
            format!("src/{module}/mod.rs"),
            include_str!("../templates/kind.rs.in"),
        ),
        filled(
            format!("src/{module}/{version}.rs"),
            include_str!("../templates/version.rs.in"),
        ),
        filled(
            format!("src/{module}/controller.rs"),
            include_str!("../templates/controller.rs.in"),
        ),
        filled(
            format!("tests/{module}.rs"),
            include_str!("../templates/test.rs.in"),
        ),
        filled(
            format!("samples/{module}.yaml"),
            include_str!("../templates/sample.yaml.in"),
        ),
    ]
}

/// The files of a new project with one kind.
pub(crate) fn project_files(values: &Values, api: &Api) -> Vec<NewFile> {
    let filled = |path: &str, template: &str| NewFile::new(path, values.fill(template));
    let mut files = vec![
        filled("Cargo.toml", include_str!("../templates/Cargo.toml.in")),
        filled("README.md", include_str!("../templates/README.md.in")),
        filled("Dockerfile", include_str!("../templates/Dockerfile.in")),
        filled(".gitignore", include_str!("../templates/gitignore.in")),
        filled(
            ".github/workflows/ci.yml",
            include_str!("../templates/ci.yml.in"),
        ),
        filled("src/main.rs", include_str!("../templates/main.rs.in")),
        filled("src/lib.rs", include_str!("../templates/lib.rs.in")),
    ];
    files.extend(kind_files(values, api));
    files
}

/// The values of a new project's files.
pub(crate) fn project_values(
    name: &ProgramName,
    api: &Api,
    scope: Scope,
    sendo: &str,
    sendo_test: &str,
    own_workspace: bool,
) -> Values {
    let workspace = match own_workspace {
        true => "\n\n# A workspace of its own, apart from the one in a folder above.\n[workspace]",
        false => "",
    };
    Values::for_program(name.as_str(), &name.library())
        .with_api(api, scope)
        .with("rust_version", env!("CARGO_PKG_RUST_VERSION"))
        .with("k8s_openapi", "0.29")
        .with("kube", "5")
        .with("sendo", sendo)
        .with("sendo_test", sendo_test)
        .with("workspace", workspace)
}
