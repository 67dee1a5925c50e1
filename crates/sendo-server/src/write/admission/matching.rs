//! Which requests rules and selectors match: those of policies, of their bindings and of webhooks.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/matching/matching.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace/matcher.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object/matcher.go`

use std::sync::Arc;

use sendo_apimachinery::{GroupResource, GroupVersionKind, LabelSelector, Meta, Status};
use serde_json::Value;

use super::{Attributes, Operation, lookup};
use crate::catalog::Resource;
use crate::catalog::keys::Keys;
use crate::kinds::value::Read;

/// The version of a request's resource that a rule is about.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) resource: Arc<Resource>,
    /// The kind of the object in it.
    pub(crate) kind: GroupVersionKind,
}

impl Version {
    /// The version of the request.
    pub(crate) fn of_request(attributes: &Attributes<'_>) -> Self {
        Version {
            resource: Arc::clone(attributes.call.resource),
            kind: attributes.kind_in(attributes.call.resource),
        }
    }

    /// An object as the request has it, in this version, as Go would show it, or why it cannot be
    /// converted.
    pub(crate) async fn show(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<Value, String> {
        if object.is_null() || !attributes.is_of_own_kind() {
            return Ok(object.clone());
        }
        let call = attributes.call;
        if self.resource.custom.is_some() {
            let (own, wanted) = (call.resource, &self.resource.types.api_version);
            return call.server.convert_object(own, object, wanted).await;
        }
        let mut object = object.clone();
        call.server.show(call.resource, &mut object);
        Ok(call.server.convert(&self.resource, &object))
    }

    /// An object in this version as the request has it: in its storage version, or in that of the
    /// request for a custom resource; or why it cannot be converted.
    pub(crate) async fn to_request(
        &self,
        attributes: &Attributes<'_>,
        object: Value,
    ) -> Result<Value, String> {
        let (call, resource) = (attributes.call, &self.resource);
        if !attributes.is_of_own_kind() {
            return Ok(object);
        }
        if resource.custom.is_some() {
            let wanted = &call.resource.types.api_version;
            return call.server.convert_object(resource, &object, wanted).await;
        }
        if resource.is_stored_version() {
            return Ok(object);
        }
        let (from, to) = (&resource.types.api_version, &resource.stored.api_version);
        Ok((resource.rules.convert)(&object, from, to))
    }
}

/// The version of the first rule that matches; those of the request's own version come first.
pub(crate) fn find_rule(
    attributes: &Attributes<'_>,
    object: &Value,
    rules: &[Value],
    equivalent: bool,
) -> Option<Version> {
    let own = attributes.call.resource;
    let name = attributes.name(object);
    let is_matched = |rule: &Value, resource: &Resource| {
        matches_rule(attributes, object, rule, resource) && has_name(rule, name)
    };
    if rules.iter().any(|rule| is_matched(rule, own)) {
        return Some(Version::of_request(attributes));
    }
    if !equivalent || rules.is_empty() {
        return None;
    }
    let others = equivalents(attributes);
    let found = rules
        .iter()
        .find_map(|rule| others.iter().find(|other| is_matched(rule, other)))?;
    Some(Version {
        kind: attributes.kind_in(found),
        resource: Arc::clone(found),
    })
}

/// The other groups and versions in which the objects of a request's resource are served.
fn equivalents(attributes: &Attributes<'_>) -> Vec<Arc<Resource>> {
    let own = attributes.call.resource;
    let subresource = attributes.subresource();
    let is_equivalent = |other: &&Arc<Resource>| {
        let has_subresource =
            subresource.is_empty() || other.facts.subresource(subresource).is_some();
        other.keys == own.keys && other.types != own.types && has_subresource
    };
    let catalog = attributes.call.server.catalog();
    let groups = catalog.groups();
    let all = groups.flat_map(|group| {
        let versions = group.versions();
        versions.flat_map(|version| group.resources(version).unwrap_or_default())
    });
    all.filter(is_equivalent).cloned().collect()
}

/// The texts of a list in a rule.
fn texts<'r>(rule: &'r Value, key: &str) -> impl Iterator<Item = &'r str> {
    rule.items(key).iter().filter_map(Value::as_str)
}

fn matches_rule(
    attributes: &Attributes<'_>,
    object: &Value,
    rule: &Value,
    resource: &Resource,
) -> bool {
    let facts = &resource.facts;
    let has = |key: &str, wanted: &str| texts(rule, key).any(|item| item == "*" || item == wanted);
    let is_namespaced = || {
        !attributes.call.resource.is_core("namespaces") && !attributes.namespace(object).is_empty()
    };
    let scope = match rule.text("scope") {
        "Namespaced" => is_namespaced(),
        "Cluster" => !is_namespaced(),
        _ => true,
    };
    let resource = texts(rule, "resources").any(|item| {
        let (name, subresource) = item.split_once('/').unwrap_or((item, ""));
        (name == "*" || name == facts.plural)
            && (subresource == "*" || subresource == attributes.subresource())
    });
    scope
        && has("operations", attributes.operation.as_str())
        && has("apiGroups", &facts.group)
        && has("apiVersions", &facts.version)
        && resource
}

/// Whether a rule is about objects of any name, or of this one.
fn has_name(rule: &Value, name: &str) -> bool {
    rule.items("resourceNames").is_empty() || texts(rule, "resourceNames").any(|own| own == name)
}

/// Whether the labels of a request's namespace are selected. What is in none always is.
pub(crate) async fn matches_namespace(
    attributes: &Attributes<'_>,
    object: &Value,
    selector: &LabelSelector,
) -> Result<bool, Status> {
    let call = attributes.call;
    let is_namespace = call.resource.is_core("namespaces");
    let name = attributes.namespace(object);
    if selector.is_everything() || name.is_empty() && !is_namespace {
        return Ok(true);
    }
    let is_written = matches!(attributes.operation, Operation::Create | Operation::Update);
    if is_namespace && attributes.subresource().is_empty() && is_written {
        return Ok(selector.matches(&Meta::new(object)));
    }
    let keys = Keys::new("", "namespaces", false);
    match lookup::get(call, &keys, None, name).await? {
        Some(namespace) => Ok(selector.matches(&Meta::new(&namespace))),
        None => Err(Status::not_found(
            &GroupResource::new("", "namespaces"),
            name,
        )),
    }
}

/// Whether the labels of the object, or of what is stored, are selected.
pub(crate) fn matches_object(
    attributes: &Attributes<'_>,
    object: &Value,
    selector: &LabelSelector,
) -> bool {
    if selector.is_everything() {
        return true;
    }
    // What has no metadata, as the options of a connection, is not selected.
    let mut objects = [Some(object), attributes.old].into_iter().flatten();
    objects.any(|object| object.get("metadata").is_some() && selector.matches(&Meta::new(object)))
}
