//! NetworkPolicies.

use serde_json::{Value, json};

use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, policy| writes::first_generation(policy),
    prepare_for_update: |_, new, old| super::spec_moves_generation(new, old),
    ..Rules::NEUTRAL
};

/// A policy that names no types judges incoming traffic, and outgoing if it has rules for it.
fn default(policy: &mut Value) {
    let spec = policy.object("spec");
    if spec.items("policyTypes").is_empty() {
        let has_egress = !spec.items("egress").is_empty();
        let types = if has_egress {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        spec.set("policyTypes", types);
    }
    for direction in ["ingress", "egress"] {
        for rule in spec.items_mut(direction) {
            for port in rule.items_mut("ports") {
                port.default_to("protocol", "TCP");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_from_rules() {
        let cases = [
            (json!({}), json!(["Ingress"])),
            (json!({"egress": [{}]}), json!(["Ingress", "Egress"])),
            (
                json!({"egress": [{}], "policyTypes": ["Egress"]}),
                json!(["Egress"]),
            ),
        ];
        for (spec, expected) in cases {
            let mut policy = json!({"spec": spec});
            default(&mut policy);
            assert_eq!(policy["spec"]["policyTypes"], expected);
        }
    }
}
