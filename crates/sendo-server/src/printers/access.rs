//! Table rows of RBAC bindings, admission registration, API services, certificate requests and flow
//! control.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `printRoleBinding`, `printClusterRoleBinding`,
//!   `printValidatingAdmissionPolicy`, `printMutatingAdmissionPolicy`,
//!   `printValidatingAdmissionPolicyBinding`, `printMutatingAdmissionPolicyBinding`,
//!   `printValidatingWebhook`, `printMutatingWebhook`, `printCertificateSigningRequest`,
//!   `printFlowSchema`, `printPriorityLevelConfiguration`
//! - `staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/etcd/etcd.go`: `ConvertToTable`

use serde_json::Value;

use super::{Cells, Printer, human_duration, or, text_or};
use crate::kinds::value::Read;

pub(super) fn printer(group: &str, kind: &str) -> Option<Printer> {
    Some(match (group, kind) {
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            |cells| policy(cells, "mutations")
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            |cells| policy(cells, "validations")
        }
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding",
        ) => policy_binding,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => webhooks,
        ("apiregistration.k8s.io", "APIService") => api_service,
        ("certificates.k8s.io", "CertificateSigningRequest") => signing_request,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow_schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => priority_level,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => role_binding,
        _ => return None,
    })
}

/// Name, Role, Age; wide: Users, Groups, ServiceAccounts.
fn role_binding(cells: &Cells<'_>) -> Vec<Value> {
    let role = cells.object.at("roleRef");
    let subjects = |kind: &str| {
        let subjects = cells
            .object
            .items("subjects")
            .iter()
            .filter(|subject| subject.text("kind") == kind);
        let name = |subject: &Value| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
            _ => subject.text("name").to_owned(),
        };
        Value::from(subjects.map(name).collect::<Vec<_>>().join(", "))
    };
    vec![
        cells.name(),
        format!("{}/{}", role.text("kind"), role.text("name")).into(),
        cells.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

/// Name, Validations or Mutations, ParamKind, Age.
fn policy(cells: &Cells<'_>, rules: &str) -> Vec<Value> {
    let spec = cells.spec();
    let param_kind = match spec.at("paramKind") {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")),
    };
    vec![
        cells.name(),
        spec.items(rules).len().into(),
        param_kind.into(),
        cells.age(),
    ]
}

/// Name, PolicyName, ParamRef, Age.
fn policy_binding(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let param = spec.at("paramRef");
    let param = if !param.text("name").is_empty() {
        // Whether the parameter kind is namespaced is not known here.
        format!(
            "{}/{}",
            or(param.text("namespace"), "*"),
            param.text("name")
        )
    } else if param.has("selector") {
        go_selector(param.at("selector"))
    } else {
        "<unset>".to_owned()
    };
    vec![
        cells.name(),
        spec.text("policyName").into(),
        param.into(),
        cells.age(),
    ]
}

/// A selector as Go prints Kubernetes' struct, which is what this cell shows.
fn go_selector(selector: &Value) -> String {
    let labels = selector.entries("matchLabels");
    let labels =
        labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()));
    let expression = |expression: &Value| {
        let values: Vec<&str> = expression
            .items("values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            expression.text("key"),
            expression.text("operator"),
            values.join(" ")
        )
    };
    let expressions = selector.items("matchExpressions").iter().map(expression);
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        expressions.collect::<String>()
    )
}

/// Name, Webhooks, Age.
fn webhooks(cells: &Cells<'_>) -> Vec<Value> {
    vec![
        cells.name(),
        cells.object.items("webhooks").len().into(),
        cells.age(),
    ]
}

