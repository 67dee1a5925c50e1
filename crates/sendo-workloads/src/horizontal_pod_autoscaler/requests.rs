//! What pods request, which utilization is a share of.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/replica_calculator.go`: `calculateRequests`,
//!   `calculatePodLevelRequests`, `calculatePodRequestsFromContainers`
//! - `staging/src/k8s.io/component-helpers/resource/helpers.go`: `IsPodLevelRequestsSet`,
//!   `PodRequests`

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use sendo::ObjectExt;
use sendo_apimachinery::Quantity;

/// What each pod requests of a resource, or its container of a name, in thousandths. An error if
/// one of them requests nothing: there is nothing to be a share of.
pub(super) fn of_pods(
    pods: &[Pod],
    resource: &str,
    container: Option<&str>,
) -> Result<BTreeMap<String, i64>, String> {
    let requests = pods.iter().map(|pod| {
        let request = of_pod(pod, resource, container)?;
        Ok((pod.name().to_owned(), request))
    });
    requests.collect()
}

fn of_pod(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let name = pod.name();
    let Some(spec) = &pod.spec else {
        return Ok(0);
    };
    if container.is_none() && has_requests_of_its_own(spec) {
        let request = of_whole_pod(spec, resource);
        return request
            .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let counted = || running(spec).filter(|own| container.is_none_or(|wanted| own.name == wanted));
    if let Some(wanted) = container
        && counted().next().is_none()
    {
        return Err(format!("container {wanted} not found in Pod {name}"));
    }
    let requests = counted().map(|own| {
        let missing = || {
            let container = &own.name;
            format!("missing request for {resource} in container {container} of Pod {name}")
        };
        request(own.resources.as_ref(), resource).ok_or_else(missing)
    });
    requests.sum()
}

/// The containers that run beside each other: sidecars are among them.
fn running(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars)
}

/// Whether the pod as a whole requests something.
fn has_requests_of_its_own(spec: &PodSpec) -> bool {
    let requests = spec
        .resources
        .iter()
        .flat_map(|own| own.requests.iter().flatten());
    let mut names = requests.map(|(name, _)| name.as_str());
    names.any(|name| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-"))
}

/// What a pod with requests of its own requests: those, or else what its containers do, and its
/// overhead.
fn of_whole_pod(spec: &PodSpec, resource: &str) -> Option<i64> {
    let overhead = spec.overhead.as_ref().and_then(|list| list.get(resource));
    let overhead = overhead.map_or(0, |amount| milli(&amount.0));
    let own = request(spec.resources.as_ref(), resource);
    let of_containers = || {
        let requests = running(spec).filter_map(|own| request(own.resources.as_ref(), resource));
        requests.reduce(|sum, request| sum + request)
    };
    Some(own.or_else(of_containers)? + overhead)
}

fn request(resources: Option<&ResourceRequirements>, resource: &str) -> Option<i64> {
    let requests = resources?.requests.as_ref()?;
    Some(milli(&requests.get(resource)?.0))
}

fn milli(text: &str) -> i64 {
    let amount = text.parse::<Quantity>();
    amount.map(|amount| amount.milli()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request_of(spec: Value, container: Option<&str>) -> Result<i64, String> {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        of_pods(&[pod], "cpu", container).map(|requests| requests["p"])
    }

    fn container(name: &str, requests: Value) -> Value {
        json!({"name": name, "resources": {"requests": requests}})
    }

    #[test]
    fn requests_of_containers_and_sidecars_are_summed() {
        let mut sidecar = container("s", json!({"cpu": "50m"}));
        sidecar["restartPolicy"] = json!("Always");
        let init = container("i", json!({"cpu": "5"}));
        let spec = json!({
            "containers": [container("a", json!({"cpu": "1"})), container("b", json!({"cpu": "200m"}))],
            "initContainers": [init, sidecar],
        });
        assert_eq!(request_of(spec.clone(), None), Ok(1250));
        assert_eq!(request_of(spec.clone(), Some("b")), Ok(200));
        assert_eq!(request_of(spec.clone(), Some("s")), Ok(50));
        let unknown = request_of(spec, Some("x")).unwrap_err();
        assert_eq!(unknown, "container x not found in Pod p");
    }

    #[test]
    fn every_container_must_request_the_resource() {
        let spec = json!({"containers": [container("a", json!({"memory": "1Gi"}))]});
        let missing = request_of(spec, None).unwrap_err();
        assert_eq!(missing, "missing request for cpu in container a of Pod p");
    }

    #[test]
    fn requests_of_the_pod_come_before_those_of_its_containers() {
        let containers = [
            container("a", json!({"cpu": "1"})),
            container("b", json!({})),
        ];
        let pod = |requests: Value| json!({"containers": containers, "resources": {"requests": requests}});
        assert_eq!(request_of(pod(json!({"cpu": "3"})), None), Ok(3000));
        assert_eq!(request_of(pod(json!({"cpu": "3"})), Some("a")), Ok(1000));
        assert_eq!(request_of(pod(json!({"memory": "1Gi"})), None), Ok(1000));
        let none = json!({"containers": [container("b", json!({}))],
            "resources": {"requests": {"memory": "1Gi"}}});
        let missing = request_of(none, None).unwrap_err();
        assert_eq!(missing, "missing pod-level request for cpu in Pod p");
    }
}
