//! Discovery: lists the groups, versions and resources that are served.

pub(crate) mod aggregated;

use sendo_apimachinery::resources::{Resource as Facts, Scope, Subresource};
use serde_json::{Value, json};

use crate::catalog::{Catalog, Group};

/// `/api`: the versions of the core group.
///
/// `address` is where the client has found the server.
pub(crate) fn core_versions(catalog: &Catalog, address: &str) -> Value {
    let versions: Vec<&str> = catalog
        .group("")
        .into_iter()
        .flat_map(Group::versions)
        .collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: the groups, by priority.
pub(crate) fn groups(catalog: &Catalog) -> Value {
    let names = catalog.group_names().into_iter();
    let groups: Vec<Value> = names.map(|name| describe(catalog, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`.
pub(crate) fn group(catalog: &Catalog, name: &str) -> Option<Value> {
    if catalog.versions(name).is_empty() {
        return None;
    }
    let mut document = describe(catalog, name);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

/// A group with its versions, wherever they are served.
fn describe(catalog: &Catalog, name: &str) -> Value {
    let version = |version: &str| json!({"groupVersion": join(name, version), "version": version});
    let served = catalog.versions(name).into_iter();
    let versions: Vec<Value> = served.map(|served| version(served.name())).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

/// `/api/v1`, `/apis/<group>/<version>`: the resources of a version.
pub(crate) fn resources(group: &Group, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for resource in group.resources(version)? {
        let facts = &resource.facts;
        list.push(describe_resource(facts));
        for subresource in &facts.subresources {
            list.push(describe_subresource(facts, subresource));
        }
    }
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": join(&group.name, version),
        "resources": list,
    });
    if !group.name.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

fn describe_resource(facts: &Facts) -> Value {
    let mut out = json!({
        "name": facts.plural,
        "singularName": facts.singular,
        "namespaced": facts.scope == Scope::Namespaced,
        "kind": facts.kind,
        "verbs": facts.verbs,
    });
    put_list(&mut out, "shortNames", &facts.short_names);
    put_list(&mut out, "categories", &facts.categories);
    if let Some(storage) = &facts.storage {
        out["storageVersionHash"] = storage.hash.as_str().into();
    }
    out
}

fn describe_subresource(facts: &Facts, subresource: &Subresource) -> Value {
    let mut out = json!({
        "name": format!("{}/{}", facts.plural, subresource.name),
        "singularName": "",
        "namespaced": facts.scope == Scope::Namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    });
    if is_foreign(facts, subresource) {
        out["group"] = subresource.group.as_str().into();
        out["version"] = subresource.version.as_str().into();
        if subresource.group.is_empty() {
            out.as_object_mut().map(|members| members.remove("group"));
        }
    }
    out
}

/// Whether a subresource speaks a kind of another group or version.
fn is_foreign(facts: &Facts, subresource: &Subresource) -> bool {
    (&subresource.group, &subresource.version) != (&facts.group, &facts.version)
}

fn put_list(out: &mut Value, name: &str, items: &[String]) {
    if !items.is_empty() {
        out[name] = items.into();
    }
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_prefers_its_first_version() {
        let catalog = Catalog::builtin();
        let document = group(&catalog, "autoscaling").unwrap();
        assert_eq!(document["preferredVersion"]["version"], "v2");
        assert_eq!(document["versions"][1]["groupVersion"], "autoscaling/v1");
    }

    #[test]
    fn a_scale_names_its_own_group() {
        let catalog = Catalog::builtin();
        let list = resources(catalog.group("apps").unwrap(), "v1").unwrap();
        let found = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|own| own["name"] == "deployments/scale");
        assert_eq!(found.unwrap()["group"], "autoscaling");
    }
}
