//! The JSON that v1 annotations hold, with the field order and names of Kubernetes' Go structs.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/autoscaling/v1/conversion.go`
//! - `staging/src/k8s.io/api/autoscaling/v1/types.go`
//! - `pkg/apis/autoscaling/types.go`: `HorizontalPodAutoscalerBehavior`

use serde_json::Value;

use crate::kinds::ordered::{self, Ordered};
use crate::kinds::value::Read;

/// A v2 metric as v1 JSON.
pub(super) fn metric(metric: &Value) -> String {
    let key = source_key(metric);
    let source = metric.at(key);
    let (target, name) = (source.at("target"), source.at("metric"));
    let text = Ordered::new();
    let text = match key {
        "resource" | "containerResource" => text
            .text("name", source.text("name"))
            .optional("targetAverageUtilization", target.at("averageUtilization"))
            .optional("targetAverageValue", target.at("averageValue"))
            .optional("container", source.at("container")),
        "pods" => {
            let text = text.text("metricName", name.text("name")).text(
                "targetAverageValue",
                quantity_or_zero(target.at("averageValue")),
            );
            with_selector(text, "selector", name)
        }
        "external" => {
            let text = with_selector(
                text.text("metricName", name.text("name")),
                "metricSelector",
                name,
            );
            text.optional("targetValue", target.at("value"))
                .optional("targetAverageValue", target.at("averageValue"))
        }
        _ => {
            let text = text
                .raw("target", reference(source.at("describedObject")))
                .text("metricName", name.text("name"))
                .text("targetValue", quantity_or_zero(target.at("value")));
            with_selector(text, "selector", name)
                .optional("averageValue", target.at("averageValue"))
        }
    };
    Ordered::new()
        .text("type", metric.text("type"))
        .raw(key, text.finish())
        .finish()
}

/// A v2 current metric as v1 JSON.
pub(super) fn current(metric: &Value) -> String {
    let key = source_key(metric);
    let source = metric.at(key);
    let (current, name) = (source.at("current"), source.at("metric"));
    let text = Ordered::new();
    let text = match key {
        "resource" | "containerResource" => text
            .text("name", source.text("name"))
            .optional(
                "currentAverageUtilization",
                current.at("averageUtilization"),
            )
            .text(
                "currentAverageValue",
                quantity_or_zero(current.at("averageValue")),
            )
            .optional("container", source.at("container")),
        "pods" => {
            let text = text.text("metricName", name.text("name")).text(
                "currentAverageValue",
                quantity_or_zero(current.at("averageValue")),
            );
            with_selector(text, "selector", name)
        }
        "external" => {
            let text = with_selector(
                text.text("metricName", name.text("name")),
                "metricSelector",
                name,
            );
            text.text("currentValue", quantity_or_zero(current.at("value")))
                .optional("currentAverageValue", current.at("averageValue"))
        }
        _ => {
            let text = text
                .raw("target", reference(source.at("describedObject")))
                .text("metricName", name.text("name"))
                .text("currentValue", quantity_or_zero(current.at("value")));
            with_selector(text, "selector", name)
                .optional("averageValue", current.at("averageValue"))
        }
    };
    Ordered::new()
        .text("type", metric.text("type"))
        .raw(key, text.finish())
        .finish()
}

/// A behavior as JSON of Kubernetes' internal struct, which has no JSON tags: its keys are Go field
/// names.
pub(super) fn behavior(behavior: &Value) -> String {
    let policy = |policy: &Value| {
        Ordered::new()
            .text("Type", policy.text("type"))
            .with("Value", &policy.count("value").into())
            .with("PeriodSeconds", &policy.count("periodSeconds").into())
            .finish()
    };
    let rules = |rules: &Value| match rules {
        Value::Null => "null".to_owned(),
        rules => Ordered::new()
            .with(
                "StabilizationWindowSeconds",
                rules.at("stabilizationWindowSeconds"),
            )
            .with("SelectPolicy", rules.at("selectPolicy"))
            .raw(
                "Policies",
                ordered::list(rules.items("policies").iter().map(policy)),
            )
            .with("Tolerance", rules.at("tolerance"))
            .finish(),
    };
    Ordered::new()
        .raw("ScaleUp", rules(behavior.at("scaleUp")))
        .raw("ScaleDown", rules(behavior.at("scaleDown")))
        .finish()
}

/// A condition as v1 JSON, without its empty fields.
pub(super) fn condition(condition: &Value) -> String {
    Ordered::new()
        .text("type", condition.text("type"))
        .text("status", condition.text("status"))
        .with("lastTransitionTime", condition.at("lastTransitionTime"))
        .optional("reason", condition.at("reason"))
        .optional("message", condition.at("message"))
        .finish()
}

/// The field of a metric that holds its source.
pub(super) fn source_key(metric: &Value) -> &'static str {
    match metric.text("type") {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        _ => "resource",
    }
}

fn reference(reference: &Value) -> String {
    let text = Ordered::new()
        .text("kind", reference.text("kind"))
        .text("name", reference.text("name"));
    let text = match reference.text("apiVersion") {
        "" => text,
        version => text.text("apiVersion", version),
    };
    text.finish()
}

fn with_selector(text: Ordered, key: &str, metric: &Value) -> Ordered {
    match metric.at("selector") {
        Value::Null => text,
        selector => text.raw(key, ordered::selector(selector)),
    }
}

fn quantity_or_zero(value: &Value) -> &str {
    value.as_str().unwrap_or("0")
}
