//! DaemonSets.

use serde_json::Value;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod, writes};

/// Counts changes of the template: a field of older versions of the API, shown as an annotation in this one.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |cx, set| {
        super::create(cx, set);
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    },
    prepare_for_update,
    prepare_for_status_update: |cx, new, old| {
        writes::status_with_metadata(cx, new, old);
        set_template_generation(new, template_generation(old));
    },
    ..Rules::NEUTRAL
};

fn default(set: &mut Value) {
    let spec = set.object("spec");
    let strategy = spec.object("updateStrategy");
    strategy.default_if_zero("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling_update = strategy.object("rollingUpdate");
        rolling_update.default_to("maxUnavailable", 1);
        rolling_update.default_to("maxSurge", 0);
    }
    spec.default_to("revisionHistoryLimit", 10);
    pod::defaults::template(spec.object("template"));
}

fn prepare_for_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    super::update(cx, new, old);
    let template = |set: &Value| set.at("spec").at("template").clone();
    let changed = template(new) != template(old);
    set_template_generation(new, template_generation(old) + i64::from(changed));
}

fn template_generation(set: &Value) -> i64 {
    let annotation = set
        .at("metadata")
        .at("annotations")
        .text(TEMPLATE_GENERATION);
    annotation.parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let annotations = set.object("metadata").object("annotations");
    annotations.set(TEMPLATE_GENERATION, generation.to_string());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_daemon_set_replaces_one_pod_at_a_time() {
        let mut set = json!({});
        default(&mut set);
        assert_eq!(
            set["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
        );
    }

    #[test]
    fn changes_of_the_template_are_counted() {
        let random = sendo_world::Random::from_seed(1);
        let cx = Cx {
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &random,
            api_version: "apps/v1",
        };
        let mut set = json!({"spec": {"template": {"spec": {}}}});
        (RULES.prepare_for_create)(&cx, &mut set);
        assert_eq!(template_generation(&set), 1);
        let mut new = set.clone();
        new["spec"]["minReadySeconds"] = 5.into();
        (RULES.prepare_for_update)(&cx, &mut new, &set);
        assert_eq!(
            (template_generation(&new), &new["metadata"]["generation"]),
            (1, &json!(2))
        );
        new["spec"]["template"]["spec"]["nodeName"] = "n".into();
        (RULES.prepare_for_update)(&cx, &mut new, &set);
        assert_eq!(template_generation(&new), 2);
    }
}
