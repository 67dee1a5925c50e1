//! Reads the metrics APIs: `metrics.k8s.io`, `custom.metrics.k8s.io`, `external.metrics.k8s.io`.
//!
//! Each is served by another API server, or by none. Errors have the words of Kubernetes, since
//! they are shown in conditions and events.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/metrics/client.go`
//! - `staging/src/k8s.io/metrics/pkg/client/custom_metrics/versioned_client.go`, `discovery.go`
//! - `staging/src/k8s.io/metrics/pkg/client/external_metrics/client.go`
//! - `staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go`: `NewGenericServerResponse`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::{Context, Selector};
use sendo_apimachinery::Quantity;
use sendo_apimachinery::duration::parse_duration;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::replicas::{Sample, Samples};
use super::target::Kinds;

const CUSTOM: &str = "custom.metrics.k8s.io";
/// The time over which a custom metric is measured, if it does not say.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Named,
    timestamp: Time,
    window: String,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: BTreeMap<String, Text>,
}

/// A value of the custom metrics API, of either version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CustomValue {
    described_object: Named,
    timestamp: Time,
    #[serde(alias = "window")]
    window_seconds: Option<u64>,
    value: Text,
}

#[derive(Deserialize)]
struct ExternalValue {
    value: Text,
}

/// What the selected pods use of a resource, or their containers of a name.
pub(super) async fn resource(
    cx: &Context,
    resource: &str,
    namespace: &str,
    selector: &Selector,
    container: Option<&str>,
) -> Result<Samples, String> {
    let path = format!(
        "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={}",
        escaped(&selector.to_string())
    );
    let list: List<PodMetrics> = get(cx, path, "pods.metrics.k8s.io")
        .await
        .map_err(|error| format!("unable to fetch metrics from resource metrics API: {error}"))?;
    if list.items.is_empty() {
        return Err("no metrics returned from resource metrics API".to_owned());
    }
    let samples = list.items.into_iter().filter_map(|pod| {
        let value = used(&pod, resource, container)?;
        let sample = Sample {
            value,
            at: pod.timestamp.0,
            window: parse_duration(&pod.window).unwrap_or_default(),
        };
        Some((pod.metadata.name, sample))
    });
    Ok(samples.collect())
}

/// What a pod, or one of its containers, uses; `None` if a container was not measured.
fn used(pod: &PodMetrics, resource: &str, container: Option<&str>) -> Option<i64> {
    let of = |measured: &ContainerMetrics| measured.usage.get(resource).map(milli);
    match container {
        Some(name) => of(pod
            .containers
            .iter()
            .find(|measured| measured.name == name)?),
        None if pod.containers.is_empty() => None,
        None => pod.containers.iter().map(of).sum(),
    }
}

/// A metric of the selected pods.
pub(super) async fn pods(
    cx: &Context,
    metric: &str,
    namespace: &str,
    selector: &Selector,
    metric_selector: &Selector,
) -> Result<Samples, String> {
    let path = format!("namespaces/{namespace}/pods/*/{metric}");
    let selectors = [
        ("labelSelector", selector),
        ("metricLabelSelector", metric_selector),
    ];
    let list = custom(cx, &path, &selectors, "pods").await?;
    if list.items.is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let samples = list.items.into_iter().map(|item| {
        let window = item.window_seconds.map(Duration::from_secs);
        let sample = Sample {
            value: milli(&item.value),
            at: item.timestamp.0,
            window: window.unwrap_or(DEFAULT_WINDOW),
        };
        (item.described_object.name, sample)
    });
    Ok(samples.collect())
}

/// A metric of one object, in thousandths.
pub(super) async fn object(
    cx: &Context,
    kinds: &Kinds,
    metric: &str,
    namespace: &str,
    object: &CrossVersionObjectReference,
    metric_selector: &Selector,
) -> Result<i64, String> {
    let failed = |error| format!("unable to fetch metrics from custom metrics API: {error}");
    let version = object.api_version.as_deref().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let (path, resource) = match (group, object.kind.as_str()) {
        // The name is left out: an autoscaler cannot look out of its namespace.
        ("", "Namespace") => (
            format!("namespaces/{namespace}/metrics/{metric}"),
            "metrics".to_owned(),
        ),
        (group, kind) => {
            let served = kinds.find(cx, group, kind).await.map_err(|error| {
                let dot = if group.is_empty() { "" } else { "." };
                failed(format!(
                    "unable to map kind {kind}{dot}{group} to resource: {error}"
                ))
            })?;
            let resource = match group {
                "" => served.plural,
                group => format!("{}.{group}", served.plural),
            };
            let name = &object.name;
            (
                format!("namespaces/{namespace}/{resource}/{name}/{metric}"),
                resource,
            )
        }
    };
    let selectors = [("metricLabelSelector", metric_selector)];
    let list = custom(cx, &path, &selectors, &resource).await?;
    match &list.items[..] {
        [only] => Ok(milli(&only.value)),
        items => Err(failed(format!(
            "the custom metrics API server returned {} results when we asked for exactly one",
            items.len()
        ))),
    }
}

