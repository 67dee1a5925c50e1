//! The environment of a container's process: its variables, and what they put into its command.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet_pods.go`: `makeEnvironmentVariables`, `podFieldSelectorRuntimeValue`
//! - `third_party/forked/golang/expansion/expand.go`: `Expand`
//! - `pkg/kubelet/container/helpers.go`: `ExpandContainerCommandAndArgs`
//! - `pkg/api/v1/resource/helpers.go`: `ExtractContainerResourceValue`
//! - `pkg/fieldpath/fieldpath.go`: `ExtractFieldPathAsString`

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvFromSource, EnvVarSource, ObjectFieldSelector, Pod,
    ResourceFieldSelector, Secret,
};
use sendo::client::Live;
use sendo::{ObjectExt, ObjectKey};
use sendo_apimachinery::quantity::Quantity;

use crate::runtime::StartFailure;

/// What a pod's own status does not say yet when its first container starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    pub(super) host: String,
    pub(super) pod: String,
}

/// The variables of a container, in the order in which they are defined.
pub(super) async fn variables(
    pod: &Pod,
    container: &Container,
    addresses: &Addresses,
    live: &Live,
) -> Result<BTreeMap<String, String>, StartFailure> {
    let mut variables = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.clone().unwrap_or_default();
        let values = all_values(pod, source, live).await?;
        variables.extend(
            values
                .into_iter()
                .map(|(name, value)| (format!("{prefix}{name}"), value)),
        );
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(text), _) if !text.is_empty() => Some(expand(text, &variables)),
            (_, Some(source)) => value_from(pod, container, source, addresses, live).await?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    Ok(variables)
}

fn failed(message: String) -> StartFailure {
    StartFailure {
        reason: "CreateContainerConfigError",
        message,
    }
}

fn texts(secret: Secret) -> BTreeMap<String, String> {
    let data = secret.data.unwrap_or_default().into_iter();
    data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned()))
        .collect()
}

async fn config_map(
    pod: &Pod,
    name: &str,
    is_optional: bool,
    live: &Live,
) -> Result<Option<BTreeMap<String, String>>, StartFailure> {
    let namespace = pod.namespace().unwrap_or_default();
    let found = live
        .get::<ConfigMap>(ObjectKey::namespaced(namespace, name))
        .await;
    match found.map_err(|error| failed(error.to_string()))? {
        Some(map) => Ok(Some(map.data.unwrap_or_default())),
        None if is_optional => Ok(None),
        None => Err(failed(format!("configmap {name:?} not found"))),
    }
}

async fn secret(
    pod: &Pod,
    name: &str,
    is_optional: bool,
    live: &Live,
) -> Result<Option<BTreeMap<String, String>>, StartFailure> {
    let namespace = pod.namespace().unwrap_or_default();
    let found = live
        .get::<Secret>(ObjectKey::namespaced(namespace, name))
        .await;
    match found.map_err(|error| failed(error.to_string()))? {
        Some(secret) => Ok(Some(texts(secret))),
        None if is_optional => Ok(None),
        None => Err(failed(format!("secret {name:?} not found"))),
    }
}

/// All entries of a ConfigMap or a Secret.
async fn all_values(
    pod: &Pod,
    source: &EnvFromSource,
    live: &Live,
) -> Result<BTreeMap<String, String>, StartFailure> {
    let found = if let Some(map) = &source.config_map_ref {
        config_map(pod, &map.name, map.optional == Some(true), live).await?
    } else if let Some(reference) = &source.secret_ref {
        secret(pod, &reference.name, reference.optional == Some(true), live).await?
    } else {
        None
    };
    Ok(found.unwrap_or_default())
}

/// The value of a variable; `None` if it is optional and not there.
async fn value_from(
    pod: &Pod,
    container: &Container,
    source: &EnvVarSource,
    addresses: &Addresses,
    live: &Live,
) -> Result<Option<String>, StartFailure> {
    let namespace = pod.namespace().unwrap_or_default();
    if let Some(field) = &source.field_ref {
        return field_value(pod, field, addresses).map(Some);
    }
    if let Some(field) = &source.resource_field_ref {
        return resource_value(container, field).map(Some);
    }
    let (found, key, what, name, is_optional) = if let Some(map) = &source.config_map_key_ref {
        let is_optional = map.optional == Some(true);
        let found = config_map(pod, &map.name, is_optional, live).await?;
        (found, &map.key, "ConfigMap", &map.name, is_optional)
    } else if let Some(reference) = &source.secret_key_ref {
        let is_optional = reference.optional == Some(true);
        let found = secret(pod, &reference.name, is_optional, live).await?;
        (
            found,
            &reference.key,
            "Secret",
            &reference.name,
            is_optional,
        )
    } else {
        return Ok(None);
    };
    match found.and_then(|mut values| values.remove(key)) {
        Some(value) => Ok(Some(value)),
        None if is_optional => Ok(None),
        None => Err(failed(format!(
            "couldn't find key {key} in {what} {namespace}/{name}"
        ))),
    }
}

