//! Rules of NetworkPolicies.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/networking/validation/validation.go`: `ValidateNetworkPolicy`,
//!   `ValidateNetworkPolicyUpdate`, `ValidateIPBlock`
//! - `pkg/apis/networking/v1/defaults.go`: `SetDefaults_NetworkPolicy`,
//!   `SetDefaults_NetworkPolicyPort`
//! - `pkg/registry/networking/networkpolicy/strategy.go`

use sendo_apimachinery::addresses::{Cidr, Form, validate_cidr};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::forms::cidr_warnings;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, policy| writes::first_generation(policy),
    prepare_for_update: |_, new, old| super::spec_moves_generation(new, old),
    validate: |_, policy| {
        let mut errors = check::new_metadata(policy, Scope::Namespaced, names::dns1123_subdomain);
        spec(&mut errors, policy.at("spec"), &[]);
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        let known = blocks(old)
            .flat_map(|(_, block)| networks(block))
            .collect::<Vec<_>>();
        spec(&mut errors, new.at("spec"), &known);
        errors
    },
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    ..Rules::NEUTRAL
};

/// The directions of traffic: the field of the rules, and the field of their peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// Sets the default `policyTypes`: `Ingress`, and `Egress` if there are egress rules.
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
    for (direction, _) in DIRECTIONS {
        for rule in spec.items_mut(direction) {
            for port in rule.items_mut("ports") {
                port.default_to("protocol", "TCP");
            }
        }
    }
}

/// The IP blocks of a policy with their paths.
fn blocks(policy: &Value) -> impl Iterator<Item = (Path, &Value)> {
    let spec = policy.at("spec");
    DIRECTIONS.iter().flat_map(move |(direction, side)| {
        let rules = spec.items(direction).iter().enumerate();
        rules.flat_map(move |(i, rule)| {
            let peers = rule.items(side).iter().enumerate();
            let peers = peers.filter(|(_, peer)| peer.has("ipBlock"));
            peers.map(move |(j, peer)| {
                let path = Path::new("spec").child(direction).index(i);
                (
                    path.child(side).index(j).child("ipBlock"),
                    peer.at("ipBlock"),
                )
            })
        })
    })
}

fn networks(block: &Value) -> impl Iterator<Item = &str> {
    [block.text("cidr")]
        .into_iter()
        .chain(check::texts(block, "except"))
}

/// Validates a spec. CIDRs that are `known` from the old object may be non-canonical.
fn spec(errors: &mut Errors, spec: &Value, known: &[&str]) {
    let path = Path::new("spec");
    check::selector(errors, &path.child("podSelector"), spec.at("podSelector"));
    for (direction, side) in DIRECTIONS {
        for (i, rule) in spec.items(direction).iter().enumerate() {
            let path = path.child(direction).index(i);
            for (i, port) in rule.items("ports").iter().enumerate() {
                self::port(errors, &path.child("ports").index(i), port);
            }
            for (i, peer) in rule.items(side).iter().enumerate() {
                self::peer(errors, &path.child(side).index(i), peer, known);
            }
        }
    }
    let (types, types_path) = (spec.at("policyTypes"), path.child("policyTypes"));
    if spec.items("policyTypes").len() > DIRECTIONS.len() {
        let fault = "may not specify more than two policyTypes";
        errors.push(Error::invalid(&types_path, types.clone(), fault));
        return;
    }
    for (i, kind) in check::texts(spec, "policyTypes").enumerate() {
        check::one_of(errors, &types_path.index(i), kind, &["Ingress", "Egress"]);
    }
}

