//! ReplicaSets.

use crate::kinds::value::Write;
use crate::kinds::{Rules, pod, writes};

pub(super) const RULES: Rules = Rules {
    default: |replica_set| {
        let spec = replica_set.object("spec");
        spec.default_to("replicas", 1);
        pod::defaults::template(spec.object("template"));
    },
    prepare_for_create: super::create,
    prepare_for_update: super::update,
    prepare_for_status_update: writes::status_with_metadata,
    ..Rules::NEUTRAL
};
