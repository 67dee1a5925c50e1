//! Leases.

use super::Rules;
use super::value::{Read, Write};

/// Fields of coordinated leader election, which is switched off in this version.
const UNSERVED: [&str; 2] = ["preferredHolder", "strategy"];

pub(super) const RULES: Rules = Rules {
    prepare_for_create: |_, lease| {
        let spec = lease.object("spec");
        UNSERVED.iter().for_each(|key| spec.remove(key));
    },
    prepare_for_update: |_, new, old| {
        for key in UNSERVED.iter().filter(|key| !old.at("spec").has(key)) {
            new.object("spec").remove(key);
        }
    },
    create_on_update: true,
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};