fn field_value(
    pod: &Pod,
    field: &ObjectFieldSelector,
    addresses: &Addresses,
) -> Result<String, StartFailure> {
    let path = field.field_path.as_str();
    let spec = pod.spec.as_ref();
    let quoted = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
    if let Some(label) = quoted("metadata.labels['") {
        return Ok(pod.label(label).unwrap_or_default().to_owned());
    }
    if let Some(annotation) = quoted("metadata.annotations['") {
        return Ok(pod.annotation(annotation).unwrap_or_default().to_owned());
    }
    Ok(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().unwrap_or_default().to_owned(),
        "metadata.uid" => pod.uid().to_string(),
        "spec.nodeName" => spec
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default(),
        "spec.serviceAccountName" => spec
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => addresses.host.clone(),
        "status.podIP" | "status.podIPs" => addresses.pod.clone(),
        _ => return Err(failed(format!("unsupported fieldPath: {path}"))),
    })
}

/// How much of a resource the container has, in units of the divisor, rounded up.
fn resource_value(
    container: &Container,
    field: &ResourceFieldSelector,
) -> Result<String, StartFailure> {
    let unknown = || {
        failed(format!(
            "unsupported container resource : {}",
            field.resource
        ))
    };
    let (list, name) = field.resource.split_once('.').ok_or_else(unknown)?;
    let resources = container.resources.as_ref();
    let amounts = match list {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(unknown()),
    };
    let parse = |text: &str| text.parse::<Quantity>().ok();
    let amount = amounts.and_then(|amounts| parse(&amounts.get(name)?.0));
    let divisor = field.divisor.as_ref().and_then(|divisor| parse(&divisor.0));
    let milli = amount.map_or(0, |amount| amount.milli());
    let divisor = divisor.map_or(1000, |divisor| divisor.milli()).max(1);
    let rounded_up = (milli + divisor - 1) / divisor;
    Ok(rounded_up.to_string())
}

/// Replaces `$(NAME)` by the value of the variable; of one that is not defined it stays, and `$$`
/// stands for `$`.
pub(super) fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let name = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'));
        match name {
            Some((name, after)) => {
                match variables.get(name) {
                    Some(value) => expanded.push_str(value),
                    None => expanded.push_str(&format!("$({name})")),
                }
                rest = after;
            }
            None => expanded.push('$'),
        }
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_are_expanded() {
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(B)", "$(B)"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &variables), expected, "{text}");
        }
    }

    #[test]
    fn fields_of_the_pod_and_resources_are_values() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "web"}},
            "spec": {"nodeName": "node-0", "containers": []},
        }))
        .unwrap();
        let addresses = Addresses {
            host: "10.0.0.1".to_owned(),
            pod: "10.0.0.2".to_owned(),
        };
        let value = |path: &str| {
            let field = ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            };
            field_value(&pod, &field, &addresses).ok()
        };
        assert_eq!(value("metadata.labels['app']").as_deref(), Some("web"));
        assert_eq!(value("metadata.namespace").as_deref(), Some("n"));
        assert_eq!(value("status.podIP").as_deref(), Some("10.0.0.2"));
        assert_eq!(value("status.phase"), None);

        let container: Container = serde_json::from_value(json!({"name": "c",
            "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}}}))
        .unwrap();
        let resource = |resource: &str, divisor: &str| {
            let field = json!({"resource": resource, "divisor": divisor});
            resource_value(&container, &serde_json::from_value(field).unwrap()).unwrap()
        };
        assert_eq!(resource("limits.cpu", "1"), "2");
        assert_eq!(resource("limits.cpu", "1m"), "1500");
        assert_eq!(resource("limits.memory", "1Mi"), "64");
    }
}
