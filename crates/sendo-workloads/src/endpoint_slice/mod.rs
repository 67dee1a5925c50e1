//! Keeps the EndpointSlices of each Service with a selector: its pods, at most a hundred in a
//! slice, in slices of their own for each address family and each set of ports.
//!
//! `desired` makes endpoints of pods; `fill` distributes them over slices so that few slices
//! change; `traffic_distribution` and `topology` say which clients should prefer an endpoint.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/endpointslice/endpointslice_controller.go`
//! - `staging/src/k8s.io/endpointslice/reconciler.go`: `Reconcile`, `reconcileByAddressType`

mod desired;
mod figures;
mod fill;
mod topology;
mod traffic_distribution;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sendo::EventSeverity::Warning;
use sendo::handler::map;
use sendo::queue::Backoff;
use sendo::source::kind;
use sendo::{
    Action, Category, Context, Controller, Error, Event, ObjectExt, ObjectKey, Reconcile, Result,
};

use self::desired::Desired;
use self::figures::Figures;
use self::fill::fill;
use self::topology::Topology;
use crate::pods::Pod;
use crate::service::trigger_time::{self, TriggerTimes};
use crate::service::{self, Family};
use crate::slices::metrics::Group;
use crate::slices::{self, BY_SERVICE, Changes, WriteError};

/// The value of the label of the slices that this controller writes.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The most endpoints of a slice.
const MAX_ENDPOINTS: usize = 100;

/// How long a Service that failed waits: such a sync may write many slices.
const RETRY: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_secs(1000),
    factor: 2.0,
};

/// The controller of EndpointSlices.
pub fn controller() -> Controller {
    let topology = Arc::new(Topology::default());
    let figures = Figures::default();
    let overloaded = topology.clone();
    let nodes = map(
        move |event: Event<Node>, reader| match topology::is_of_interest(&event) {
            true => overloaded.overloaded(reader),
            false => Vec::new(),
        },
    );
    let controller = Controller::new::<Service>()
        .named("endpointslice-controller")
        .events_as("endpoint-slice-controller")
        .watches(kind::<Pod>(), service::services_of_pod())
        .watches(kind::<EndpointSlice>(), slices::service_of_slice(MANAGER))
        .watches(kind::<Node>(), nodes)
        .index(&BY_SERVICE)
        .retry(RETRY)
        .workers(5);
    figures.declare(controller).reconcile(SlicesOf {
        times: TriggerTimes::default(),
        topology,
        figures,
    })
}

struct SlicesOf {
    times: TriggerTimes,
    topology: Arc<Topology>,
    figures: Figures,
}

/// Why the slices of a Service are not as they should be.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("skipping Pod {pod} for Service {service}: Node {node} Not Found")]
    NodeNotFound {
        pod: String,
        service: ObjectKey,
        node: String,
    },
}

impl SyncError {
    fn is_conflict(&self) -> bool {
        matches!(self, SyncError::Write(error) if error.is_conflict())
    }
}

impl Reconcile<Service> for SlicesOf {
    async fn reconcile(&self, service: Arc<Service>, cx: Context) -> Result<Action> {
        let Some(selector) = service::selector(&service) else {
            return Ok(Action::done());
        };
        let pods = service::pods(&service, &selector, &cx);
        let changed = self.times.of_changes(&service, &pods);
        let mut existing = slices::slices_of(&service.key(), MANAGER, &cx);
        existing.retain(|slice| !slice.is_being_deleted());

        let families = service::families(&service);
        let mut by_family: BTreeMap<Family, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        let mut changes = Changes::default();
        for slice in existing {
            match Family::parse(&slice.address_type) {
                Some(family) if families.contains(&family) => {
                    by_family.entry(family).or_default().push(slice);
                }
                _ => changes.delete.push(slice),
            }
        }
        let mut errors = Vec::new();
        for family in families {
            let existing = by_family.remove(&family).unwrap_or_default();
            let sync = Sync {
                service: &service,
                family,
                cx: &cx,
            };
            errors.extend(self.sync(&sync, &pods, existing, changed).await);
        }
        let gone = self.write(changes, &service, &cx).await;
        errors.extend(gone.map_err(SyncError::from).err());
        self.figures.synced(errors.is_empty());
        self.report(&service, errors, &cx)
    }

    async fn gone(&self, key: ObjectKey, _: Context) -> Result<()> {
        self.times.forget(&key);
        self.topology.forget(&key);
        self.figures.forget(&key);
        Ok(())
    }
}

/// A sync of the slices of a Service with addresses of one family.
struct Sync<'a> {
    service: &'a Service,
    family: Family,
    cx: &'a Context,
}

