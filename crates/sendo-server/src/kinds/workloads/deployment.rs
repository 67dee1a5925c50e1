//! Deployments.

use serde_json::Value;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: super::create,
    prepare_for_update,
    prepare_for_status_update: |_, new, old| {
        new.copy_from("spec", old);
        new.object("metadata")
            .copy_from("labels", old.at("metadata"));
    },
    ..Rules::NEUTRAL
};

fn default(deployment: &mut Value) {
    let spec = deployment.object("spec");
    spec.default_to("replicas", 1);
    let strategy = spec.object("strategy");
    strategy.default_if_zero("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling_update = strategy.object("rollingUpdate");
        rolling_update.default_to("maxUnavailable", "25%");
        rolling_update.default_to("maxSurge", "25%");
    }
    spec.default_to("revisionHistoryLimit", 10);
    spec.default_to("progressDeadlineSeconds", 600);
    pod::defaults::template(spec.object("template"));
}

/// Annotations count as part of what a Deployment's controller observes.
fn prepare_for_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    super::update(cx, new, old);
    let annotations = |deployment: &Value| deployment.at("metadata").at("annotations").clone();
    if annotations(new) != annotations(old) {
        writes::next_generation(new, old);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_rolls_a_quarter_at_a_time() {
        let mut deployment = json!({"spec": {}});
        default(&mut deployment);
        deployment["spec"].remove("template");
        assert_eq!(
            deployment["spec"],
            json!({
                "progressDeadlineSeconds": 600,
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            })
        );
    }

    #[test]
    fn recreate_gets_no_numbers() {
        let mut deployment = json!({"spec": {"strategy": {"type": "Recreate"}}});
        default(&mut deployment);
        assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    }
}
