//! What a binding evaluates its policy with.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go`: `CollectParams`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go`: `ensureParamsForPolicyLocked`

use std::sync::Arc;

use sendo_apimachinery::{GroupVersionKind, Meta};
use sendo_store::KeyRange;
use serde_json::Value;

use super::super::{Attributes, lookup};
use crate::catalog::Resource;
use crate::state::admission::policies::{Binding, ParameterReference, Policy};

/// The resource of a policy's parameters, if it has some.
pub(super) fn resource(
    attributes: &Attributes<'_>,
    policy: &Policy,
) -> Result<Option<Arc<Resource>>, String> {
    let Some(kind) = &policy.parameters else {
        return Ok(None);
    };
    let catalog = attributes.call.server.catalog();
    let group = catalog.group(&kind.group);
    let resources = group.and_then(|group| group.resources(&kind.version));
    let mut resources = resources.unwrap_or_default().iter();
    match resources.find(|resource| resource.facts.kind == kind.kind) {
        Some(resource) => Ok(Some(Arc::clone(resource))),
        None => {
            let GroupVersionKind {
                group,
                version,
                kind,
            } = kind;
            Err(format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
            ))
        }
    }
}

/// The parameters of a binding: null where none are asked for, nothing where there are none and
/// the request passes.
pub(super) async fn of_binding(
    attributes: &Attributes<'_>,
    object: &Value,
    resource: Option<&Resource>,
    binding: &Binding,
) -> Result<Vec<Value>, String> {
    let (Some(resource), Some(reference)) = (resource, &binding.parameters) else {
        return Ok(vec![Value::Null]);
    };
    let namespace = namespace(attributes, object, resource, reference)?;
    let (call, keys) = (attributes.call, &resource.keys);
    let stored = match reference.name.as_str() {
        "" => lookup::stored(call, KeyRange::prefix(&keys.collection(namespace))).await,
        name => lookup::stored(call, KeyRange::one(keys.object(namespace, name))).await,
    };
    let server = call.server;
    let stored = match stored {
        Ok(stored) => server.in_version(resource, stored).await,
        Err(status) => Err(status),
    };
    let stored = stored.map_err(|status| status.message)?;
    let decoded = stored.iter().map(|own| {
        let object = resource.decode(&own.value, own.at);
        server.convert(resource, &object)
    });
    let is_selected =
        |own: &Value| !reference.name.is_empty() || reference.selector.matches(&Meta::new(own));
    let found: Vec<Value> = decoded.filter(is_selected).collect();
    if found.is_empty() && reference.demands_one {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
        );
    }
    Ok(found)
}

/// The namespace that parameters are looked for in.
fn namespace<'a>(
    attributes: &Attributes<'a>,
    object: &'a Value,
    resource: &Resource,
    reference: &'a ParameterReference,
) -> Result<Option<&'a str>, String> {
    let named = reference.namespace.as_str();
    if !resource.is_namespaced() {
        return match named {
            "" => Ok(None),
            _ => Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                    .to_owned(),
            ),
        };
    }
    match (named, attributes.namespace(object)) {
        ("", "") => Err(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                .to_owned(),
        ),
        ("", own) => Ok(Some(own)),
        (named, _) => Ok(Some(named)),
    }
}
