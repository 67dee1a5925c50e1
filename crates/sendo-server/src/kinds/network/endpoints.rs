//! Endpoints, the predecessor of EndpointSlices.

use crate::kinds::Rules;
use crate::kinds::value::Write;

pub(super) const RULES: Rules = Rules {
    default: |endpoints| {
        for subset in endpoints.items_mut("subsets") {
            for port in subset.items_mut("ports") {
                port.default_if_zero("protocol", "TCP");
            }
        }
    },
    create_on_update: true,
    deprecation: Some(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    ..Rules::NEUTRAL
};
