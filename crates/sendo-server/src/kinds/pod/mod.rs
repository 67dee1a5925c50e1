//! Pods, and the pod templates of the kinds that make them.

pub(crate) mod defaults;
mod image;
pub(crate) mod prepare;
mod quality;
pub(crate) mod volumes;

use serde_json::Value;

use super::value::Read;
use super::{NAMESPACE, Rules, SelectableField, UnknownFields, Update};

pub(super) const RULES: Rules = Rules {
    default: defaults::pod,
    prepare_for_create: prepare::create,
    prepare_for_update: prepare::update,
    prepare_for_status_update: prepare::status,
    subresources: &[
        ("ephemeralcontainers", EPHEMERAL_CONTAINERS),
        ("resize", RESIZE),
    ],
    selectable_fields: &SELECTABLE,
    unknown_fields: UnknownFields::NotSupported,
    delete_returns_object: true,
    grace_period: Some(grace_period),
    ..Rules::NEUTRAL
};

const EPHEMERAL_CONTAINERS: Update = Update {
    prepare: prepare::ephemeral_containers,
    validate: |_, _, _| Vec::new(),
};

const RESIZE: Update = Update {
    prepare: prepare::resize,
    validate: |_, _, _| Vec::new(),
};

const SELECTABLE: [SelectableField; 11] = [
    NAMESPACE,
    ("spec.nodeName", |pod| {
        pod.at("spec").text("nodeName").to_owned()
    }),
    // The name of that field in the first versions of the API.
    ("spec.host", |pod| {
        pod.at("spec").text("nodeName").to_owned()
    }),
    ("spec.restartPolicy", |pod| {
        pod.at("spec").text("restartPolicy").to_owned()
    }),
    ("spec.schedulerName", |pod| {
        pod.at("spec").text("schedulerName").to_owned()
    }),
    ("spec.serviceAccountName", |pod| {
        pod.at("spec").text("serviceAccountName").to_owned()
    }),
    ("spec.hostNetwork", |pod| {
        pod.at("spec").is_set("hostNetwork").to_string()
    }),
    ("status.phase", |pod| {
        pod.at("status").text("phase").to_owned()
    }),
    ("status.podIP", |pod| first_ip(pod).to_owned()),
    // Accepted, and never set.
    ("status.podIPs", |_| String::new()),
    ("status.nominatedNodeName", |pod| {
        pod.at("status").text("nominatedNodeName").to_owned()
    }),
];

fn first_ip(pod: &Value) -> &str {
    pod.at("status")
        .items("podIPs")
        .first()
        .map_or("", |ip| ip.text("ip"))
}

/// A pod that nothing runs any more, or yet, ends at once; a negative period counts as one second.
fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(pod.at("status").text("phase"), "Failed" | "Succeeded");
    if ended || pod.at("spec").text("nodeName").is_empty() {
        return 0;
    }
    let period = asked.unwrap_or_else(|| pod.at("spec").count("terminationGracePeriodSeconds"));
    if period < 0 { 1 } else { period }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_ends_gracefully_only_where_it_runs() {
        let running = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}});
        let unscheduled = json!({"spec": {"terminationGracePeriodSeconds": 30}});
        let ended = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}});
        let cases = [
            (&running, None, 30),
            (&running, Some(5), 5),
            (&running, Some(-5), 1),
            (&unscheduled, Some(5), 0),
            (&ended, Some(5), 0),
        ];
        for (pod, asked, expected) in cases {
            assert_eq!(grace_period(pod, asked), expected);
        }
    }
}