/// The values of a metric from outside of the cluster, in thousandths.
pub(super) async fn external(
    cx: &Context,
    metric: &str,
    namespace: &str,
    selector: &Selector,
) -> Result<Vec<i64>, String> {
    let group = "external.metrics.k8s.io";
    let path = format!(
        "/apis/{group}/v1beta1/namespaces/{namespace}/{metric}?labelSelector={}",
        escaped(&selector.to_string())
    );
    let list: List<ExternalValue> = get(cx, path, &format!("{metric}.{group}"))
        .await
        .map_err(|error| format!("unable to fetch metrics from external metrics API: {error}"))?;
    if list.items.is_empty() {
        return Err("no metrics returned from external metrics API".to_owned());
    }
    Ok(list.items.iter().map(|item| milli(&item.value)).collect())
}

async fn custom(
    cx: &Context,
    path: &str,
    selectors: &[(&str, &Selector)],
    resource: &str,
) -> Result<List<CustomValue>, String> {
    let failed = |error| format!("unable to fetch metrics from custom metrics API: {error}");
    let version = custom_version(cx).await.map_err(failed)?;
    let mut path = format!("/apis/{version}/{path}");
    for (at, (name, selector)) in selectors.iter().enumerate() {
        let mark = if at == 0 { '?' } else { '&' };
        let _ = write!(path, "{mark}{name}={}", escaped(&selector.to_string()));
    }
    let about = format!("{resource}.{CUSTOM}");
    get(cx, path, &about).await.map_err(failed)
}

/// The version of the custom metrics API to ask for: the one that its server prefers, of those
/// that are read here.
async fn custom_version(cx: &Context) -> Result<String, String> {
    let is_known = |version: &&str| ["v1beta1", "v1beta2"].contains(version);
    let groups = cx.kube().list_api_groups().await;
    let groups = groups.map_err(|error| error.to_string())?.groups;
    let group = groups.into_iter().find(|group| group.name == CUSTOM);
    let group = group.ok_or_else(|| format!("no custom metrics API ({CUSTOM}) registered"))?;
    let preferred = group.preferred_version.iter();
    let mut versions = preferred
        .chain(&group.versions)
        .map(|version| version.version.as_str());
    let version = versions.find(is_known);
    let version = version.ok_or("no known available metric versions found")?;
    Ok(format!("{CUSTOM}/{version}"))
}

/// Reads a path. The error is in the words of Go's client, where `about` is the resource.
async fn get<T: DeserializeOwned>(cx: &Context, path: String, about: &str) -> Result<T, String> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let error = match cx.kube().request(request).await {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    let kube::Error::Api(status) = &error else {
        return Err(error.to_string());
    };
    // A refusal that is no Status of an API server, or one of no object.
    let is_generic = status.details.as_ref().is_none_or(|it| it.name.is_empty());
    Err(match status.code {
        404 if is_generic => {
            format!("the server could not find the requested resource (get {about})")
        }
        503 => format!("the server is currently unable to handle the request (get {about})"),
        _ => status.message.clone(),
    })
}

/// An amount in thousandths, rounded up; zero if it is none.
fn milli(text: &Text) -> i64 {
    text.0
        .parse::<Quantity>()
        .map(|amount| amount.milli())
        .unwrap_or_default()
}

/// A text as a part of a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(byte.into());
            }
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_uses_what_its_containers_use() {
        let container = |name: &str, cpu: &str| json!({"name": name, "usage": {"cpu": cpu}});
        let pod = |containers| -> PodMetrics {
            let pod = json!({"metadata": {"name": "p"}, "timestamp": "2026-01-01T00:00:00Z",
                "window": "15.2s", "containers": containers});
            serde_json::from_value(pod).expect("metrics of a pod")
        };
        let two = pod(json!([container("a", "1500u"), container("b", "2m")]));
        assert_eq!(used(&two, "cpu", None), Some(4), "each is rounded up");
        assert_eq!(used(&two, "cpu", Some("b")), Some(2));
        assert_eq!(used(&two, "cpu", Some("c")), None);
        assert_eq!(used(&two, "memory", None), None);
        assert_eq!(used(&pod(json!([])), "cpu", None), None);
    }

    #[test]
    fn both_versions_of_custom_metrics_are_read() {
        let value = |window: &str| -> CustomValue {
            let value = json!({"describedObject": {"kind": "Pod", "name": "p"}, window: 30,
                "timestamp": "2026-01-01T00:00:00Z", "value": "1200m"});
            serde_json::from_value(value).expect("a value")
        };
        for window in ["window", "windowSeconds"] {
            let value = value(window);
            assert_eq!(value.window_seconds, Some(30));
            assert_eq!(milli(&value.value), 1200);
        }
    }

    #[test]
    fn selectors_are_escaped() {
        assert_eq!(
            escaped("app=web,tier in (a)"),
            "app%3Dweb%2Ctier%20in%20%28a%29"
        );
    }
}
