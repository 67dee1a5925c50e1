//! Storage drivers: where they run and what they can do.

use serde_json::json;

use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(super) const DRIVER: Rules = Rules {
    default: |driver| {
        let spec = driver.object("spec");
        spec.default_to("attachRequired", true);
        spec.default_to("podInfoOnMount", false);
        spec.default_to("storageCapacity", false);
        spec.default_to("fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.items("volumeLifecycleModes").is_empty() {
            spec.set("volumeLifecycleModes", json!(["Persistent"]));
        }
        spec.default_to("requiresRepublish", false);
        spec.default_to("seLinuxMount", false);
    },
    prepare_for_create: |_, driver| {
        driver
            .object("spec")
            .remove("preventPodSchedulingIfMissing")
    },
    prepare_for_update: |_, new, old| {
        if !old.at("spec").has("preventPodSchedulingIfMissing") {
            new.object("spec").remove("preventPodSchedulingIfMissing");
        }
        if new.at("spec") != old.at("spec") {
            writes::next_generation(new, old);
        }
    },
    allow_unconditional_update: false,
    delete_returns_object: true,
    ..Rules::NEUTRAL
};

pub(super) const NODE: Rules = Rules {
    allow_unconditional_update: false,
    delete_returns_object: true,
    ..Rules::NEUTRAL
};

pub(super) const CAPACITY: Rules = Rules {
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};
