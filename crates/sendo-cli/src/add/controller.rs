//! `sendo add controller`: a controller for a kind that is there.

use anyhow::{Result, bail};
use clap::Args;
use sendo_apimachinery::resources::{Resource, Resources, Scope};

use super::minimal::minimal_fields;
use crate::edit::{Code, EditFlags, Edits};
use crate::names::{Kind, KindRef, article};
use crate::syntax::Program;
use crate::template::{NewFile, Values};

/// Add a controller for a kind that is there: one of Kubernetes, or of this project
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sendo add controller --for apps/v1/Deployment
  sendo add controller --for v1/Secret                 the core group has no name
  sendo add controller --for example.dev/v1/Bar        a kind of the project without one")]
pub(super) struct AddController {
    /// The kind, as GROUP/VERSION/KIND
    #[arg(long = "for", value_name = "GROUP/VERSION/KIND")]
    kind: KindRef,

    #[command(flatten)]
    flags: EditFlags,
}

/// A kind to write a controller for.
struct Target {
    kind: Kind,
    /// The folder of its code, as a module.
    module: String,
    /// The path of its type inside and outside of the library.
    type_path: [String; 2],
    scope: Scope,
}

impl AddController {
    pub(super) fn run(self) -> Result<()> {
        let code = Code::here()?;
        let target = self.target(&code)?;
        let module = &target.module;
        let folder = code.file(std::slice::from_ref(module));
        if code
            .project
            .root
            .join("src")
            .join(module)
            .join("controller.rs")
            .exists()
            || folder.is_some_and(|file| file.module("controller").is_some())
        {
            bail!("{} has a controller already, in src/{module}", self.kind);
        }
        let values = target.values(&code);
        let filled = |path: String, template: &str| NewFile::new(path, values.fill(template));
        let mut edits = Edits::new(&code);
        let controller = include_str!("../../templates/for_controller.rs.in");
        let mut files = vec![filled(format!("src/{module}/controller.rs"), controller)];
        if folder.is_none() {
            files.push(filled(
                format!("src/{module}/mod.rs"),
                include_str!("../../templates/for_mod.rs.in"),
            ));
        }
        let test = code.project.root.join(format!("tests/{module}.rs"));
        let is_known = minimal_fields(target.kind.as_str()).is_some();
        if is_known && !test.exists() && code.has_manager_function() {
            files.push(filled(
                format!("tests/{module}.rs"),
                include_str!("../../templates/for_test.rs.in"),
            ));
        } else {
            edits.note(format!("There is no test of it: write one as in tests, with {} {} that the API server takes.", article(target.kind.as_str()), target.kind.as_str()));
        }
        edits.create_all(files)?;
        edits.add_dependencies()?;

        edits.by_hand(format!("in src/lib.rs:            pub mod {module};"));
        edits.by_hand(format!("in src/{module}/mod.rs:  pub mod controller;"));
        edits.by_hand(format!(
            "after `Manager::new(…)`:  .controller({module}::controller::controller())"
        ));
        edits.place(|edits| {
            let program = Program::find(&code.files)?;
            match folder {
                Some(file) => file.declare_module("controller", edits.splices(file)),
                None => {
                    let root = code.root()?;
                    root.declare_module(module, edits.splices(root));
                }
            }
            let path = code.path_from(&program, &format!("{module}::controller::controller()"));
            let splices = edits.splices(program.file);
            program.add(
                &["controller", "defines", "version"],
                &format!(".controller({path})"),
                splices,
            );
            Ok(())
        })?;
        edits.note(format!(
            "What is done about {} is src/{module}/controller.rs.",
            target.kind.as_str()
        ));
        edits.finish(self.flags)
    }