/// Name, Service, Available, Age.
fn api_service(cells: &Cells<'_>) -> Vec<Value> {
    let service = match cells.spec().at("service") {
        Value::Null => "Local".to_owned(),
        service => format!("{}/{}", service.text("namespace"), service.text("name")),
    };
    let mut conditions = cells.status().items("conditions").iter();
    let available = match conditions.find(|c| c.text("type") == "Available") {
        None => "Unknown".to_owned(),
        Some(c) if c.text("status") != "True" && !c.text("reason").is_empty() => {
            format!("{} ({})", c.text("status"), c.text("reason"))
        }
        Some(c) => c.text("status").to_owned(),
    };
    vec![cells.name(), service.into(), available.into(), cells.age()]
}

/// Name, Age, SignerName, Requestor, RequestedDuration, Condition.
fn signing_request(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let duration = match spec.number("expirationSeconds") {
        Some(seconds) => human_duration(jiff::SignedDuration::from_secs(seconds)),
        None => "<none>".to_owned(),
    };
    vec![
        cells.name(),
        cells.age(),
        or(spec.text("signerName"), "<none>").into(),
        spec.text("username").into(),
        duration.into(),
        signing_status(cells.status()).into(),
    ]
}

fn signing_status(status: &Value) -> String {
    let has = |kind: &str| {
        status
            .items("conditions")
            .iter()
            .any(|c| c.text("type") == kind)
    };
    let approval = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if status.text("certificate").is_empty() {
        ""
    } else {
        ",Issued"
    };
    format!("{approval}{failed}{issued}")
}

/// Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL.
fn flow_schema(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let mut conditions = cells.status().items("conditions").iter();
    let dangling = conditions.find(|c| c.text("type") == "Dangling");
    vec![
        cells.name(),
        spec.at("priorityLevelConfiguration").text("name").into(),
        spec.count("matchingPrecedence").into(),
        text_or(spec.at("distinguisherMethod"), "type", "<none>").into(),
        cells.age(),
        dangling
            .map_or("?", |condition| condition.text("status"))
            .into(),
    ]
}

/// Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age.
fn priority_level(cells: &Cells<'_>) -> Vec<Value> {
    let spec = cells.spec();
    let limited = spec.at("limited");
    let queuing = limited.at("limitResponse").at("queuing");
    let number = |part: &Value, key: &str| match part {
        Value::Null => Value::from("<none>"),
        part => part.count(key).into(),
    };
    vec![
        cells.name(),
        spec.text("type").into(),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        cells.age(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::printers::row;

    fn cells(group: &str, kind: &str, object: Value) -> Value {
        row(
            group,
            kind,
            &object,
            "2026-01-01T00:05:00Z".parse().expect("a time"),
        )
        .into()
    }

    #[test]
    fn a_binding_sorts_its_subjects() {
        let subjects = json!([
            {"kind": "User", "name": "u"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            {"kind": "User", "name": "v"},
        ]);
        let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects});
        let row = cells("rbac.authorization.k8s.io", "RoleBinding", binding);
        assert_eq!(row, json!(["", "Role/r", "<unknown>", "u, v", "", "n/s"]));
    }

    #[test]
    fn a_signing_request_shows_its_condition() {
        let cases = [
            (json!({}), "Pending"),
            (
                json!({"conditions": [{"type": "Approved"}], "certificate": "x"}),
                "Approved,Issued",
            ),
            (
                json!({"conditions": [{"type": "Approved"}, {"type": "Denied"}, {"type": "Failed"}]}),
                "Denied,Failed",
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(signing_status(&status), expected);
        }
    }

    #[test]
    fn a_policy_binding_shows_its_parameter() {
        let group = "admissionregistration.k8s.io";
        let cases = [
            (json!({}), "<unset>"),
            (json!({"paramRef": {"name": "p"}}), "*/p"),
            (json!({"paramRef": {"name": "p", "namespace": "n"}}), "n/p"),
            (
                json!({"paramRef": {"selector": {"matchLabels": {"a": "b"}}}}),
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
        ];
        for (spec, expected) in cases {
            let row = cells(
                group,
                "ValidatingAdmissionPolicyBinding",
                json!({"spec": spec}),
            );
            assert_eq!(row[2], expected);
        }
    }
}
