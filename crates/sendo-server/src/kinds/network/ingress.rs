//! Ingresses and their classes.

use crate::kinds::value::Write;
use crate::kinds::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    prepare_for_status_update: writes::status_with_metadata,
    ..Rules::NEUTRAL
};

pub(super) const CLASS: Rules = Rules {
    default: |class| {
        if let Some(parameters) = class.object("spec").existing("parameters") {
            parameters.default_to("scope", "Cluster");
        }
    },
    prepare_for_create: |_, class| writes::first_generation(class),
    prepare_for_update: |_, new, old| super::spec_moves_generation(new, old),
    ..Rules::NEUTRAL
};
