//! Rules of PriorityLevelConfigurations, which limit the concurrent requests of a priority level.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/flowcontrol/validation/validation.go`: `ValidatePriorityLevelConfiguration`,
//!   `ValidatePriorityLevelConfigurationSpec`
//! - `pkg/apis/flowcontrol/v1/defaults.go`
//! - `pkg/apis/flowcontrol/v1beta3/conversion.go`
//! - `pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go`
//! - `staging/src/k8s.io/apiserver/pkg/util/shufflesharding/shufflesharding.go`:
//!   `RequiredEntropyBits`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::conditions;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(in crate::kinds) const RULES: Rules = Rules {
    default,
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    prepare_for_status_update: writes::status_alone,
    validate: |_, level| validate(level),
    validate_update: |_, new, _| validate(new),
    validate_status_update: |_, new, _| {
        let mut errors = Vec::new();
        conditions(&mut errors, new);
        errors
    },
    ..Rules::NEUTRAL
};

const ZERO_SHARES_ANNOTATION: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const MAX_QUEUES: i64 = 10_000_000;
/// The number of bits of a request's hash that choose its queues.
const HASH_BITS: f64 = 60.0;

fn default(level: &mut Value) {
    let spec = level.object("spec");
    if let Some(exempt) = spec.existing("exempt") {
        exempt.default_to("nominalConcurrencyShares", 0);
        exempt.default_to("lendablePercent", 0);
    }
    if let Some(limited) = spec.existing("limited") {
        limited.default_to("nominalConcurrencyShares", 30);
        limited.default_to("lendablePercent", 0);
        if limited.at("limitResponse").has("queuing") {
            let queuing = &mut limited["limitResponse"]["queuing"];
            queuing.default_if_zero("handSize", 8);
            queuing.default_if_zero("queues", 64);
            queuing.default_if_zero("queueLengthLimit", 50);
        }
    }
}

fn validate(level: &Value) -> Errors {
    let mut errors = check::new_metadata(level, Scope::Cluster, names::dns1123_subdomain);
    let metadata = level.at("metadata");
    if metadata.at("annotations").has(ZERO_SHARES_ANNOTATION) {
        let path = Path::new("metadata").child("annotations");
        let fault = format!("annotation '{ZERO_SHARES_ANNOTATION}' is forbidden");
        errors.push(Error::forbidden(&path, fault));
    }
    spec(&mut errors, level.at("spec"), metadata.text("name"));
    conditions(&mut errors, level);
    errors
}

fn spec(errors: &mut Errors, spec: &Value, name: &str) {
    let path = Path::new("spec");
    let (kind, type_path) = (spec.text("type"), path.child("type"));
    if (name == "exempt") != (kind == "Exempt") {
        let fault = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(Error::invalid(&type_path, kind, fault));
    }
    let (exempt_path, limited_path) = (path.child("exempt"), path.child("limited"));
    match kind {
        "Exempt" => {
            if spec.has("limited") {
                let fault = "must be nil if the type is not Limited";
                errors.push(Error::forbidden(&limited_path, fault));
            }
            shares(errors, &exempt_path, spec.at("exempt"));
            lendable(errors, &exempt_path, spec.at("exempt"));
        }
        "Limited" => {
            if spec.has("exempt") {
                let fault = "must be nil if the type is Limited";
                errors.push(Error::forbidden(&exempt_path, fault));
            }
            if spec.has("limited") {
                limited(errors, &limited_path, spec.at("limited"));
            } else {
                let why = "must not be empty when type is Limited";
                errors.push(Error::required(&limited_path, why));
            }
        }
        kind => check::required_one_of(errors, &type_path, kind, &["Exempt", "Limited"]),
    }
}

fn shares(errors: &mut Errors, path: &Path, level: &Value) {
    let shares = level.count("nominalConcurrencyShares");
    if shares < 0 {
        let fault = "must be a non-negative integer";
        let path = path.child("nominalConcurrencyShares");
        errors.push(Error::invalid(&path, shares, fault));
    }
}

