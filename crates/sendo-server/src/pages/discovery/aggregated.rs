//! Aggregated discovery: groups, versions, resources and subresources in one document.

use sendo_apimachinery::resources::{Resource as Facts, Scope, Subresource};
use serde::Serialize;
use serde_json::Value;

use super::is_foreign;
use crate::catalog::Catalog;
use crate::catalog::remote::ServedVersion;
use crate::request::negotiate::Encoding;

/// Its media type in an encoding.
pub(crate) fn media_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Encoding::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
    }
}

/// Which half of the groups a document lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all the others.
    Named,
}

/// The document for one half. It is the first that most clients ask for, and refers
/// to the facts it is made of.
pub(crate) fn document(catalog: &Catalog, half: Half) -> impl Serialize + use<'_> {
    let names = match half {
        Half::Core => vec![""],
        Half::Named => catalog.group_names(),
    };
    let groups = names.into_iter();
    let items = groups
        .map(|name| GroupDiscovery::new(catalog, name))
        .collect();
    GroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Metadata { name: "" },
        items,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupDiscoveryList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    items: Vec<GroupDiscovery<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct GroupDiscovery<'a> {
    metadata: Metadata<'a>,
    versions: Vec<VersionDiscovery<'a>>,
}

impl<'a> GroupDiscovery<'a> {
    fn new(catalog: &'a Catalog, name: &'a str) -> Self {
        let versions = catalog.versions(name).into_iter();
        GroupDiscovery {
            metadata: Metadata { name },
            versions: versions.map(VersionDiscovery::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct VersionDiscovery<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourceList<'a>>,
    freshness: &'static str,
}

/// The resources of a version.
#[derive(Serialize)]
#[serde(untagged)]
enum ResourceList<'a> {
    Here(Vec<ResourceDiscovery<'a>>),
    /// As the server that serves them says.
    Elsewhere(&'a Value),
}

impl<'a> VersionDiscovery<'a> {
    fn new(version: ServedVersion<'a>) -> Self {
        match version {
            ServedVersion::Here(version, resources) => {
                let resources = resources.iter();
                let resources =
                    resources.map(|it| ResourceDiscovery::new(&it.facts, it.typed_items));
                VersionDiscovery {
                    version,
                    resources: Some(ResourceList::Here(resources.collect())),
                    freshness: "Current",
                }
            }
            ServedVersion::Elsewhere(remote) => {
                let documents = &remote.documents;
                let resources = documents.resources.as_deref();
                VersionDiscovery {
                    version: &remote.version,
                    resources: resources.map(ResourceList::Elsewhere),
                    freshness: if documents.is_fresh {
                        "Current"
                    } else {
                        "Stale"
                    },
                }
            }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery<'a> {
    resource: &'a str,
    response_kind: Kind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery<'a>>,
}

impl<'a> ResourceDiscovery<'a> {
    /// `full`: custom resources name group and version of their kinds, built-in ones leave them empty.
    fn new(facts: &'a Facts, full: bool) -> Self {
        let subresource = |own: &'a Subresource| SubresourceDiscovery {
            subresource: &own.name,
            response_kind: Kind::new(
                &own.group,
                &own.version,
                &own.kind,
                full || is_foreign(facts, own),
            ),
            verbs: &own.verbs,
        };
        ResourceDiscovery {
            resource: &facts.plural,
            response_kind: Kind::new(&facts.group, &facts.version, &facts.kind, full),
            scope: match facts.scope {
                Scope::Namespaced => "Namespaced",
                Scope::Cluster => "Cluster",
            },
            singular_resource: &facts.singular,
            verbs: &facts.verbs,
            short_names: &facts.short_names,
            categories: &facts.categories,
            subresources: facts.subresources.iter().map(subresource).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery<'a> {
    subresource: &'a str,
    response_kind: Kind<'a>,
    verbs: &'a [String],
}

#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> Kind<'a> {
    fn new(group: &'a str, version: &'a str, kind: &'a str, full: bool) -> Self {
        let shown = |text| if full { text } else { "" };
        Kind {
            group: shown(group),
            version: shown(version),
            kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(half: Half, name: &str) -> Value {
        let document = serde_json::to_value(document(&Catalog::builtin(), half)).unwrap();
        let mut groups = document["items"].as_array().unwrap().iter();
        let found = groups.find(|group| group["metadata"]["name"].as_str().unwrap_or("") == name);
        found.cloned().unwrap_or_else(|| panic!("no group {name}"))
    }

    #[test]
    fn a_resource_tells_how_it_is_called_and_what_can_be_done_with_it() {
        let core = group(Half::Core, "");
        assert_eq!(core["metadata"], json!({}));
        let version = &core["versions"][0];
        assert_eq!(
            (&version["version"], &version["freshness"]),
            (&json!("v1"), &json!("Current"))
        );
        let mut resources = version["resources"].as_array().unwrap().iter();
        let services = resources.find(|own| own["resource"] == "services").unwrap();
        assert_eq!(
            services["responseKind"],
            json!({"group": "", "version": "", "kind": "Service"})
        );
        assert_eq!(services["scope"], "Namespaced");
        assert_eq!(services["singularResource"], "service");
        assert_eq!(services["shortNames"], json!(["svc"]));
        assert_eq!(services["categories"], json!(["all"]));
        assert!(
            services["verbs"]
                .as_array()
                .unwrap()
                .contains(&json!("watch"))
        );
    }

    #[test]
    fn a_kind_of_another_group_is_named_in_full() {
        let apps = group(Half::Named, "apps");
        let mut resources = apps["versions"][0]["resources"].as_array().unwrap().iter();
        let deployments = resources
            .find(|own| own["resource"] == "deployments")
            .unwrap();
        let kind = |name: &str| {
            let mut all = deployments["subresources"].as_array().unwrap().iter();
            all.find(|own| own["subresource"] == name).unwrap()["responseKind"].clone()
        };
        assert_eq!(
            kind("scale"),
            json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
        );
        assert_eq!(
            kind("status"),
            json!({"group": "", "version": "", "kind": "Deployment"})
        );
    }
}
