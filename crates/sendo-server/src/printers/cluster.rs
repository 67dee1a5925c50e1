//! Table rows of Nodes, Namespaces, ConfigMaps, Secrets, Events, Leases, quotas, classes, budgets
//! and devices.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `printNode`, `printNamespace`, `printConfigMap`,
//!   `printSecret`, `printServiceAccount`, `printEvent`, `printLease`, `printResourceQuota`,
//!   `printPriorityClass`, `printRuntimeClass`, `printPodDisruptionBudget`, `printComponentStatus`,
//!   `printResourceClaim`, `printResourceSlice`

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Cells, Printer, or, text_or};
use crate::kinds::value::Read;

pub(super) fn printer(group: &str, kind: &str) -> Option<Printer> {
    Some(match (group, kind) {
        ("", "ComponentStatus") => component_status,
        ("", "ConfigMap") => config_map,
        ("", "Event") => event,
        ("", "Namespace") => namespace,
        ("", "Node") => node,
        ("", "ResourceQuota") => resource_quota,
        ("", "Secret") => secret,
        ("", "ServiceAccount") => name_and_age,
        ("coordination.k8s.io", "Lease") => lease,
        ("node.k8s.io", "RuntimeClass") => runtime_class,
        ("policy", "PodDisruptionBudget") => pod_disruption_budget,
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => name_and_age,
        ("resource.k8s.io", "ResourceClaim") => resource_claim,
        ("resource.k8s.io", "ResourceSlice") => resource_slice,
        ("scheduling.k8s.io", "PriorityClass") => priority_class,
        _ => return None,
    })
}

/// Name, Age.
fn name_and_age(cells: &Cells<'_>) -> Vec<Value> {
    vec![cells.name(), cells.age()]
}

/// Name, Status, Roles, Age, Version; wide: Internal-IP, External-IP, OS-Image, Kernel-Version, Container-Runtime.
fn node(cells: &Cells<'_>) -> Vec<Value> {
    let info = cells.status().at("nodeInfo");
    let mut kernel = or(info.text("kernelVersion"), "<unknown>").to_owned();
    if !info.text("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info.text("architecture"));
    }
    vec![
        cells.name(),
        node_status(cells).into(),
        node_roles(cells.metadata()).into(),
        cells.age(),
        info.text("kubeletVersion").into(),
        node_address(cells.status(), "InternalIP").into(),
        node_address(cells.status(), "ExternalIP").into(),
        or(info.text("osImage"), "<unknown>").into(),
        kernel.into(),
        or(info.text("containerRuntimeVersion"), "<unknown>").into(),
    ]
}