    fn target(&self, code: &Code) -> Result<Target> {
        let wanted = &self.kind;
        let is_wanted = |group: &str, version: &str, kind: &str| {
            group == wanted.group && version == wanted.version && kind == wanted.kind
        };
        let own = code.kinds();
        let own = own
            .iter()
            .find(|own| is_wanted(&own.group, &own.version, &own.kind));
        if let Some(own) = own
            && let Some(module) = own.file.module_path()
            && let Some(folder) = module.first()
        {
            let path = format!("{}::{}", module.join("::"), own.type_name);
            return Ok(Target {
                kind: own.kind.parse()?,
                module: folder.clone(),
                type_path: [
                    format!("crate::{path}"),
                    format!("{}::{path}", code.project.library),
                ],
                scope: match own.namespaced {
                    true => Scope::Namespaced,
                    false => Scope::Cluster,
                },
            });
        }
        let builtin = Resources::builtin();
        let found = builtin.by_kind(&wanted.group, &wanted.version, &wanted.kind);
        let Some(resource) = found.filter(|resource| resource.has_verb("watch")) else {
            let of_name = builtin
                .iter()
                .filter(|other| other.kind == wanted.kind && other.has_verb("watch"));
            let others: Vec<_> = of_name
                .map(|other| format!("{}/{}", other.api_version(), other.kind))
                .collect();
            match others.is_empty() {
                true => bail!(
                    "{wanted} is no kind of Kubernetes, and none of this project: `sendo add api` makes a kind; for one of another program, write its type with #[derive(CustomResource)] in src, and run this again"
                ),
                false => bail!(
                    "{wanted} is no kind of Kubernetes that can be watched; there is {}",
                    others.join(", ")
                ),
            }
        };
        let kind = Kind::built_in(&resource.kind);
        let path = type_path(resource);
        Ok(Target {
            module: kind.module(),
            kind,
            type_path: [path.clone(), path],
            scope: resource.scope,
        })
    }
}

impl Target {
    fn values(&self, code: &Code) -> Values {
        let [inside, outside] = &self.type_path;
        let kind = self.kind.as_str();
        let fields = minimal_fields(kind).unwrap_or_default();
        let fields: String = fields
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("        \"{name}\": {value},\n"))
            .collect();
        let namespace = match self.scope {
            Scope::Namespaced => " \"namespace\": \"default\",",
            Scope::Cluster => "",
        };
        Values::for_program(&code.project.name, &code.project.library)
            .with("a_kind", self.kind.with_article())
            .with(
                "a_module",
                format!("{}_{}", article(&self.module), self.module),
            )
            .with("json_namespace", namespace)
            .with("json_spec", fields)
            .with("kind", kind)
            .with("kinds", plural(kind))
            .with("module", &*self.module)
            .with("type_path", inside)
            .with("type_path_outside", outside)
    }
}

/// The type of a built-in kind in `k8s-openapi`.
fn type_path(resource: &Resource) -> String {
    let group = match resource.group.as_str() {
        "" => "api::core".to_owned(),
        "apiextensions.k8s.io" => "apiextensions_apiserver::pkg::apis::apiextensions".to_owned(),
        "apiregistration.k8s.io" => "kube_aggregator::pkg::apis::apiregistration".to_owned(),
        other => format!("api::{}", other.split('.').next().unwrap_or(other)),
    };
    format!(
        "k8s_openapi::{group}::{}::{}",
        resource.version, resource.kind
    )
}

/// The kind's name for several objects.
fn plural(kind: &str) -> String {
    match kind {
        _ if kind.ends_with("ss") || kind.ends_with('x') => format!("{kind}es"),
        _ if kind.ends_with('s') => kind.to_owned(),
        _ => match kind.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
            _ => format!("{kind}s"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_built_in_kinds_follow_from_their_groups() {
        let builtin = Resources::builtin();
        for (group, version, kind, path) in [
            ("", "v1", "Secret", "k8s_openapi::api::core::v1::Secret"),
            (
                "apps",
                "v1",
                "Deployment",
                "k8s_openapi::api::apps::v1::Deployment",
            ),
            (
                "rbac.authorization.k8s.io",
                "v1",
                "Role",
                "k8s_openapi::api::rbac::v1::Role",
            ),
        ] {
            let resource = builtin.by_kind(group, version, kind).unwrap();
            assert_eq!(type_path(resource), path);
        }
        assert_eq!(plural("NetworkPolicy"), "NetworkPolicies");
        assert_eq!(plural("Ingress"), "Ingresses");
        assert_eq!(plural("Gateway"), "Gateways");
    }
}
