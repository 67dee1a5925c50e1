//! PersistentVolumeClaims.

use serde_json::{Value, json};

use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, claim| {
        claim.set("status", json!({"phase": "Pending"}));
        data_sources(claim.object("spec"), &Value::Null);
    },
    prepare_for_update: |_, new, old| {
        new.copy_from("status", old);
        data_sources(new.object("spec"), old.at("spec"));
    },
    prepare_for_status_update: writes::status_with_metadata,
    ..Rules::NEUTRAL
};

/// Fills in a claim, or the template of one.
pub(crate) fn default(claim: &mut Value) {
    claim.object("status").default_if_zero("phase", "Pending");
    claim.object("spec").default_to("volumeMode", "Filesystem");
}

/// `dataSource` and `dataSourceRef` say the same; sources that the older field never took are dropped from it.
fn data_sources(spec: &mut Value, old: &Value) {
    let has_namespace = !spec.at("dataSourceRef").text("namespace").is_empty();
    if has_namespace && !old.has("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let was_in_use = old.has("dataSource") || old.has("dataSourceRef");
    if !was_in_use && !spec.has("dataSourceRef") && !is_claim_or_snapshot(spec.at("dataSource")) {
        spec.remove("dataSource");
    }
    match (spec.has("dataSource"), spec.has("dataSourceRef")) {
        (true, false) => {
            let source = spec.at("dataSource").clone();
            spec.set("dataSourceRef", source);
        }
        (false, true) if spec.at("dataSourceRef").text("namespace").is_empty() => {
            let mut source = spec.at("dataSourceRef").clone();
            source.remove("namespace");
            spec.set("dataSource", source);
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let known = [
        ("", "PersistentVolumeClaim"),
        ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    ];
    known.contains(&(source.text("apiGroup"), source.text("kind")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_name_of_the_source_agree() {
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "c"});
        let pod = json!({"kind": "Pod", "name": "p"});
        let cases = [
            (
                json!({"dataSource": &claim}),
                json!({"dataSource": &claim, "dataSourceRef": &claim}),
            ),
            (
                json!({"dataSourceRef": &pod}),
                json!({"dataSource": &pod, "dataSourceRef": &pod}),
            ),
            (json!({"dataSource": &pod}), json!({})),
        ];
        for (mut spec, expected) in cases {
            data_sources(&mut spec, &Value::Null);
            assert_eq!(spec, expected);
        }
    }
}
