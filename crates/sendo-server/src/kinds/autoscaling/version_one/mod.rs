//! Conversion between `autoscaling/v1` and `v2`: v1 has one CPU target as a field and keeps all
//! other metrics in annotations.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/autoscaling/v1/conversion.go`
//! - `pkg/apis/autoscaling/helpers.go`: `DropRoundTripHorizontalPodAutoscalerAnnotations`

mod text;

use serde_json::{Map, Value, json};

use super::{DEFAULT_UTILIZATION, V1, V2, cpu_metric};
use crate::kinds::ordered;
use crate::kinds::value::{Read, Write, with_api_version};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

const ROUND_TRIP_ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Converts a v2 object to v1: what has no v1 field goes into annotations.
pub(super) fn from_v2(object: &Value) -> Value {
    let mut out = with_api_version(object, V1);
    drop_round_trip_annotations(&mut out);
    let (spec, status) = (object.at("spec"), object.at("status"));
    let is_cpu_target =
        |metric: &&Value| is_cpu(metric) && target(metric).has("averageUtilization");
    let cpu_target = spec.items("metrics").iter().find(is_cpu_target);
    let others = spec
        .items("metrics")
        .iter()
        .filter(|metric| !is_cpu_target(metric));
    let others: Vec<String> = others.map(text::metric).collect();

    let mut annotations = Vec::new();
    if !others.is_empty() {
        annotations.push((METRICS, ordered::list(others)));
    }
    if !status.items("currentMetrics").is_empty() {
        let current = status.items("currentMetrics").iter().map(text::current);
        annotations.push((CURRENT_METRICS, ordered::list(current)));
    }
    if spec.has("behavior") {
        annotations.push((BEHAVIOR, text::behavior(spec.at("behavior"))));
    }
    if !status.items("conditions").is_empty() {
        let conditions = status.items("conditions").iter().map(text::condition);
        annotations.push((CONDITIONS, ordered::list(conditions)));
    }
    for (key, text) in annotations {
        out.object("metadata").object("annotations").set(key, text);
    }

    let out_spec = out.object("spec");
    out_spec.remove("metrics");
    out_spec.remove("behavior");
    if let Some(metric) = cpu_target {
        out_spec.set(
            "targetCPUUtilizationPercentage",
            target(metric).at("averageUtilization").clone(),
        );
    }
    let out_status = out.object("status");
    out_status.remove("currentMetrics");
    out_status.remove("conditions");
    out_status.default_to("currentReplicas", 0);
    out_status.default_to("desiredReplicas", 0);
    let current = status
        .items("currentMetrics")
        .iter()
        .filter(|metric| is_cpu(metric));
    let mut current =
        current.map(|metric| metric.at("resource").at("current").at("averageUtilization"));
    if let Some(utilization) = current.rfind(|utilization| !utilization.is_null()) {
        out_status.set("currentCPUUtilizationPercentage", utilization.clone());
    }
    out
}

/// Converts a v1 object to v2: what its annotations encode goes into fields.
pub(super) fn to_v2(object: &Value) -> Value {
    let mut out = with_api_version(object, V2);
    let carried = |key: &str| {
        let text = object.at("metadata").at("annotations").text(key);
        serde_json::from_str::<Value>(text).unwrap_or_default()
    };
    drop_round_trip_annotations(&mut out);

    let mut metrics: Vec<Value> = list_of(&carried(METRICS))
        .iter()
        .map(metric_to_v2)
        .collect();
    let spec = out.object("spec");
    if let Some(percent) = spec.number("targetCPUUtilizationPercentage") {
        metrics.push(cpu_metric(percent));
    }
    if metrics.is_empty() {
        metrics.push(cpu_metric(DEFAULT_UTILIZATION));
    }
    spec.remove("targetCPUUtilizationPercentage");
    spec.set("metrics", metrics);
    let behavior = lower_keys(&carried(BEHAVIOR));
    if behavior
        .as_object()
        .is_some_and(|behavior| !behavior.is_empty())
    {
        spec.set("behavior", behavior);
    }

    let status = out.object("status");
    let percent = status.number("currentCPUUtilizationPercentage");
    status.remove("currentCPUUtilizationPercentage");
    let current: Vec<Value> = list_of(&carried(CURRENT_METRICS))
        .iter()
        .map(current_to_v2)
        .collect();
    if !current.is_empty() {
        status.set("currentMetrics", current);
    } else if let Some(percent) = percent {
        let current = json!({"name": "cpu", "current": {"averageUtilization": percent}});
        status.set(
            "currentMetrics",
            json!([{"type": "Resource", "resource": current}]),
        );
    } else {
        status.set("currentMetrics", Value::Null);
    }
    if status.count("currentReplicas") == 0 {
        status.remove("currentReplicas");
    }
    if let Value::Array(conditions) = carried(CONDITIONS) {
        status.set("conditions", conditions);
    }
    out
}

