//! Hints by the annotation `service.kubernetes.io/topology-mode: Auto`: each zone gets endpoints
//! in proportion to the CPUs of its nodes.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/topologycache/topologycache.go`, `utils.go`, `sliceinfo.go`,
//!   `event.go`
//! - `staging/src/k8s.io/endpointslice/utils.go`: `hintsEnabled`

mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForZone};
use parking_lot::Mutex;
use sendo::{Context, Event, EventSeverity, ObjectExt, ObjectKey, Reader};

use self::zones::{Allocation, Counts, Ratios};
use super::traffic_distribution::{is_ready, set_hints};
use crate::service::Family;
use crate::slices::{Changes, endpoints, endpoints_mut};

/// The annotations with which a Service asks for hints; the first is older and decides.
const ANNOTATIONS: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];

/// Whether a Service asks for hints by topology.
pub(super) fn is_wanted(service: &Service) -> bool {
    let mode = ANNOTATIONS.iter().find_map(|name| service.annotation(name));
    matches!(mode, Some("Auto" | "auto"))
}

/// Something that people should know about the hints of a Service.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) severity: EventSeverity,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Said {
    fn disabled(message: impl Into<String>) -> Self {
        Said {
            severity: EventSeverity::Warning,
            reason: "TopologyAwareHintsDisabled",
            message: message.into(),
        }
    }
}

/// Whether a change of a node may change the share of its zone.
pub(super) fn is_of_interest(event: &Event<Node>) -> bool {
    match event.old() {
        Some(old) => zones::place(old) != zones::place(event.object()),
        None => true,
    }
}

/// The hints that Services have now.
#[derive(Debug, Default)]
pub(super) struct Topology(Mutex<BTreeMap<ObjectKey, Hinted>>);

/// How many endpoints of a Service are for each zone.
#[derive(Debug, Default)]
struct Hinted {
    by_family: BTreeMap<Family, Counts>,
    /// Whether it has been said that there are hints.
    is_said: bool,
}

impl Topology {
    /// The Services with too few endpoints for a zone, as the nodes are now.
    pub(super) fn overloaded(&self, reader: &Reader) -> Vec<ObjectKey> {
        let services = self.0.lock();
        if services.is_empty() {
            return Vec::new();
        }
        let ratios = Ratios::from_nodes(reader.list::<Node>().iter());
        let is_overloaded = |hinted: &Hinted| {
            hinted
                .by_family
                .values()
                .any(|counts| zones::is_overloaded(counts, ratios.as_ref()))
        };
        let overloaded = services.iter().filter(|(_, hinted)| is_overloaded(hinted));
        overloaded.map(|(service, _)| service.clone()).collect()
    }

    /// Forgets a Service that is gone.
    pub(super) fn forget(&self, service: &ObjectKey) {
        self.0.lock().remove(service);
    }

    /// Forgets the hints of a Service that asks for none; says so if it had any.
    pub(super) fn remove(&self, service: &ObjectKey, family: Family) -> Option<Said> {
        let mut services = self.0.lock();
        let hinted = services.get_mut(service)?;
        let was_said = std::mem::take(&mut hinted.is_said);
        hinted.by_family.remove(&family);
        if hinted.by_family.is_empty() {
            services.remove(service);
        }
        was_said.then(|| Said::disabled("Topology Aware Hints has been disabled"))
    }

    /// Sets the hints of a Service's endpoints, or removes them where that cannot be done well.
    pub(super) fn add_hints(
        &self,
        service: &Service,
        family: Family,
        changes: &mut Changes,
        unchanged: Vec<Arc<EndpointSlice>>,
        cx: &Context,
    ) -> Vec<Said> {
        let key = service.key();
        let ratios = Ratios::from_nodes(cx.list::<Node>().iter());
        match distribute(ratios.as_ref(), changes, &unchanged) {
            Ok(counts) => {
                let mut services = self.0.lock();
                let hinted = services.entry(key).or_default();
                hinted.by_family.insert(family, counts);
                let is_news = !std::mem::replace(&mut hinted.is_said, true);
                let said = Said {
                    severity: EventSeverity::Normal,
                    reason: "TopologyAwareHintsEnabled",
                    message: "Topology Aware Hints has been enabled".to_owned(),
                };
                is_news.then_some(said).into_iter().collect()
            }
            Err(why) => {
                self.remove(&key, family);
                // What was found outdated is among the changes already.
                let is_changed = |slice: &Arc<EndpointSlice>| {
                    changes
                        .update
                        .iter()
                        .any(|other| other.metadata.name == slice.metadata.name)
                };
                let left: Vec<_> = unchanged
                    .into_iter()
                    .filter(|slice| !is_changed(slice))
                    .collect();
                set_hints(None, changes, &left);
                vec![Said::disabled(why)]
            }
        }
    }
}

