//! EndpointSlices.

use serde_json::Value;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, writes};

pub(super) const RULES: Rules = Rules {
    default: |slice| {
        for port in slice.items_mut("ports") {
            port.default_to("name", "");
            port.default_to("protocol", "TCP");
        }
    },
    prepare_for_create: |_, slice| {
        writes::first_generation(slice);
        drop_topology(slice, &Value::Null);
    },
    prepare_for_update,
    ..Rules::NEUTRAL
};

/// Labels carry a slice's service, so that they count as its content.
fn prepare_for_update(_: &Cx<'_>, new: &mut Value, old: &Value) {
    let content = |slice: &Value| {
        let labels = slice.at("metadata").at("labels").clone();
        ["addressType", "endpoints", "ports"]
            .map(|key| slice.at(key).clone())
            .into_iter()
            .chain([labels])
            .collect()
    };
    let (new_content, old_content): (Vec<Value>, Vec<Value>) = (content(new), content(old));
    if new_content != old_content {
        writes::next_generation(new, old);
    }
    drop_topology(new, old);
}

/// `deprecatedTopology` belongs to an older version and cannot be written in this one.
///
/// A node name that an old object had there is kept in its place of today.
fn drop_topology(slice: &mut Value, old: &Value) {
    const HOST: &str = "kubernetes.io/hostname";
    if old.is_object() && slice.at("endpoints") == old.at("endpoints") {
        return;
    }
    let hosts = old
        .items("endpoints")
        .iter()
        .map(|endpoint| endpoint.at("deprecatedTopology").text(HOST));
    let hosts: Vec<&str> = hosts.filter(|host| !host.is_empty()).collect();
    for endpoint in slice.items_mut("endpoints") {
        let host = endpoint.at("deprecatedTopology").text(HOST).to_owned();
        if hosts.contains(&host.as_str()) {
            endpoint.default_to("nodeName", host);
        }
        endpoint.remove("deprecatedTopology");
    }
}