fn port(errors: &mut Errors, path: &Path, port: &Value) {
    let (port_path, end_path) = (path.child("port"), path.child("endPort"));
    check::optional_one_of(
        errors,
        &path.child("protocol"),
        port.at("protocol"),
        &["TCP", "UDP", "SCTP"],
    );
    let end = port.number("endPort");
    match port.at("port") {
        Value::Null => {
            if let Some(end) = end {
                let fault = "may not be specified when `port` is not specified";
                errors.push(Error::invalid(&end_path, end, fault));
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                let fault = "may not be specified when `port` is non-numeric";
                errors.push(Error::invalid(&end_path, end, fault));
            }
            check::faults(errors, &port_path, name, names::port_name(name));
        }
        number => {
            let number = number.as_i64().unwrap_or_default();
            check::number_faults(errors, &port_path, number, names::port_number(number));
            if let Some(end) = end {
                if end < number {
                    let fault = "must be greater than or equal to `port`";
                    errors.push(Error::invalid(&end_path, number, fault));
                }
                check::number_faults(errors, &end_path, end, names::port_number(end));
            }
        }
    }
}

fn peer(errors: &mut Errors, path: &Path, peer: &Value, known: &[&str]) {
    let selectors = ["podSelector", "namespaceSelector"];
    for key in selectors {
        check::selector(errors, &path.child(key), peer.at(key));
    }
    let has_selector = selectors.iter().any(|key| peer.has(key));
    match (has_selector, peer.has("ipBlock")) {
        (false, false) => errors.push(Error::required(path, "must specify a peer")),
        (has_selector, true) => {
            block(errors, &path.child("ipBlock"), peer.at("ipBlock"), known);
            if has_selector {
                let fault = "may not specify both ipBlock and another peer";
                errors.push(Error::forbidden(path, fault));
            }
        }
        (true, false) => {}
    }
}

fn block(errors: &mut Errors, path: &Path, block: &Value, known: &[&str]) {
    let form = |text: &str| {
        if known.contains(&text) {
            Form::Sloppy
        } else {
            Form::Strict
        }
    };
    let whole = block.text("cidr");
    if whole.is_empty() {
        errors.push(Error::required(&path.child("cidr"), ""));
        return;
    }
    errors.extend(validate_cidr(&path.child("cidr"), whole, form(whole)));
    let Some(whole) = Cidr::parse(whole) else {
        return;
    };
    for (i, except) in check::texts(block, "except").enumerate() {
        let path = path.child("except").index(i);
        errors.extend(validate_cidr(&path, except, form(except)));
        let inside = |part: Cidr| whole.contains(part.network()) && whole.prefix < part.prefix;
        if Cidr::parse(except).is_some_and(|part| !inside(part)) {
            let fault = "must be a strict subset of `cidr`";
            errors.push(Error::invalid(&path, except, fault));
        }
    }
}

fn warnings(policy: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (path, block) in blocks(policy) {
        warnings.extend(cidr_warnings(&path.child("cidr"), block.text("cidr")));
        for (i, except) in check::texts(block, "except").enumerate() {
            warnings.extend(cidr_warnings(&path.child("except").index(i), except));
        }
    }
    warnings
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

    fn errors(spec: &Value, known: &[&str]) -> Vec<String> {
        let mut errors = Vec::new();
        self::spec(&mut errors, spec, known);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_peer_is_selected_or_a_block() {
        let from = |peer: Value| json!({"podSelector": {}, "ingress": [{"from": [peer]}]});
        let cases = [
            (json!({"podSelector": {}, "namespaceSelector": {}}), vec![]),
            (
                json!({}),
                vec!["spec.ingress[0].from[0]: Required value: must specify a peer"],
            ),
            (
                json!({"podSelector": {}, "ipBlock": {"cidr": "192.0.2.0/24"}}),
                vec![
                    "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
                ],
            ),
            (
                json!({"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/24"]}}),
                vec![
                    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"192.0.2.0/24\": must be a strict subset of `cidr`",
                ],
            ),
        ];
        for (peer, expected) in cases {
            assert_eq!(errors(&from(peer), &[]), expected);
        }
    }

    #[test]
    fn a_network_that_was_taken_before_may_stay() {
        let spec =
            json!({"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.7/24"}}]}]});
        assert_eq!(errors(&spec, &["192.0.2.7/24"]), Vec::<String>::new());
        assert_eq!(errors(&spec, &[]).len(), 1);
    }
}
