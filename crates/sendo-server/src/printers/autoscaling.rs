//! Table rows of HorizontalPodAutoscalers and Scales.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `printHorizontalPodAutoscaler`,
//!   `formatHPAMetrics`, `printScale`

use serde_json::Value;

use super::Cells;
use crate::kinds::value::Read;

/// Name, Reference, Targets, MinPods, MaxPods, Replicas, Age.
pub(super) fn horizontal_pod_autoscaler(cells: &Cells<'_>) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let target = spec.at("scaleTargetRef");
    let min_pods = spec
        .number("minReplicas")
        .map_or("<unset>".to_owned(), |n| n.to_string());
    vec![
        cells.name(),
        format!("{}/{}", target.text("kind"), target.text("name")).into(),
        metrics(spec.items("metrics"), status.items("currentMetrics")).into(),
        min_pods.into(),
        spec.count("maxReplicas").into(),
        status.count("currentReplicas").into(),
        cells.age(),
    ]
}

/// Name, Desired, Available, Age.
pub(super) fn scale(cells: &Cells<'_>) -> Vec<Value> {
    let (desired, available) = (
        cells.spec().count("replicas"),
        cells.status().count("replicas"),
    );
    vec![cells.name(), desired.into(), available.into(), cells.age()]
}

/// The current and target values of the first two metrics.
fn metrics(specs: &[Value], statuses: &[Value]) -> String {
    const MAX: usize = 2;
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let statuses = statuses.iter().map(Some).chain(std::iter::repeat(None));
    let texts = specs
        .iter()
        .zip(statuses)
        .map(|(spec, status)| metric(spec, status.unwrap_or(&Value::Null)));
    let texts: Vec<String> = texts.take(MAX).collect();
    match specs.len().checked_sub(MAX) {
        Some(more @ 1..) => format!("{} + {more} more...", texts.join(", ")),
        _ => texts.join(", "),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let source = match spec.text("type") {
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (wanted, found) = (spec.at(source).at("target"), status.at(source));
    let current = found.at("current");
    let reported = |key: &str| match found {
        Value::Null => "<unknown>".to_owned(),
        _ => quantity(current.at(key)),
    };
    match source {
        "pods" => format!(
            "{}/{}",
            reported("averageValue"),
            quantity(wanted.at("averageValue"))
        ),
        "external" | "object" if wanted.has("averageValue") => {
            let known = current.at("averageValue").as_str().unwrap_or("<unknown>");
            format!("{known}/{} (avg)", quantity(wanted.at("averageValue")))
        }
        "external" | "object" => format!("{}/{}", reported("value"), quantity(wanted.at("value"))),
        _ => {
            let name = spec.at(source).text("name");
            let (current, wanted) = if wanted.has("averageValue") {
                (
                    reported("averageValue"),
                    quantity(wanted.at("averageValue")),
                )
            } else {
                (percent(current, "<unknown>"), percent(wanted, "<auto>"))
            };
            format!("{name}: {current}/{wanted}")
        }
    }
}

/// A quantity, `<nil>` if it is absent, as Go prints a nil pointer. Without a metric status the
/// cell is `<unknown>` instead.
fn quantity(value: &Value) -> String {
    value.as_str().unwrap_or("<nil>").to_owned()
}

fn percent(value: &Value, absent: &str) -> String {
    let utilisation = value.number("averageUtilization");
    utilisation.map_or(absent.to_owned(), |percent| format!("{percent}%"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_show_what_is_and_what_is_wanted() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "100m"}}});
        let external = json!({"type": "External", "external": {"target": {"averageValue": "5"}}});
        let known = json!([{"resource": {"current": {"averageUtilization": 10}}}]);
        let cases = [
            (json!([]), json!([]), "<none>"),
            (json!([&cpu]), json!([]), "cpu: <unknown>/80%"),
            (json!([&cpu, &pods]), known, "cpu: 10%/80%, <unknown>/100m"),
            (
                json!([&pods]),
                json!([{"pods": {"current": {}}}]),
                "<nil>/100m",
            ),
            (
                json!([&external, &cpu, &pods]),
                json!([]),
                "<unknown>/5 (avg), cpu: <unknown>/80% + 1 more...",
            ),
        ];
        for (specs, statuses, expected) in cases {
            let (specs, statuses) = (json!({"x": specs}), json!({"x": statuses}));
            assert_eq!(metrics(specs.items("x"), statuses.items("x")), expected);
        }
    }
}
