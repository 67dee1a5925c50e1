//! Hints by the `trafficDistribution` of a Service: an endpoint is for the clients of its zone, or
//! of its node.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go`

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone};

use crate::slices::{Changes, endpoints, endpoints_mut};

/// Which clients an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    Close,
    SameZone,
    SameNode,
}

impl Distribution {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Distribution::Close => "PreferClose",
            Distribution::SameZone => "PreferSameZone",
            Distribution::SameNode => "PreferSameNode",
        }
    }
}

/// The distribution that a Service asks for.
pub(super) fn requested(service: &Service) -> Option<Distribution> {
    let wanted = service.spec.as_ref()?.traffic_distribution.as_deref()?;
    let known = [
        Distribution::Close,
        Distribution::SameZone,
        Distribution::SameNode,
    ];
    known.into_iter().find(|known| known.as_str() == wanted)
}

/// Sets the hints of all endpoints, or removes them where nothing is wanted.
pub(super) fn set_hints(
    wanted: Option<Distribution>,
    changes: &mut Changes,
    unchanged: &[Arc<EndpointSlice>],
) {
    let has_others = |endpoint: &Endpoint| match wanted {
        Some(wanted) => is_ready(endpoint) && !are_equal(endpoint, hints(endpoint, wanted)),
        None => endpoint.hints.is_some(),
    };
    let outdated = unchanged
        .iter()
        .filter(|slice| endpoints(slice).iter().any(has_others));
    changes
        .update
        .extend(outdated.map(|slice| EndpointSlice::clone(slice)));
    for slice in changes.create.iter_mut().chain(&mut changes.update) {
        for endpoint in endpoints_mut(slice) {
            match wanted {
                Some(wanted) if is_ready(endpoint) => endpoint.hints = hints(endpoint, wanted),
                // Nobody is sent there.
                Some(_) => {}
                None => endpoint.hints = None,
            }
        }
    }
}

/// Whether an endpoint is ready.
pub(super) fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|conditions| conditions.ready) == Some(true)
}

fn hints(endpoint: &Endpoint, wanted: Distribution) -> Option<EndpointHints> {
    let zone = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
    let node = endpoint
        .node_name
        .clone()
        .map(|name| vec![ForNode { name }]);
    let node = node.filter(|_| wanted == Distribution::SameNode);
    (zone.is_some() || node.is_some()).then_some(EndpointHints {
        for_nodes: node,
        for_zones: zone,
    })
}

/// Whether an endpoint has these hints; an empty list is as good as none.
fn are_equal(endpoint: &Endpoint, wanted: Option<EndpointHints>) -> bool {
    let plain = |hints: Option<EndpointHints>| {
        let hints = hints.unwrap_or_default();
        (
            hints.for_nodes.unwrap_or_default(),
            hints.for_zones.unwrap_or_default(),
        )
    };
    plain(endpoint.hints.clone()) == plain(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn slice(endpoints: Value) -> EndpointSlice {
        let slice =
            json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": endpoints});
        serde_json::from_value(slice).expect("a slice")
    }

    fn hinted(wanted: Option<Distribution>, endpoint: Value) -> Option<Value> {
        let mut changes = Changes::default();
        set_hints(wanted, &mut changes, &[Arc::new(slice(json!([endpoint])))]);
        let slice = changes.update.first()?;
        Some(json!(endpoints(slice)[0].hints))
    }

    #[test]
    fn an_endpoint_is_for_its_zone_or_its_node() {
        let endpoint =
            json!({"addresses": [], "zone": "z", "nodeName": "n", "conditions": {"ready": true}});
        let zone = json!({"forZones": [{"name": "z"}]});
        let both = json!({"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]});
        assert_eq!(
            hinted(Some(Distribution::Close), endpoint.clone()),
            Some(zone.clone())
        );
        assert_eq!(
            hinted(Some(Distribution::SameZone), endpoint.clone()),
            Some(zone)
        );
        assert_eq!(
            hinted(Some(Distribution::SameNode), endpoint.clone()),
            Some(both)
        );
        assert_eq!(hinted(None, endpoint), None);
    }

    #[test]
    fn slices_whose_hints_are_right_stay() {
        let hints = json!({"forZones": [{"name": "z"}]});
        let endpoint =
            json!({"addresses": [], "zone": "z", "conditions": {"ready": true}, "hints": hints});
        assert_eq!(hinted(Some(Distribution::Close), endpoint.clone()), None);
        assert_eq!(hinted(None, endpoint), Some(Value::Null));
        let not_ready = json!({"addresses": [], "zone": "z", "conditions": {"ready": false}});
        assert_eq!(hinted(Some(Distribution::Close), not_ready), None);
        let homeless = json!({"addresses": [], "conditions": {"ready": true}});
        assert_eq!(hinted(Some(Distribution::Close), homeless), None);
    }
}
