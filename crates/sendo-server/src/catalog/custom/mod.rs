//! Custom resources: turns stored definitions into the resources that the server serves.
//!
//! An established definition becomes one [`Resource`] per served version in the catalog, and the
//! same verbs serve it as built-in kinds. [`Custom`] holds what is specific to a version;
//! [`crate::own_controllers::definitions`] creates and removes the resources.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`:
//!   `getOrCreateServingInfoFor`, `defaultDeprecationWarning`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_discovery_controller.go`:
//!   `sync`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/helpers.go`: `getColumnsForVersion`

pub(crate) mod deletion;
pub(crate) mod names;
mod rules;
pub(crate) mod synced;
mod validate;
mod versions;

use sendo_apimachinery::jsonpath::JsonPath;
use sendo_apimachinery::resources::{
    Column, Resource as Facts, Scope, Storage, Subresource, storage_version_hash,
};
use sendo_store::Revision;
use sendo_world::Stop;
use serde_json::Value;
use std::sync::Arc;

use crate::catalog::Resource;
use crate::catalog::keys::Keys;
use crate::catalog::stored_form::TypeMeta;

pub(crate) use rules::{Custom, RULES, ScalePaths};
pub(crate) use validate::{validate_create, validate_status, validate_update};
pub(crate) use versions::{ConversionWebhook, Versions};

/// The API group of CustomResourceDefinitions.
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
/// The plural name of CustomResourceDefinitions.
pub(crate) const PLURAL: &str = "customresourcedefinitions";

/// What the resources of a definition share in addition to the definition itself.
pub(crate) struct DefinitionState {
    /// The revision at which the definition was created: no object is older.
    pub(crate) since: Revision,
    /// The revision at which its schemas last changed: objects stored earlier may not conform to
    /// them.
    pub(crate) schema_since: Revision,
    /// Whether it is being deleted.
    pub(crate) terminating: bool,
    /// Cancelled to end watches.
    pub(crate) gone: Stop,
}

/// The verbs of custom resources, in the order of discovery.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The resources of an established definition, one for each served version.
pub(crate) fn resources(definition: &Value, state: &DefinitionState) -> Vec<Resource> {
    let Some(versions) = Versions::from_definition(definition).map(Arc::new) else {
        return Vec::new();
    };
    let all = definition["spec"]["versions"].as_array();
    let mut served: Vec<&Value> = all
        .into_iter()
        .flatten()
        .filter(|version| version["served"] == true)
        .collect();
    served.sort_by_key(|version| crate::catalog::version_priority::rank(text(&version["name"])));
    served
        .iter()
        .filter_map(|version| resource(definition, version, &versions, state))
        .collect()
}

/// The resource of a definition as if it stored this version only, whether it serves it or not:
/// that by which its objects are deleted, so that no webhook has to convert them.
pub(crate) fn resource_as_stored(
    definition: &Value,
    name: &str,
    state: &DefinitionState,
) -> Option<Resource> {
    let mut definition = definition.clone();
    definition["spec"]["conversion"] = Value::Null;
    for version in definition["spec"]["versions"].as_array_mut()? {
        version["storage"] = (version["name"] == name).into();
    }
    let versions = Arc::new(Versions::from_definition(&definition)?);
    let mut all = definition["spec"]["versions"].as_array()?.iter();
    let version = all.find(|own| own["name"] == name)?;
    resource(&definition, version, &versions, state)
}

