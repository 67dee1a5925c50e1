//! LimitRanges and ResourceQuotas: bounds of what a namespace may use.

use serde_json::{Value, json};

use super::value::{Read, Write};
use super::{Rules, writes};

pub(super) const LIMIT_RANGE: Rules = Rules {
    default: |range| {
        for limit in range.object("spec").items_mut("limits") {
            default_limit(limit);
        }
    },
    create_on_update: true,
    ..Rules::NEUTRAL
};

pub(super) const RESOURCE_QUOTA: Rules = Rules {
    prepare_for_create: |_, quota| quota.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_with_metadata,
    ..Rules::NEUTRAL
};

/// Of containers: the limit defaults to the maximum, the request to the limit, else to the minimum.
fn default_limit(limit: &mut Value) {
    if limit.text("type") != "Container" {
        return;
    }
    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        let amounts: Vec<(String, Value)> = limit
            .entries(from)
            .map(|(name, amount)| (name.to_owned(), amount.clone()))
            .collect();
        for (name, amount) in amounts {
            limit.object(to).default_to(&name, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_containers_become_their_defaults() {
        let mut limit =
            json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi", "cpu": "1"}});
        default_limit(&mut limit);
        assert_eq!(limit["default"], json!({"cpu": "2"}));
        assert_eq!(
            limit["defaultRequest"],
            json!({"cpu": "2", "memory": "1Mi"})
        );
        let mut of_pods = json!({"type": "Pod", "max": {"cpu": "2"}});
        default_limit(&mut of_pods);
        assert_eq!(of_pods, json!({"type": "Pod", "max": {"cpu": "2"}}));
    }
}
