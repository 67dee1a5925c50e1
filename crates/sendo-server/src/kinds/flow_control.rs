//! FlowSchemas and PriorityLevelConfigurations: fairness among requests.

use serde_json::Value;

use super::value::{Read, Write};
use super::{Rules, writes};

pub(super) const FLOW_SCHEMA: Rules = Rules {
    default: |schema| {
        schema
            .object("spec")
            .default_if_zero("matchingPrecedence", 1000)
    },
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    prepare_for_status_update: writes::status_alone,
    ..Rules::NEUTRAL
};

pub(super) const PRIORITY_LEVEL: Rules = Rules {
    default: default_level,
    ..FLOW_SCHEMA
};

fn default_level(level: &mut Value) {
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
