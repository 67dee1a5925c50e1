//! PodTemplates.

use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, pod, writes};

pub(super) const RULES: Rules = Rules {
    default: |object| pod::defaults::template(object.object("template")),
    prepare_for_create: |_, object| {
        writes::first_generation(object);
        pod::prepare::drop_unserved(object.object("template").object("spec"));
    },
    prepare_for_update: |_, new, old| {
        pod::prepare::drop_unserved(new.object("template").object("spec"));
        if new.at("template") != old.at("template") {
            writes::next_generation(new, old);
        }
    },
    ..Rules::NEUTRAL
};