/// Removes the annotations that encode v2 fields in v1.
pub(super) fn drop_round_trip_annotations(object: &mut Value) {
    let Some(annotations) = object.object("metadata").existing("annotations") else {
        return;
    };
    for key in ROUND_TRIP_ANNOTATIONS {
        annotations.remove(key);
    }
    if annotations.as_object().is_some_and(Map::is_empty) {
        object.object("metadata").remove("annotations");
    }
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is_cpu(metric: &Value) -> bool {
    metric.text("type") == "Resource" && metric.at("resource").text("name") == "cpu"
}

fn target(metric: &Value) -> &Value {
    metric.at("resource").at("target")
}

/// Renames the Go field names of an annotation (`{"ScaleUp": {"SelectPolicy": …}}`) to v2 field
/// names and drops null members.
fn lower_keys(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let lower = |key: &str| {
                let mut chars = key.chars();
                let first = chars.next().map(|c| c.to_ascii_lowercase());
                first.into_iter().chain(chars).collect::<String>()
            };
            let members = members.iter().filter(|(_, value)| !value.is_null());
            members
                .map(|(key, value)| (lower(key), lower_keys(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(lower_keys).collect(),
        other => other.clone(),
    }
}

fn identifier(name: &Value, selector: &Value) -> Value {
    let mut metric = json!({"name": name});
    if !selector.is_null() {
        metric.set("selector", selector.clone());
    }
    metric
}

/// Copies members of `source` under new names and skips absent ones.
fn renamed(source: &Value, names: &[(&str, &str)]) -> Value {
    let members = names.iter().filter(|(from, _)| source.has(from));
    members
        .map(|(from, to)| ((*to).to_owned(), source.at(from).clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// Converts a v1 metric to v2.
fn metric_to_v2(metric: &Value) -> Value {
    let key = text::source_key(metric);
    let source = metric.at(key);
    let targets = [
        ("targetAverageUtilization", "averageUtilization"),
        ("targetAverageValue", "averageValue"),
        ("targetValue", "value"),
    ];
    let mut target = renamed(source, &targets);
    let (kind, mut out) = match key {
        "resource" | "containerResource" => {
            let kind = if target.has("averageUtilization") {
                "Utilization"
            } else {
                "AverageValue"
            };
            (
                kind,
                renamed(source, &[("name", "name"), ("container", "container")]),
            )
        }
        "pods" => (
            "AverageValue",
            json!({"metric": identifier(source.at("metricName"), source.at("selector"))}),
        ),
        "external" => {
            let kind = if target.has("value") {
                "Value"
            } else {
                "AverageValue"
            };
            (
                kind,
                json!({"metric": identifier(source.at("metricName"), source.at("metricSelector"))}),
            )
        }
        _ => {
            let kind = if source.has("averageValue") {
                "AverageValue"
            } else {
                "Value"
            };
            if kind == "AverageValue" {
                target.set("averageValue", source.at("averageValue").clone());
                // v1 always writes this value, so `0` stands for an absent one.
                if target.text("value") == "0" {
                    target.remove("value");
                }
            }
            let metric = identifier(source.at("metricName"), source.at("selector"));
            (
                kind,
                json!({"describedObject": source.at("target"), "metric": metric}),
            )
        }
    };
    target.set("type", kind);
    out.set("target", target);
    json!({"type": metric.at("type"), key: out})
}

/// Converts a v1 current metric to v2.
fn current_to_v2(metric: &Value) -> Value {
    let key = text::source_key(metric);
    let source = metric.at(key);
    let values = [
        ("currentAverageUtilization", "averageUtilization"),
        ("currentAverageValue", "averageValue"),
        ("averageValue", "averageValue"),
        ("currentValue", "value"),
    ];
    let current = renamed(source, &values);
    let mut out = match key {
        "resource" | "containerResource" => {
            renamed(source, &[("name", "name"), ("container", "container")])
        }
        "external" => {
            json!({"metric": identifier(source.at("metricName"), source.at("metricSelector"))})
        }
        _ => json!({"metric": identifier(source.at("metricName"), source.at("selector"))}),
    };
    if key == "object" {
        out.set("describedObject", source.at("target").clone());
    }
    out.set("current", current);
    json!({"type": metric.at("type"), key: out})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rich() -> Value {
        json!({
            "apiVersion": V2,
            "metadata": {"name": "a"},
            "spec": {
                "maxReplicas": 5,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "rps", "selector": {"matchLabels": {"a": "b"}}},
                                              "target": {"type": "AverageValue", "averageValue": "1"}}},
                    {"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"},
                                                  "metric": {"name": "hits"}, "target": {"type": "Value", "value": "2k"}}},
                    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "30"}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
                ],
                "behavior": {"scaleDown": {"selectPolicy": "Max", "stabilizationWindowSeconds": 60,
                                           "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}},
            },
            "status": {"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                        "current": {"averageUtilization": 10, "averageValue": "5m"}}}], "currentReplicas": 2, "desiredReplicas": 2},
        })
    }

    #[test]
    fn nothing_is_lost_on_the_way_through_version_one() {
        let rich = rich();
        let mut back = to_v2(&from_v2(&rich));
        back["apiVersion"] = V2.into();
        assert_eq!(back, rich);
    }

    #[test]
    fn annotations_keep_the_order_of_kubernetes_structs() {
        let old = from_v2(&rich());
        let annotations = &old["metadata"]["annotations"];
        let metrics = annotations.text(METRICS);
        assert!(
            metrics.starts_with(
                r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},"#
            ),
            "{metrics}"
        );
        assert!(metrics.contains(r#"{"metricName":"rps","targetAverageValue":"1","selector":{"matchLabels":{"a":"b"}}}"#), "{metrics}");
        assert_eq!(
            annotations.text(BEHAVIOR),
            concat!(
                r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Max","#,
                r#""Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#
            )
        );
        assert_eq!(
            old["spec"],
            json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 70})
        );
        assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 10);
    }

    #[test]
    fn a_target_left_out_in_version_one_is_the_default() {
        let old = json!({"apiVersion": V1, "spec": {"maxReplicas": 3}});
        assert_eq!(to_v2(&old)["spec"]["metrics"], json!([cpu_metric(80)]));
    }
}
