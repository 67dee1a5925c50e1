//! OpenAPI documents of what a server serves.
//!
//! A server publishes an index at `/openapi/v3` and one document for each group
//! version. [`Publisher`] makes those of built-in resources, [`custom_document`]
//! those of custom ones; both are made anew on every call, for the caller knows
//! best how long to keep them. What a document says depends on nothing but its
//! arguments, so the index has a hash of those before the document is generated.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

use crate::resources::{Resource, Resources};
use crate::schema::Types;

mod binary;
mod components;
mod custom;
mod names;
mod operation;
mod parameter;
mod paths;
mod resolve;
mod sentences;
mod version_two;

pub use binary::version_two_binary;
pub use custom::{CustomResource, custom_document};
pub use resolve::resolve;
pub use version_two::version_two;

use components::Components;
use names::Names;
use operation::{MediaTypes, Operation, PathItem, ResponseBody};
use paths::{Origin, Served};

/// Finds the description of a type (`io.k8s.api.core.v1.Pod`) or of one of its
/// fields; none leaves it out.
///
/// Query parameters are asked for as fields of `ListOptions`, `DeleteOptions`
/// and the like of `io.k8s.apimachinery.pkg.apis.meta.v1`.
pub type Describe<'a> = &'a dyn Fn(&str, Option<&str>) -> Option<String>;

const VERSIONS: &str = "get available API versions";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Makes the documents of built-in resources.
pub struct Publisher<'a> {
    /// Where schemas come from.
    pub types: &'a Types,
    /// What is served.
    pub resources: &'a Resources,
    /// Where descriptions come from.
    pub describe: Describe<'a>,
}

impl Publisher<'_> {
    /// The paths of all documents below `/openapi/v3/`, sorted: `api`, `api/v1`,
    /// `apis`, `apis/apps`, `apis/apps/v1`, …, `version`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = vec!["apis".to_owned(), "version".to_owned()];
        for (group, versions) in self.resources.groups() {
            let root = match group {
                "" => "api".to_owned(),
                group => format!("apis/{group}"),
            };
            paths.extend(versions.iter().map(|version| format!("{root}/{version}")));
            paths.push(root);
        }
        paths.sort();
        paths
    }

    /// The document at a path; none if there is no such group version.
    pub fn document(&self, path: &str) -> Option<Value> {
        let parts: Vec<_> = path.split('/').collect();
        let served = |group: &str| self.resources.iter().any(|own| own.group == group);
        match parts[..] {
            ["version"] => {
                let answer = ResponseBody::object("io.k8s.apimachinery.pkg.version.Info");
                let media_types = MediaTypes {
                    protobuf: false,
                    yaml: false,
                };
                Some(self.root(
                    path,
                    ("getCodeVersion", "version"),
                    "get the version information for this server",
                    answer.over(media_types),
                ))
            }
            ["api"] => {
                let answer = ResponseBody::object(&format!("{META}.APIVersions"));
                Some(self.root(path, ("getCoreAPIVersions", "core"), VERSIONS, answer))
            }
            ["apis"] => {
                let answer = ResponseBody::object(&format!("{META}.APIGroupList"));
                Some(self.root(path, ("getAPIVersions", "apis"), VERSIONS, answer))
            }
            ["apis", group] if served(group) => {
                let names = Names::of_group(group);
                let answer = ResponseBody::object(&format!("{META}.APIGroup"));
                let id = format!("get{}APIGroup", names.id);
                Some(self.root(
                    path,
                    (&id, &names.tag),
                    "get information of a group",
                    answer,
                ))
            }
            ["api", version] => self.group_version("", version),
            ["apis", group, version] => self.group_version(group, version),
            _ => None,
        }
    }

    fn root(&self, path: &str, (id, tag): (&str, &str), said: &str, answer: ResponseBody) -> Value {
        let mut item = PathItem::default();
        let operation = Operation::new("get", id, tag).saying(said);
        item.add(operation.answering(200, answer));
        let paths = Map::from_iter([(format!("/{path}/"), item.render(self.describe))]);
        self.finish(
            paths,
            Components::new(self.types, self.describe, ("", "v1")),
        )
    }

    fn group_version(&self, group: &str, version: &str) -> Option<Value> {
        let resources: Vec<_> = self.resources.group_version(group, version).collect();
        let first = resources.first()?;
        let names = Names::of_version(group, version);
        let mut paths = Map::new();

        let mut item = PathItem::default();
        let answer = ResponseBody::object(&format!("{META}.APIResourceList"));
        let id = format!("get{}APIResources", names.id);
        let operation = Operation::new("get", &id, &names.tag).saying("get available resources");
        item.add(operation.answering(200, answer));
        let root = format!("{}/", base(first));
        paths.insert(root, item.render(self.describe));

        for resource in resources {
            let kind = self.types.kind(&resource.api_version(), &resource.kind);
            let object = self.types.name(kind?.type_id()?);
            let served = Served {
                resource,
                list: format!("{object}List"),
                object,
                origin: Origin::BuiltIn,
                types: self.types,
            };
            for (path, item) in served.paths(&names) {
                paths.insert(path, item.render(self.describe));
            }
        }
        let components = Components::new(self.types, self.describe, (group, version));
        Some(self.finish(paths, components))
    }

    fn finish(&self, paths: Map<String, Value>, components: Components<'_>) -> Value {
        let info = json!({"title": "Kubernetes", "version": "unversioned"});
        document(info, paths, components)
    }

    /// A hash that changes with the document at a path, without making it.
    pub fn hash(&self, path: &str) -> String {
        let version = env!("CARGO_PKG_VERSION");
        hash(&[version.as_bytes(), self.types.digest(), path.as_bytes()])
    }
}

/// The index at `/openapi/v3`: where each document is, with its hash.
pub fn index<P: AsRef<str>, H: AsRef<str>>(documents: impl IntoIterator<Item = (P, H)>) -> Value {
    let paths: Map<_, _> = documents
        .into_iter()
        .map(|(path, hash)| {
            let (path, hash) = (path.as_ref(), hash.as_ref());
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path.to_owned(), json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// A hash of several parts, in upper-case hexadecimal as servers show it.
pub fn hash(parts: &[&[u8]]) -> String {
    let mut digest = Sha512::new();
    for part in parts {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

/// The path below which a group version's resources lie: `/apis/apps/v1`.
fn base(resource: &Resource) -> String {
    let root = if resource.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    format!("{root}/{}", resource.api_version())
}

/// Joins paths and the schemas they refer to.
fn document(info: Value, paths: Map<String, Value>, mut components: Components<'_>) -> Value {
    let paths = Value::Object(paths);
    components.require(&paths);
    let token = json!({
        "BearerToken": {
            "description": "Bearer Token authentication",
            "in": "header",
            "name": "authorization",
            "type": "apiKey",
        },
    });
    json!({
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": components.finish(), "securitySchemes": token},
    })
}

#[cfg(test)]
mod tests;