fn resource(
    definition: &Value,
    version: &Value,
    versions: &Arc<Versions>,
    state: &DefinitionState,
) -> Option<Resource> {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let (group, kind) = (text(&spec["group"]), text(&names["kind"]));
    let name = text(&version["name"]);
    let storage_name = versions.storage().api_version.rsplit('/').next();
    let storage_name = storage_name.unwrap_or_default();
    let scope = if spec["scope"] == "Namespaced" {
        Scope::Namespaced
    } else {
        Scope::Cluster
    };
    let columns = columns(version);
    let facts = Facts {
        group: group.to_owned(),
        version: name.to_owned(),
        plural: text(&names["plural"]).to_owned(),
        singular: text(&names["singular"]).to_owned(),
        kind: kind.to_owned(),
        scope,
        returns_deleted: false,
        feature: None,
        verbs: VERBS.map(str::to_owned).into(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        subresources: subresources(version, group, name, kind),
        storage: Some(Storage {
            group: group.to_owned(),
            version: storage_name.to_owned(),
            hash: storage_version_hash(group, storage_name, kind),
        }),
        columns: columns.iter().map(|(column, _)| column.clone()).collect(),
    };
    let schema = &version["schema"]["openAPIV3Schema"];
    let types = TypeMeta::new(group, name, kind);
    let own = versions.find(&types.api_version)?;
    let custom = Custom {
        definition: text(&definition["metadata"]["name"]).to_owned(),
        types: types.clone(),
        schema: Arc::clone(&own.schema),
        expressions: Arc::clone(&own.expressions),
        versions: Arc::clone(versions),
        published: schema.clone(),
        has_status: version["subresources"]
            .get("status")
            .is_some_and(|status| !status.is_null()),
        scale: ScalePaths::from_version(version),
        columns: columns.into_iter().map(|(_, path)| path).collect(),
        descriptions: descriptions(version),
        selectable: selectable(version),
        deprecation: deprecation(definition, version),
        since: state.since,
        schema_since: state.schema_since,
        terminating: state.terminating,
        gone: state.gone.clone(),
    };
    Some(Resource {
        list_kind: text(&names["listKind"]).to_owned(),
        keys: Keys::new(group, &facts.plural, scope == Scope::Namespaced),
        stored: types.clone(),
        types,
        typed_items: true,
        rules: &RULES,
        custom: Some(Box::new(custom)),
        facts,
    })
}

fn subresources(version: &Value, group: &str, name: &str, kind: &str) -> Vec<Subresource> {
    let enabled = |own: &str| {
        version["subresources"]
            .get(own)
            .is_some_and(|own| !own.is_null())
    };
    let kinds = [
        ("status", kind, group, name),
        ("scale", "Scale", "autoscaling", "v1"),
    ];
    let subresource = |(name, kind, group, version): (&str, &str, &str, &str)| Subresource {
        name: name.to_owned(),
        kind: kind.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        verbs: SUBRESOURCE_VERBS.map(str::to_owned).into(),
        plain_text: false,
        query: Vec::new(),
    };
    kinds
        .into_iter()
        .filter(|(name, ..)| enabled(name))
        .map(subresource)
        .collect()
}

/// The table columns of a version: the name, then its `additionalPrinterColumns`, or the age if it
/// has none.
fn columns(version: &Value) -> Vec<(Column, Option<JsonPath>)> {
    let column = |name: &str, kind: &str, format: &str, priority: i32| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        priority,
    };
    let mut columns = vec![(column("Name", "string", "name", 0), None)];
    match version["additionalPrinterColumns"]
        .as_array()
        .filter(|named| !named.is_empty())
    {
        None => {
            let age = JsonPath::parse(".metadata.creationTimestamp").ok();
            columns.push((column("Age", "date", "", 0), age));
        }
        Some(named) => columns.extend(named.iter().map(|own| {
            let priority = own["priority"].as_i64().unwrap_or(0) as i32;
            let described = column(
                text(&own["name"]),
                text(&own["type"]),
                text(&own["format"]),
                priority,
            );
            (described, JsonPath::parse(text(&own["jsonPath"])).ok())
        })),
    }
    columns
}

/// The descriptions of the columns: those of the definition, else their JSON paths.
fn descriptions(version: &Value) -> Vec<String> {
    let named = version["additionalPrinterColumns"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let sentence = |own: &Value| match text(&own["description"]) {
        "" => format!(
            "Custom resource definition column (in JSONPath format): {}",
            text(&own["jsonPath"])
        ),
        own => own.to_owned(),
    };
    std::iter::once(String::new())
        .chain(named.iter().map(sentence))
        .collect()
}

fn selectable(version: &Value) -> Vec<(String, JsonPath)> {
    let fields = version["selectableFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let field = |own: &Value| {
        let path = text(&own["jsonPath"]);
        Some((
            path.trim_start_matches('.').to_owned(),
            JsonPath::parse(path).ok()?,
        ))
    };
    fields.iter().filter_map(field).collect()
}

/// The warning of a deprecated version.
fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(own) = version["deprecationWarning"].as_str() {
        return Some(own.to_owned());
    }
    let spec = &definition["spec"];
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let old = format!("{group}/{} {kind} is deprecated", text(&version["name"]));
    let versions = spec["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let newer = versions
        .iter()
        .filter(|own| own["served"] == true && own["deprecated"] != true)
        .map(|own| text(&own["name"]))
        .filter(|own| {
            crate::catalog::version_priority::rank(own)
                < crate::catalog::version_priority::rank(text(&version["name"]))
        })
        .min_by_key(|own| crate::catalog::version_priority::rank(own));
    Some(match newer {
        Some(newer) => format!("{old}; use {group}/{newer} {kind}"),
        None => old,
    })
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| Some(item.as_str()?.to_owned()))
        .collect()
}
