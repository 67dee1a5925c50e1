//! The kinds that a policy matches, with the types that their schemas declare.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go`:
//!   `typesToCheck`, `paramsGVK`, `declType`
//! - `staging/src/k8s.io/client-go/restmapper/discovery.go`: `NewDiscoveryRESTMapper`

use std::collections::{BTreeMap, BTreeSet};

use sendo::Context;
use sendo_apimachinery::cel::{Declared, Type};
use sendo_apimachinery::structural::Structural;
use sendo_apimachinery::{GroupVersion, GroupVersionKind, openapi};
use serde_json::Value;

/// How many kinds of one rule are checked.
const MOST_KINDS: usize = 10;

/// A kind and the type of its objects.
#[derive(Debug)]
pub(super) struct DeclaredKind {
    pub(super) kind: GroupVersionKind,
    pub(super) declared: Type,
}

impl DeclaredKind {
    /// As Go shows it.
    pub(super) fn shown(&self) -> String {
        format!(
            "{}, Kind={}",
            version_path(&self.kind.group_version()),
            self.kind.kind
        )
    }
}

/// Group and version with a slash between them, even of the core group.
fn version_path(version: &GroupVersion) -> String {
    format!("{}/{}", version.group, version.version)
}

/// What the API server publishes of its kinds, read as it is needed.
pub(super) struct Schemas<'a> {
    cx: &'a Context,
    documents: BTreeMap<GroupVersion, Option<Value>>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(cx: &'a Context) -> Self {
        Schemas {
            cx,
            documents: BTreeMap::new(),
        }
    }

    /// The type of a kind; `None` where no schema is published, or none that can be declared.
    async fn declared(&mut self, kind: &GroupVersionKind) -> Option<Type> {
        let version = kind.group_version();
        if !self.documents.contains_key(&version) {
            let document = self.read(&format!("/openapi/v3{}", base(&version))).await;
            self.documents.insert(version.clone(), document);
        }
        let document = self.documents.get(&version)?.as_ref()?;
        declare(&openapi::resolve(document, kind)?)
    }

    /// The kinds of a resource, which may be named in the singular.
    async fn kinds_of(&self, version: &GroupVersion, resource: &str) -> BTreeSet<String> {
        let Some(list) = self.read(&base(version)).await else {
            return BTreeSet::new();
        };
        let resources = list["resources"].as_array().into_iter().flatten();
        let text = |of: &Value, member: &str| of[member].as_str().unwrap_or_default().to_owned();
        let is_meant = |of: &&Value| {
            let (plural, singular) = (text(of, "name"), text(of, "singularName"));
            plural == resource || (!singular.is_empty() && singular == resource)
        };
        resources
            .filter(is_meant)
            .map(|of| text(of, "kind"))
            .collect()
    }

    /// A document of the API server; `None` if it has none, or does not answer.
    async fn read(&self, path: &str) -> Option<Value> {
        let request = http::Request::get(path).body(Vec::new()).ok()?;
        let answer = self.cx.kube().request::<Value>(request).await;
        let logged = answer.inspect_err(|error| tracing::debug!(path, %error, "no such document"));
        logged.ok()
    }
}

/// The path of a group version.
fn base(version: &GroupVersion) -> String {
    match version.group.as_str() {
        "" => format!("/api/{}", version.version),
        group => format!("/apis/{group}/{}", version.version),
    }
}

/// The type of objects with a schema.
pub(super) fn declare(schema: &Value) -> Option<Type> {
    let declared = Declared::from_schema(&Structural::from_json(schema), true)?;
    Some(declared.kind)
}

/// The type of a policy's parameters; `None` if it has none.
pub(super) async fn of_params(spec: &Value, schemas: &mut Schemas<'_>) -> Option<Type> {
    let kind = &spec["paramKind"];
    let version = GroupVersion::parse(kind["apiVersion"].as_str()?)?;
    let kind = version.with_kind(kind["kind"].as_str()?);
    Some(schemas.declared(&kind).await.unwrap_or(Type::Dyn))
}

/// The kinds that the rules of a policy name, those with a schema, in order. Rules with wildcards
/// name none.
pub(super) async fn matched(spec: &Value, schemas: &mut Schemas<'_>) -> Vec<DeclaredKind> {
    let rules = spec["matchConstraints"]["resourceRules"].as_array();
    let mut kinds = BTreeSet::new();
    for rule in rules.into_iter().flatten() {
        if named(rule, schemas, &mut kinds).await == MOST_KINDS {
            break;
        }
    }
    let mut matched = Vec::new();
    for (group, version, kind) in kinds {
        let kind = GroupVersionKind::new(group, version, kind);
        if let Some(declared) = schemas.declared(&kind).await {
            matched.push(DeclaredKind { kind, declared });
        }
    }
    matched
}

/// Adds the kinds that a rule names; returns how many these are.
async fn named(
    rule: &Value,
    schemas: &Schemas<'_>,
    kinds: &mut BTreeSet<(String, String, String)>,
) -> usize {
    let mut count = 0;
    let (groups, versions) = (texts(&rule["apiGroups"]), texts(&rule["apiVersions"]));
    if groups
        .iter()
        .chain(&versions)
        .any(|text| text.contains('*'))
    {
        return count;
    }
    let mut resources = texts(&rule["resources"]);
    resources.retain(|resource| !resource.contains(['*', '/']));
    for group in &groups {
        for version in &versions {
            let version = GroupVersion::new(*group, *version);
            for resource in &resources {
                for kind in schemas.kinds_of(&version, resource).await {
                    kinds.insert((version.group.clone(), version.version.clone(), kind));
                    count += 1;
                    if count == MOST_KINDS {
                        return count;
                    }
                }
            }
        }
    }
    count
}

/// The texts of a list, sorted.
fn texts(list: &Value) -> Vec<&str> {
    let items = list.as_array().into_iter().flatten();
    let mut texts: Vec<&str> = items.filter_map(Value::as_str).collect();
    texts.sort_unstable();
    texts
}