impl SlicesOf {
    /// Brings the slices of one family in line with the pods.
    async fn sync(
        &self,
        sync: &Sync<'_>,
        pods: &[Arc<Pod>],
        existing: Vec<Arc<EndpointSlice>>,
        changed: Option<sendo::Timestamp>,
    ) -> Vec<SyncError> {
        let Sync {
            service,
            family,
            cx,
        } = *sync;
        let key = service.key();
        let Desired { groups, mut errors } = Desired::new(service, family, pods, cx);

        let (own, others): (Vec<_>, Vec<_>) = existing
            .iter()
            .cloned()
            .partition(|slice| desired::is_owned(slice, service));
        let mut changes = Changes {
            delete: others,
            ..Changes::default()
        };
        let mut by_ports: BTreeMap<String, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in own {
            by_ports
                .entry(desired::ports_key(&slice))
                .or_default()
                .push(slice);
        }
        let (mut figures, mut added, mut removed) = (Vec::new(), 0, 0);
        for (ports_key, group) in groups {
            let slices = by_ports.remove(&ports_key).unwrap_or_default();
            let endpoints = group.endpoints.len();
            let filled = fill(service, &slices, group.endpoints, || {
                desired::new_slice(service, family, group.ports.clone())
            });
            added += filled.added;
            removed += filled.removed;
            figures.push(Group {
                endpoints,
                slices: slices.len() + filled.changes.create.len() - filled.changes.delete.len(),
            });
            changes.create.extend(filled.changes.create);
            changes.update.extend(filled.changes.update);
            changes.delete.extend(filled.changes.delete);
        }
        // Sets of ports that no pod has any more.
        changes.delete.extend(by_ports.into_values().flatten());

        // A Service without endpoints has one empty slice for each family.
        if changes.delete.len() == existing.len() && changes.create.is_empty() {
            let empty = desired::new_slice(service, family, Vec::new());
            match &changes.delete[..] {
                [only] if desired::is_such_an_empty_slice(only, &empty) => changes.delete.clear(),
                _ => changes.create.push(empty),
            }
            figures.push(Group {
                endpoints: 0,
                slices: 1,
            });
        }
        self.figures.slices.synced(added, removed);
        self.figures.slices.set(&key, family.as_str(), figures);

        let events = self.add_hints(sync, &existing, &mut changes);
        for slice in changes.create.iter_mut().chain(&mut changes.update) {
            let annotations = slice.metadata.annotations.get_or_insert_default();
            trigger_time::annotate(annotations, changed);
        }
        changes.reuse(|old| desired::is_owned(old, service));
        let written = self.write(changes, service, cx).await;
        errors.extend(written.map_err(SyncError::from).err());
        for event in events {
            let message = format!("{}, addressType: {}", event.message, family.as_str());
            cx.event(event.severity, event.reason, message);
        }
        errors
    }

    /// Says in the endpoints which clients should prefer them, in slices that need no other
    /// change, too.
    fn add_hints(
        &self,
        sync: &Sync<'_>,
        existing: &[Arc<EndpointSlice>],
        changes: &mut Changes,
    ) -> Vec<topology::Said> {
        let Sync {
            service,
            family,
            cx,
        } = *sync;
        let unchanged: Vec<_> = {
            let is_changed = |slice: &EndpointSlice| {
                let same = |other: &EndpointSlice| other.metadata.name == slice.metadata.name;
                changes.update.iter().any(same) || changes.delete.iter().any(|other| same(other))
            };
            existing
                .iter()
                .filter(|slice| !is_changed(slice))
                .cloned()
                .collect()
        };
        if topology::is_wanted(service) {
            self.figures.distribute(&service.key(), None);
            return self
                .topology
                .add_hints(service, family, changes, unchanged, cx);
        }
        let said = self.topology.remove(&service.key(), family);
        let wanted = traffic_distribution::requested(service);
        self.figures.distribute(&service.key(), wanted);
        traffic_distribution::set_hints(wanted, changes, &unchanged);
        said.into_iter().collect()
    }

    async fn write(
        &self,
        changes: Changes,
        service: &Service,
        cx: &Context,
    ) -> Result<(), WriteError> {
        let owner = format!("Service {}", service.key());
        self.figures.changed(service, changes.count());
        let going = service.is_being_deleted();
        changes.write(&owner, going, &self.figures.slices, cx).await
    }

    /// The result of a sync. What somebody has to look at is told in an event.
    fn report(&self, service: &Service, errors: Vec<SyncError>, cx: &Context) -> Result<Action> {
        if errors.is_empty() {
            return Ok(Action::done());
        }
        let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        texts.dedup();
        let text = match &texts[..] {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        if errors.iter().all(SyncError::is_conflict) {
            return Err(Error::conflict(text));
        }
        let message = format!(
            "Error updating Endpoint Slices for Service {}: {text}",
            service.key()
        );
        cx.event(Warning, "FailedToUpdateEndpointSlices", message);
        let error = Error::message(text);
        debug_assert_eq!(error.category(), Category::Failure);
        Err(error)
    }
}
