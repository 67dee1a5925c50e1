//! PriorityClasses and RuntimeClasses.

use super::value::Write;
use super::{Rules, writes};

pub(super) const PRIORITY_CLASS: Rules = Rules {
    default: |class| class.default_to("preemptionPolicy", "PreemptLowerPriority"),
    prepare_for_create: |_, class| writes::first_generation(class),
    ..Rules::NEUTRAL
};

pub(super) const RUNTIME_CLASS: Rules = Rules {
    create_on_update: true,
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};
