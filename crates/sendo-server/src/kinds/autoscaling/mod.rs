//! Rules of HorizontalPodAutoscalers, which are served as `autoscaling/v1` and `v2` and stored as
//! `v2`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/autoscaling/v1/defaults.go`
//! - `pkg/apis/autoscaling/v2/defaults.go`
//! - `pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`

mod validate;
mod version_one;

use serde_json::{Value, json};

use super::value::{Read, Write, with_api_version};
use super::{Rules, writes};

const V1: &str = "autoscaling/v1";
const V2: &str = "autoscaling/v2";

/// The default CPU utilization target, in percent of the requests.
const DEFAULT_UTILIZATION: i64 = 80;

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, autoscaler| {
        autoscaler.set(
            "status",
            json!({"currentMetrics": null, "desiredReplicas": 0}),
        );
    },
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    validate: |_, autoscaler| validate::create(autoscaler),
    validate_update: |_, new, old| validate::update(new, old),
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| validate::status_update(new, old),
    convert: |object, from, to| match (from, to) {
        (V1, V2) => version_one::to_v2(object),
        (V2, V1) => version_one::from_v2(object),
        _ => with_api_version(object, to),
    },
    ..Rules::NEUTRAL
};

fn default(autoscaler: &mut Value) {
    let is_v2 = autoscaler.text("apiVersion") != V1;
    let spec = autoscaler.object("spec");
    spec.default_to("minReplicas", 1);
    if is_v2 {
        version_one::drop_round_trip_annotations(autoscaler);
        let spec = autoscaler.object("spec");
        if spec.items("metrics").is_empty() {
            spec.set("metrics", json!([cpu_metric(DEFAULT_UTILIZATION)]));
        }
        default_behavior(spec);
    } else {
        // Whether a v1 object needs a default is known only after its annotations are decoded, and
        // only the fields those annotations encode are kept.
        let seen = version_one::from_v2(&version_one::to_v2(autoscaler));
        let spec = autoscaler.object("spec");
        spec.copy_from("targetCPUUtilizationPercentage", seen.at("spec"));
        let metadata = autoscaler.object("metadata");
        metadata.copy_from("annotations", seen.at("metadata"));
    }
}

fn cpu_metric(utilization: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": utilization});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

/// Fills in the scaling rules of a `behavior` that is set.
fn default_behavior(spec: &mut Value) {
    let Some(behavior) = spec.existing("behavior") else {
        return;
    };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    behavior
        .object("scaleUp")
        .default_to("stabilizationWindowSeconds", 0);
    for (direction, policies) in [
        ("scaleUp", json!([pods, &percent])),
        ("scaleDown", json!([percent])),
    ] {
        let rules = behavior.object(direction);
        rules.default_to("selectPolicy", "Max");
        rules.default_to("policies", policies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_aims_at_four_fifths_of_the_processor() {
        let mut autoscaler = json!({"apiVersion": V2, "spec": {"maxReplicas": 3}});
        default(&mut autoscaler);
        assert_eq!(
            autoscaler["spec"],
            json!({"maxReplicas": 3, "minReplicas": 1, "metrics": [cpu_metric(80)]})
        );
    }

    #[test]
    fn so_does_one_of_version_one_unless_its_annotations_hold_metrics() {
        let mut plain = json!({"apiVersion": V1, "spec": {"maxReplicas": 3}});
        default(&mut plain);
        assert_eq!(plain["spec"]["targetCPUUtilizationPercentage"], 80);

        let metric =
            r#"[{"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "1"}}]"#;
        let mut rich = json!({"apiVersion": V1, "spec": {"maxReplicas": 3},
            "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": metric}}});
        default(&mut rich);
        assert!(!rich["spec"].has("targetCPUUtilizationPercentage"));
    }

    #[test]
    fn annotations_that_carry_nothing_go() {
        for version in [V1, V2] {
            let mut autoscaler = json!({"apiVersion": version, "spec": {"maxReplicas": 3},
                "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "x", "a": "b"}}});
            default(&mut autoscaler);
            let annotations = &autoscaler["metadata"]["annotations"];
            assert_eq!(*annotations, json!({"a": "b"}), "{version}");
        }
    }

    #[test]
    fn a_behavior_is_completed() {
        let mut autoscaler = json!({"apiVersion": V2, "spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}});
        default(&mut autoscaler);
        let behavior = &autoscaler["spec"]["behavior"];
        assert_eq!(behavior["scaleUp"]["stabilizationWindowSeconds"], 0);
        assert_eq!(
            behavior["scaleUp"]["policies"].as_array().map(Vec::len),
            Some(2)
        );
        assert_eq!(
            behavior["scaleDown"],
            json!({"stabilizationWindowSeconds": 60, "selectPolicy": "Max",
                   "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]})
        );
    }
}
