//! Roles and who has them.

use serde_json::Value;

use super::Rules;
use super::value::{Read, Write};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) const ROLE: Rules = Rules {
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const CLUSTER_ROLE: Rules = Rules {
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const ROLE_BINDING: Rules = Rules {
    default: default_binding,
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const CLUSTER_ROLE_BINDING: Rules = Rules {
    default: default_binding,
    create_on_update: true,
    ..Rules::NEUTRAL
};

fn default_binding(binding: &mut Value) {
    binding.object("roleRef").default_if_zero("apiGroup", GROUP);
    for subject in binding.items_mut("subjects") {
        if matches!(subject.text("kind"), "Group" | "User") {
            subject.default_if_zero("apiGroup", GROUP);
        }
    }
}
