//! What the API server serves.

use std::collections::BTreeMap;

use crate::object::Kind;

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServedKind {
    /// The kind, in the version the server prefers.
    pub kind: Kind,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with them: `get`, `list`, `watch`, `create`, …
    pub verbs: Vec<String>,
}

impl ServedKind {
    /// Whether `verb` can be done.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// All kinds that the API server serves now, each in its preferred version, in order.
pub async fn served_kinds(client: &kube::Client) -> Result<Vec<ServedKind>, kube::Error> {
    let mut groups = client.list_core_api_versions_aggregated().await?.items;
    groups.extend(client.list_api_groups_aggregated().await?.items);
    let mut kinds = BTreeMap::new();
    for group in groups {
        let name = group.metadata.and_then(|m| m.name).unwrap_or_default();
        for version in group.versions {
            for resource in version.resources {
                let kind = resource.response_kind.and_then(|kind| kind.kind);
                let (Some(version), Some(plural), Some(kind)) =
                    (version.version.clone(), resource.resource, kind)
                else {
                    continue;
                };
                let id = (name.clone(), plural.clone());
                // The version that the server prefers comes first.
                kinds.entry(id).or_insert_with(|| ServedKind {
                    kind: Kind {
                        group: name.clone(),
                        version,
                        kind,
                        plural,
                    },
                    namespaced: resource.scope.as_deref() == Some("Namespaced"),
                    verbs: resource.verbs,
                });
            }
        }
    }
    Ok(kinds.into_values().collect())
}
