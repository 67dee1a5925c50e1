//! Nodes.

use serde_json::{Value, json};

use super::value::{Read, Write};
use super::{Rules, UnknownFields};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, node| {
        node.object("spec").remove("configSource");
        node.object("status").remove("config");
    },
    prepare_for_update: |_, new, old| {
        new.copy_from("status", old);
        if !old.at("spec").has("configSource") {
            new.object("spec").remove("configSource");
        }
    },
    prepare_for_status_update: |_, new, old| {
        new.copy_from("spec", old);
        if !old.at("status").has("config") {
            new.object("status").remove("config");
        }
    },
    selectable_fields: &[("spec.unschedulable", |node| {
        node.at("spec").is_set("unschedulable").to_string()
    })],
    unknown_fields: UnknownFields::NotSupported,
    ..Rules::NEUTRAL
};

fn default(node: &mut Value) {
    one_spelling_of_pod_range(node.object("spec"));
    if let Some(status) = node.existing("status")
        && status.has("capacity")
    {
        let capacity = status.at("capacity").clone();
        status.default_to("allocatable", capacity);
    }
}

/// `podCIDR` and the first of `podCIDRs` are one field; where they differ `podCIDR` counts.
fn one_spelling_of_pod_range(spec: &mut Value) {
    let single = spec.text("podCIDR").to_owned();
    let first = spec
        .items("podCIDRs")
        .first()
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !single.is_empty() && single != first {
        spec.set("podCIDRs", json!([single]));
    } else if single.is_empty() && !first.is_empty() {
        spec.set("podCIDR", first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_single_pod_range_counts() {
        let cases = [
            (
                json!({"podCIDR": "a"}),
                json!({"podCIDR": "a", "podCIDRs": ["a"]}),
            ),
            (
                json!({"podCIDRs": ["a", "b"]}),
                json!({"podCIDR": "a", "podCIDRs": ["a", "b"]}),
            ),
            (
                json!({"podCIDR": "a", "podCIDRs": ["b"]}),
                json!({"podCIDR": "a", "podCIDRs": ["a"]}),
            ),
        ];
        for (mut spec, expected) in cases {
            one_spelling_of_pod_range(&mut spec);
            assert_eq!(spec, expected);
        }
    }

    #[test]
    fn all_capacity_can_be_used_unless_said_otherwise() {
        let mut node = json!({"status": {"capacity": {"cpu": "4"}}});
        default(&mut node);
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    }
}
