//! StatefulSets.

use serde_json::Value;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod, storage, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |cx, set| {
        super::create(cx, set);
        drop_max_unavailable(set);
    },
    prepare_for_update,
    prepare_for_status_update: writes::status_with_metadata,
    ..Rules::NEUTRAL
};

fn default(set: &mut Value) {
    let spec = set.object("spec");
    spec.default_if_zero("podManagementPolicy", "OrderedReady");
    let strategy = spec.object("updateStrategy");
    if strategy.text("type").is_empty() {
        strategy.set("type", "RollingUpdate");
        strategy.object("rollingUpdate");
    }
    if strategy.text("type") == "RollingUpdate"
        && let Some(rolling_update) = strategy.existing("rollingUpdate")
    {
        rolling_update.default_to("partition", 0);
    }
    let retention = spec.object("persistentVolumeClaimRetentionPolicy");
    retention.default_if_zero("whenDeleted", "Retain");
    retention.default_if_zero("whenScaled", "Retain");
    spec.default_to("replicas", 1);
    spec.default_to("revisionHistoryLimit", 10);
    pod::defaults::template(spec.object("template"));
    for claim in spec.items_mut("volumeClaimTemplates") {
        claim.set("apiVersion", "v1");
        claim.set("kind", "PersistentVolumeClaim");
        storage::claim::default(claim);
    }
}

fn prepare_for_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    let rolling_update = old.at("spec").at("updateStrategy").at("rollingUpdate");
    if !rolling_update.has("maxUnavailable") {
        drop_max_unavailable(new);
    }
    super::update(cx, new, old);
}

/// `maxUnavailable` belongs to a feature that is switched off in this version.
fn drop_max_unavailable(set: &mut Value) {
    let strategy = set.object("spec").existing("updateStrategy");
    if let Some(rolling_update) = strategy.and_then(|strategy| strategy.existing("rollingUpdate")) {
        rolling_update.remove("maxUnavailable");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stateful_set_keeps_order_and_claims() {
        let mut set =
            json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}});
        default(&mut set);
        set["spec"].remove("template");
        assert_eq!(
            set["spec"],
            json!({
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "podManagementPolicy": "OrderedReady",
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "volumeClaimTemplates": [{
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "data"},
                    "spec": {"volumeMode": "Filesystem"},
                    "status": {"phase": "Pending"},
                }],
            })
        );
    }

    #[test]
    fn only_a_strategy_left_out_gets_a_partition() {
        let mut set = json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}});
        default(&mut set);
        assert_eq!(
            set["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate"})
        );
    }
}