/// Gives each zone its share of the endpoints. Moves slices whose hints are outdated to those that
/// change.
fn distribute(
    ratios: Option<&Ratios>,
    changes: &mut Changes,
    unchanged: &[Arc<EndpointSlice>],
) -> Result<Counts, String> {
    let slices = changes.create.iter().chain(&changes.update);
    let slices = slices.chain(unchanged.iter().map(|slice| &**slice));
    let count = slices
        .flat_map(endpoints)
        .filter(|endpoint| is_ready(endpoint))
        .count();
    let allocations = zones::allocate(ratios, count)?;

    let mut counts = Counts::new();
    for slice in unchanged {
        match hints_of(slice, &counts, &allocations) {
            Some(hints) => hints
                .into_iter()
                .for_each(|(zone, hints)| *counts.entry(zone).or_default() += hints),
            None => changes.update.push(EndpointSlice::clone(slice)),
        }
    }
    // Every endpoint is for its own zone at first.
    for endpoint in ready_endpoints(changes) {
        let Some(zone) = endpoint.zone.clone().filter(|zone| !zone.is_empty()) else {
            return Err("One or more endpoints do not have a zone specified".to_owned());
        };
        *counts.entry(zone.clone()).or_default() += 1;
        endpoint.hints = Some(for_zone(zone));
    }
    let (mut giving, mut receiving) = zones::moves(&allocations, &counts);
    for endpoint in ready_endpoints(changes) {
        let zone = endpoint.zone.clone().unwrap_or_default();
        let Some(to) = receiving.keys().next().cloned() else {
            break;
        };
        if zones::take(&mut giving, &zone) {
            zones::take(&mut receiving, &to);
            if let Some(count) = counts.get_mut(&zone) {
                *count -= 1;
            }
            *counts.entry(to.clone()).or_default() += 1;
            endpoint.hints = Some(for_zone(to));
        }
    }
    match counts.is_empty() {
        true => Err("No hints allocated for zones".to_owned()),
        false => Ok(counts),
    }
}

fn ready_endpoints(changes: &mut Changes) -> impl Iterator<Item = &mut Endpoint> {
    let slices = changes.create.iter_mut().chain(&mut changes.update);
    let endpoints = slices.flat_map(endpoints_mut);
    endpoints.filter(|endpoint| is_ready(endpoint))
}

fn for_zone(name: String) -> EndpointHints {
    EndpointHints {
        for_zones: Some(vec![ForZone { name }]),
        for_nodes: None,
    }
}

/// How many endpoints of a slice are for each zone; `None` if that is not as it should be.
fn hints_of(
    slice: &EndpointSlice,
    counts: &Counts,
    allocations: &BTreeMap<String, Allocation>,
) -> Option<Counts> {
    let mut hints = Counts::new();
    for endpoint in endpoints(slice)
        .iter()
        .filter(|endpoint| is_ready(endpoint))
    {
        let zones = endpoint
            .hints
            .as_ref()
            .and_then(|hints| hints.for_zones.as_ref());
        for zone in zones.filter(|zones| !zones.is_empty())? {
            *hints.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = |(zone, hints): (&String, &usize)| {
        let others = counts.get(zone).copied().unwrap_or_default();
        allocations
            .get(zone)
            .is_some_and(|allocation| hints + others <= allocation.maximum)
    };
    hints.iter().all(fits).then_some(hints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, zone: &str, cpu: &str) -> Arc<Node> {
        let node = json!({
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {
                "allocatable": {"cpu": cpu},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        Arc::new(serde_json::from_value(node).expect("a node"))
    }

    fn slice(zones: &[&str]) -> EndpointSlice {
        let endpoint = |(number, zone): (usize, &&str)| json!({"addresses": [number.to_string()], "zone": zone, "conditions": {"ready": true}});
        let endpoints: Vec<Value> = zones.iter().enumerate().map(endpoint).collect();
        let slice =
            json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": endpoints});
        serde_json::from_value(slice).expect("a slice")
    }

    fn hints(slice: &EndpointSlice) -> Vec<String> {
        let zone = |endpoint: &Endpoint| {
            let zones = endpoint.hints.clone()?.for_zones?;
            Some(zones.first()?.name.clone())
        };
        endpoints(slice)
            .iter()
            .map(|endpoint| zone(endpoint).unwrap_or_default())
            .collect()
    }

    fn created(slice: EndpointSlice) -> Changes {
        Changes {
            create: vec![slice],
            ..Changes::default()
        }
    }

    #[test]
    fn zones_of_equal_size_get_equally_many() {
        let ratios = Ratios::from_nodes([node("a", "x", "2"), node("b", "y", "2")].into_iter());
        let mut changes = created(slice(&["x", "x", "x", "y"]));
        let counts = distribute(ratios.as_ref(), &mut changes, &[]).expect("hints");
        assert_eq!(
            counts,
            Counts::from([("x".to_owned(), 2), ("y".to_owned(), 2)])
        );
        assert_eq!(hints(&changes.create[0]), ["y", "x", "x", "y"]);
    }

    #[test]
    fn slices_with_fitting_hints_stay_and_others_change() {
        let ratios = Ratios::from_nodes([node("a", "x", "2"), node("b", "y", "2")].into_iter());
        let mut changes = created(slice(&["x", "y"]));
        distribute(ratios.as_ref(), &mut changes, &[]).expect("hints");
        let right = Arc::new(changes.create.remove(0));
        distribute(ratios.as_ref(), &mut changes, &[right]).expect("hints");
        assert_eq!(changes.count(), 0);
        distribute(
            ratios.as_ref(),
            &mut changes,
            &[Arc::new(slice(&["x", "y"]))],
        )
        .expect("hints");
        assert_eq!(changes.update.len(), 1);
    }

    #[test]
    fn reasons_against_hints_are_told() {
        let two = Ratios::from_nodes([node("a", "x", "2"), node("b", "y", "2")].into_iter());
        let one = Ratios::from_nodes([node("a", "x", "2"), node("b", "x", "2")].into_iter());
        let why = |ratios: &Option<Ratios>, zones: &[&str]| {
            distribute(ratios.as_ref(), &mut created(slice(zones)), &[]).unwrap_err()
        };
        assert_eq!(
            why(&one, &["x", "x"]),
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
        );
        assert_eq!(
            why(&two, &["x"]),
            "Insufficient number of endpoints (1 endpoints, 2 zones)"
        );
        assert_eq!(
            why(&two, &["x", ""]),
            "One or more endpoints do not have a zone specified"
        );
    }
}
