//! PodDisruptionBudgets.

use super::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    prepare_for_status_update: writes::status_with_metadata,
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};