fn lendable(errors: &mut Errors, path: &Path, level: &Value) {
    let percent = level.count("lendablePercent");
    if !(0..=100).contains(&percent) {
        let fault = "must be between 0 and 100, inclusive";
        errors.push(Error::invalid(
            &path.child("lendablePercent"),
            percent,
            fault,
        ));
    }
}

fn limited(errors: &mut Errors, path: &Path, limited: &Value) {
    shares(errors, path, limited);
    let response = limited.at("limitResponse");
    let response_path = path.child("limitResponse");
    let queuing_path = response_path.child("queuing");
    match (response.text("type"), response.has("queuing")) {
        ("Reject", true) => {
            let fault = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(Error::forbidden(&queuing_path, fault));
        }
        ("Reject", false) => {}
        ("Queue", true) => queuing(errors, &queuing_path, response.at("queuing")),
        ("Queue", false) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(Error::required(&queuing_path, why));
        }
        (kind, _) => {
            let path = response_path.child("type");
            check::required_one_of(errors, &path, kind, &["Queue", "Reject"]);
        }
    }
    lendable(errors, path, limited);
    let limit = limited.count("borrowingLimitPercent");
    if limit < 0 {
        let fault = "if specified, must be a non-negative integer";
        let path = path.child("borrowingLimitPercent");
        errors.push(Error::invalid(&path, limit, fault));
    }
}

fn queuing(errors: &mut Errors, path: &Path, queuing: &Value) {
    let number = |key: &str| queuing.count(key);
    let (queues, hand) = (number("queues"), number("handSize"));
    let mut refuse = |key: &str, fault: String| {
        errors.push(Error::invalid(&path.child(key), number(key), fault));
    };
    let positive = || "must be positive".to_owned();
    if number("queueLengthLimit") <= 0 {
        refuse("queueLengthLimit", positive());
    }
    if queues <= 0 {
        refuse("queues", positive());
    } else if queues > MAX_QUEUES {
        refuse("queues", format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", positive());
    } else if hand > queues {
        let fault = format!("should not be greater than queues ({queues})");
        refuse("handSize", fault);
    } else if needed_bits(queues, hand) > HASH_BITS {
        let fault = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        refuse("handSize", fault);
    }
}

/// The number of bits needed to choose `hand` of `queues` queues by shuffle sharding.
fn needed_bits(queues: i64, hand: i64) -> f64 {
    let exact = |number: i64| f64::from(i32::try_from(number).unwrap_or(i32::MAX));
    (exact(queues).log2() * exact(hand)).ceil()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(spec: Value) -> Vec<String> {
        let mut level = json!({"metadata": {"name": "l"}, "spec": spec});
        default(&mut level);
        let errors = validate(&level);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_level_is_limited_unless_it_is_the_exempt_one() {
        assert_eq!(
            faults(json!({"type": "Exempt"})),
            [
                "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"
            ]
        );
        assert_eq!(
            faults(json!({"type": "Limited"})),
            ["spec.limited: Required value: must not be empty when type is Limited"]
        );
    }

    #[test]
    fn a_hand_is_drawn_from_the_queues() {
        let with = |queuing: Value| json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}});
        let path = "spec.limited.limitResponse.queuing.handSize";
        assert_eq!(faults(with(json!({}))), Vec::<String>::new());
        assert_eq!(
            faults(with(json!({"queues": 4, "handSize": 5}))),
            [format!(
                "{path}: Invalid value: 5: should not be greater than queues (4)"
            )]
        );
        assert_eq!(
            faults(with(json!({"queues": 1024, "handSize": 7}))),
            [format!(
                "{path}: Invalid value: 7: required entropy bits of deckSize 1024 and handSize 7 should not be greater than 60"
            )]
        );
    }
}