fn node_status(cells: &Cells<'_>) -> String {
    let mut conditions = cells.status().items("conditions").iter();
    let ready = match conditions.rfind(|c| c.text("type") == "Ready") {
        Some(condition) if condition.text("status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let unschedulable = cells.spec().is_set("unschedulable");
    if unschedulable {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

/// Roles are the labels `node-role.kubernetes.io/<role>` and the value of `kubernetes.io/role`.
fn node_roles(metadata: &Value) -> String {
    let role =
        |(key, value): (&'_ str, &'_ Value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role.to_owned()),
            None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
            None => None,
        };
    let roles: BTreeSet<String> = metadata
        .entries("labels")
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();
    let roles: Vec<String> = roles.into_iter().collect();
    or(&roles.join(","), "<none>").to_owned()
}

fn node_address<'a>(status: &'a Value, kind: &str) -> &'a str {
    let mut addresses = status.items("addresses").iter();
    addresses
        .find(|a| a.text("type") == kind)
        .map_or("<none>", |a| a.text("address"))
}

/// Name, Status, Age.
fn namespace(cells: &Cells<'_>) -> Vec<Value> {
    vec![
        cells.name(),
        cells.status().text("phase").into(),
        cells.age(),
    ]
}

/// Name, Data, Age.
fn config_map(cells: &Cells<'_>) -> Vec<Value> {
    let count = cells.object.entries("data").count() + cells.object.entries("binaryData").count();
    vec![cells.name(), count.into(), cells.age()]
}

/// Name, Type, Data, Age.
fn secret(cells: &Cells<'_>) -> Vec<Value> {
    let count = cells.object.entries("data").count();
    vec![
        cells.name(),
        cells.object.text("type").into(),
        count.into(),
        cells.age(),
    ]
}

/// Last Seen, Type, Reason, Object, Subobject, Source, Message, First Seen, Count, Name.
pub(super) fn event(cells: &Cells<'_>) -> Vec<Value> {
    let event = cells.object;
    let first_or_event_time = ["firstTimestamp", "eventTime"].map(|key| event.at(key));
    let first = first_or_event_time.into_iter().find(|time| !time.is_null());
    let first_seen = cells.since(first.unwrap_or(&Value::Null));
    let series = event.at("series");
    let last_seen = if series.is_object() {
        cells.since(series.at("lastObservedTime"))
    } else if event.has("lastTimestamp") {
        cells.since(event.at("lastTimestamp"))
    } else {
        first_seen.clone()
    };
    let count = if series.is_object() {
        series.count("count")
    } else {
        event.count("count").max(1)
    };
    let involved = event.at("involvedObject");
    let kind = involved.text("kind").to_lowercase();
    let target = match involved.text("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last_seen.into(),
        event.text("type").into(),
        event.text("reason").into(),
        target.into(),
        involved.text("fieldPath").into(),
        event_source(event).into(),
        event.text("message").trim().into(),
        first_seen.into(),
        count.into(),
        cells.name(),
    ]
}

fn event_source(event: &Value) -> String {
    let source = event.at("source");
    let component = or(source.text("component"), event.text("reportingComponent"));
    match or(source.text("host"), event.text("reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

/// Name, Holder, Age.
fn lease(cells: &Cells<'_>) -> Vec<Value> {
    vec![
        cells.name(),
        cells.spec().text("holderIdentity").into(),
        cells.age(),
    ]
}

/// Name, Request, Limit, Age.
fn resource_quota(cells: &Cells<'_>) -> Vec<Value> {
    let status = cells.status();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in status.entries("hard") {
        let used = text_or(status.at("used"), resource, "0");
        let text = format!("{resource}: {used}/{}", hard.as_str().unwrap_or("0"));
        let column = if resource.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };
        column.push(text);
    }
    vec![
        cells.name(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        cells.age(),
    ]
}

/// Name, Value, Global-Default, Age; wide: PreemptionPolicy.
fn priority_class(cells: &Cells<'_>) -> Vec<Value> {
    let class = cells.object;
    vec![
        cells.name(),
        class.count("value").into(),
        class.is_set("globalDefault").into(),
        cells.age(),
        class.text("preemptionPolicy").into(),
    ]
}

/// Name, Handler, Age.
fn runtime_class(cells: &Cells<'_>) -> Vec<Value> {
    vec![
        cells.name(),
        cells.object.text("handler").into(),
        cells.age(),
    ]
}

/// Name, Min Available, Max Unavailable, Allowed Disruptions, Age.
fn pod_disruption_budget(cells: &Cells<'_>) -> Vec<Value> {
    let bound = |key: &str| match cells.spec().at(key) {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "N/A".to_owned(),
    };
    vec![
        cells.name(),
        bound("minAvailable").into(),
        bound("maxUnavailable").into(),
        cells.status().count("disruptionsAllowed").into(),
        cells.age(),
    ]
}

/// Name, Status, Message, Error.
fn component_status(cells: &Cells<'_>) -> Vec<Value> {
    let mut conditions = cells.object.items("conditions").iter();
    let healthy = conditions
        .find(|c| c.text("type") == "Healthy")
        .unwrap_or(&Value::Null);
    let status = match healthy {
        Value::Null => "Unknown",
        condition if condition.text("status") == "True" => "Healthy",
        _ => "Unhealthy",
    };
    vec![
        cells.name(),
        status.into(),
        healthy.text("message").into(),
        healthy.text("error").into(),
    ]
}

/// Name, State, Age.
fn resource_claim(cells: &Cells<'_>) -> Vec<Value> {
    let status = cells.status();
    let mut states = Vec::new();
    if cells.is_being_deleted() {
        states.push("deleted");
    }
    if status.has("allocation") {
        states.push("allocated");
        if !status.items("reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !cells.is_being_deleted() {
        states.push("pending");
    }
    vec![cells.name(), states.join(",").into(), cells.age()]
}

/// Name, Node, Driver, Pool, Age.
fn resource_slice(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    vec![
        cells.name(),
        spec.text("nodeName").into(),
        spec.text("driver").into(),
        spec.at("pool").text("name").into(),
        cells.age(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::printers::row;

    fn cells(group: &str, kind: &str, object: &Value) -> Value {
        row(
            group,
            kind,
            object,
            "2026-01-01T00:05:00Z".parse().expect("a time"),
        )
        .into()
    }

    #[test]
    fn a_node_shows_readiness_roles_and_versions() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64"},
            },
        });
        assert_eq!(
            cells("", "Node", &node),
            json!([
                "n",
                "NotReady,SchedulingDisabled",
                "edge,worker",
                "<unknown>",
                "v1.36.0",
                "192.0.2.1",
                "<none>",
                "<unknown>",
                "6.1 (amd64)",
                "<unknown>"
            ])
        );
    }

    #[test]
    fn an_event_is_seen_when_its_series_last_was() {
        let mut event = json!({
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "firstTimestamp": "2026-01-01T00:01:00Z",
            "reportingComponent": "c",
            "message": " m\n",
        });
        let row = cells("", "Event", &event);
        assert_eq!(
            [&row[0], &row[3], &row[5], &row[6], &row[7]],
            ["4m", "pod/p", "c", "m", "4m"]
        );
        assert_eq!(row[8], 1);
        event["series"] = json!({"count": 7, "lastObservedTime": "2026-01-01T00:04:00.000000Z"});
        let row = cells("", "Event", &event);
        assert_eq!((&row[0], &row[8]), (&json!("60s"), &json!(7)));
    }

    #[test]
    fn a_quota_parts_limits_from_requests() {
        let quota = json!({
            "metadata": {"name": "q"},
            "status": {"hard": {"pods": "4", "limits.cpu": "2"}, "used": {"pods": "1"}},
        });
        assert_eq!(
            cells("", "ResourceQuota", &quota),
            json!(["q", "pods: 1/4", "limits.cpu: 0/2", "<unknown>"])
        );
    }
}
