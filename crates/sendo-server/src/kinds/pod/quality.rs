//! The quality of service (QoS) class of a pod, which follows from its requests and limits.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/helper/qos/qos.go`: `ComputePodQOS`

use std::collections::BTreeMap;

use sendo_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::kinds::resources::amount;
use crate::kinds::value::Read;

/// The resources that determine the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

type Totals<'a> = BTreeMap<&'a str, Quantity>;

/// `Guaranteed` if every container has limits for cpu and memory and equal requests, `BestEffort`
/// if none has requests or limits, else `Burstable`. Pod-level resources take precedence over those
/// of containers.
pub(super) fn class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (Totals::new(), Totals::new());
    let mut guaranteed = true;
    if spec.has("resources") {
        let resources = spec.at("resources");
        add(&mut requests, resources.at("requests"));
        let limited = add(&mut limits, resources.at("limits"));
        let has_limits = resources.entries("limits").next().is_some();
        guaranteed = !has_limits || limited == COUNTED.len();
    } else {
        let containers = spec
            .items("containers")
            .iter()
            .chain(spec.items("initContainers"));
        for resources in containers.map(|container| container.at("resources")) {
            add(&mut requests, resources.at("requests"));
            guaranteed &= add(&mut limits, resources.at("limits")) == COUNTED.len();
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds the amounts of the counted resources in a list. Returns how many of these resources it has.
fn add(totals: &mut Totals<'_>, list: &Value) -> usize {
    let mut found = 0;
    for name in COUNTED {
        let amount = amount(list.at(name));
        if amount.is_zero() || amount.is_negative() {
            continue;
        }
        totals
            .entry(name)
            .and_modify(|total| total.add(&amount))
            .or_insert(amount);
        found += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_requests_and_limits() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let half = json!({"cpu": "500m", "memory": "1Gi"});
        let cases = [
            (json!([{}]), "BestEffort"),
            (json!([{"requests": {"cpu": "0"}}]), "BestEffort"),
            (json!([{"requests": {"nvidia.com/gpu": "1"}}]), "BestEffort"),
            (json!([{"requests": both, "limits": both}]), "Guaranteed"),
            (json!([{"requests": both, "limits": both}, {}]), "Burstable"),
            (json!([{"requests": half, "limits": both}]), "Burstable"),
            (
                json!([{"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}]),
                "Burstable",
            ),
        ];
        for (resources, expected) in cases {
            let resources = resources.as_array().expect("a list").iter();
            let containers: Vec<Value> = resources.map(|r| json!({"resources": r})).collect();
            assert_eq!(
                class(&json!({"containers": containers})),
                expected,
                "{containers:?}"
            );
        }
    }

    #[test]
    fn resources_of_the_pod_count_before_those_of_containers() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let spec = json!({"resources": {"requests": both, "limits": both}, "containers": [{}]});
        assert_eq!(class(&spec), "Guaranteed");
    }
}
