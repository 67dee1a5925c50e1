//! EndpointSlices, for the two controllers that write them: how they are found, compared, named
//! and written.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/util/endpointset.go`, `controller_utils.go`:
//!   `EndpointsEqualBeyondHash`
//! - `staging/src/k8s.io/endpointslice/utils.go`: `getEndpointSlicePrefix`
//! - `staging/src/k8s.io/endpointslice/reconciler.go`: `finalize`

pub(crate) mod metrics;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use sendo::handler::{Handler, map};
use sendo::{Context, Event, Index, ObjectExt, ObjectKey, Result, client};

use self::metrics::SliceMetrics;

/// The label with the name of the Service that a slice belongs to.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label with the name of the controller that writes a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The endpoints of a slice. With the types of older releases they are a list, with those of
/// newer ones a list that can be left out.
pub(crate) trait EndpointList {
    fn from_vec(endpoints: Vec<Endpoint>) -> Self;
    fn as_slice(&self) -> &[Endpoint];
    fn as_vec(&mut self) -> &mut Vec<Endpoint>;
}

impl EndpointList for Vec<Endpoint> {
    fn from_vec(endpoints: Vec<Endpoint>) -> Self {
        endpoints
    }

    fn as_slice(&self) -> &[Endpoint] {
        self
    }

    fn as_vec(&mut self) -> &mut Vec<Endpoint> {
        self
    }
}

impl EndpointList for Option<Vec<Endpoint>> {
    fn from_vec(endpoints: Vec<Endpoint>) -> Self {
        Some(endpoints)
    }

    fn as_slice(&self) -> &[Endpoint] {
        self.as_deref().unwrap_or_default()
    }

    fn as_vec(&mut self) -> &mut Vec<Endpoint> {
        self.get_or_insert_default()
    }
}

/// The endpoints of a slice.
pub(crate) fn endpoints(slice: &EndpointSlice) -> &[Endpoint] {
    EndpointList::as_slice(&slice.endpoints)
}

/// The endpoints of a slice, to be changed.
pub(crate) fn endpoints_mut(slice: &mut EndpointSlice) -> &mut Vec<Endpoint> {
    EndpointList::as_vec(&mut slice.endpoints)
}

/// Slices by the Service that they belong to.
pub(crate) static BY_SERVICE: Index<EndpointSlice, ObjectKey> =
    Index::new("slices-by-service", service_of);

/// The Service that a slice belongs to.
fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let service = slice.label(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(slice.key_beside(service))
}

/// The slices of a Service that `manager` writes.
pub(crate) fn slices_of(
    service: &ObjectKey,
    manager: &'static str,
    cx: &Context,
) -> Vec<Arc<EndpointSlice>> {
    let slices = cx.list::<EndpointSlice>().by(&BY_SERVICE, service);
    let is_managed = move |slice: &EndpointSlice| slice.label(MANAGED_BY) == Some(manager);
    slices.filter(is_managed).iter().collect()
}

/// From a slice that `manager` writes, or wrote before, to its Service.
pub(crate) fn service_of_slice(manager: &'static str) -> Handler<Event<EndpointSlice>, ObjectKey> {
    map(move |event: Event<EndpointSlice>, _| {
        let states = [Some(event.object()), event.old()];
        let is_managed = |slice: &&Arc<EndpointSlice>| slice.label(MANAGED_BY) == Some(manager);
        let concerned = states.iter().flatten().any(is_managed);
        let services = states
            .into_iter()
            .flatten()
            .filter_map(|slice| service_of(slice));
        let mut services: Vec<ObjectKey> = services.filter(|_| concerned).collect();
        services.dedup();
        services
    })
}

/// What tells endpoints apart: their addresses, host name and target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointId {
    addresses: Vec<String>,
    hostname: String,
    namespace: String,
    name: String,
}

impl EndpointId {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        let mut addresses = endpoint.addresses.clone();
        addresses.sort();
        let target = endpoint.target_ref.as_ref();
        let text = |field: fn(&ObjectReference) -> &Option<String>| {
            target
                .and_then(|target| field(target).clone())
                .unwrap_or_default()
        };
        EndpointId {
            addresses,
            hostname: endpoint.hostname.clone().unwrap_or_default(),
            namespace: text(|target| &target.namespace),
            name: text(|target| &target.name),
        }
    }
}

/// Endpoints, each once.
pub(crate) type EndpointSet = BTreeMap<EndpointId, Endpoint>;

/// Whether two endpoints of one id are equal. Hints do not count, nor does the version of the target.
pub(crate) fn are_equal(one: &Endpoint, other: &Endpoint) -> bool {
    let target = |endpoint: &Endpoint| {
        endpoint.target_ref.clone().map(|mut target| {
            target.resource_version = None;
            target
        })
    };
    let conditions = |endpoint: &Endpoint| endpoint.conditions.clone().unwrap_or_default();
    one.node_name == other.node_name
        && one.zone == other.zone
        && conditions(one) == conditions(other)
        && target(one) == target(other)
}

/// The prefix of the names of the slices of `owner`.
///
/// A dash follows the name, unless it makes the prefix too long to be a name.
pub(crate) fn name_prefix(owner: &str) -> String {
    match owner.len() < 253 {
        true => format!("{owner}-"),
        false => owner.to_owned(),
    }
}

/// The slices that have to be written.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) create: Vec<EndpointSlice>,
    pub(crate) update: Vec<EndpointSlice>,
    pub(crate) delete: Vec<Arc<EndpointSlice>>,
}

/// Why a slice could not be written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} EndpointSlice for {owner}: {cause}")]
pub(crate) struct WriteError {
    operation: String,
    owner: String,
    #[source]
    cause: client::Error,
}

impl WriteError {
    /// Whether somebody else was faster.
    pub(crate) fn is_conflict(&self) -> bool {
        self.cause.is_conflict()
    }
}

impl Changes {
    /// How many slices are to be written.
    pub(crate) fn count(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// Has new slices take the place of those that were to be deleted, where these may be used.
    pub(crate) fn reuse(&mut self, may_be_used: impl Fn(&EndpointSlice) -> bool) {
        let mut left = Vec::new();
        for old in std::mem::take(&mut self.delete) {
            let is_last_alike = |new: &EndpointSlice| new.address_type == old.address_type;
            let alike = self.create.iter().rposition(is_last_alike);
            match alike.filter(|_| may_be_used(&old)) {
                Some(alike) => {
                    let mut new = self.create.remove(alike);
                    new.metadata.name = Some(old.name().to_owned());
                    self.update.push(new);
                }
                None => left.push(old),
            }
        }
        self.delete = left;
    }

    /// Writes the slices of `owner`, such as `Service n/s`. Creates none if it is being deleted.
    pub(crate) async fn write(
        self,
        owner: &str,
        is_being_deleted: bool,
        metrics: &SliceMetrics,
        cx: &Context,
    ) -> Result<(), WriteError> {
        let failed = |operation: String| {
            let owner = owner.to_owned();
            move |cause| WriteError {
                operation,
                owner,
                cause,
            }
        };
        for slice in self.create.iter().filter(|_| !is_being_deleted) {
            match cx.create(slice).await {
                // No slice can be created any more.
                Err(error) if error.is_namespace_gone() => return Ok(()),
                created => created.map_err(failed("create".to_owned()))?,
            };
            metrics.changed("create");
        }
        for slice in &self.update {
            let updated = cx.update(slice).await;
            updated.map_err(failed(format!("update {}", slice.name())))?;
            metrics.changed("update");
        }
        for slice in &self.delete {
            let deleted = cx.delete(slice).await;
            deleted.map_err(failed(format!("delete {}", slice.name())))?;
            metrics.changed("delete");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn endpoint(value: Value) -> Endpoint {
        serde_json::from_value(value).expect("an endpoint")
    }

    fn slice(name: &str, family: &str) -> EndpointSlice {
        let value = json!({"metadata": {"name": name}, "addressType": family, "endpoints": []});
        serde_json::from_value(value).expect("a slice")
    }

    #[test]
    fn endpoints_are_told_apart_by_address_host_name_and_target() {
        let id = |value: Value| EndpointId::new(&endpoint(value));
        let one = id(json!({"addresses": ["192.0.2.1", "192.0.2.2"]}));
        assert_eq!(
            one,
            id(json!({"addresses": ["192.0.2.2", "192.0.2.1"], "nodeName": "n"}))
        );
        assert_ne!(one, id(json!({"addresses": ["192.0.2.1"]})));
        assert_ne!(
            one,
            id(json!({"addresses": ["192.0.2.1", "192.0.2.2"], "hostname": "h"}))
        );
    }

    #[test]
    fn hints_and_the_version_of_the_target_make_no_difference() {
        let with = |version: &str, ready: bool, hints: Value| {
            endpoint(json!({
                "addresses": [], "conditions": {"ready": ready}, "hints": hints,
                "targetRef": {"name": "p", "resourceVersion": version},
            }))
        };
        let hints = json!({"forZones": [{"name": "z"}]});
        assert!(are_equal(
            &with("1", true, json!(null)),
            &with("2", true, hints)
        ));
        assert!(!are_equal(
            &with("1", true, json!(null)),
            &with("1", false, json!(null))
        ));
    }

    #[test]
    fn new_slices_take_the_place_of_those_of_the_same_address_type() {
        let mut changes = Changes {
            create: vec![slice("", "IPv4"), slice("", "IPv6")],
            update: vec![],
            delete: ["a", "b", "c"]
                .map(|name| Arc::new(slice(name, "IPv4")))
                .into(),
        };
        changes.reuse(|old| old.name() != "a");
        let names = |slices: Vec<String>| slices.join(",");
        let updated = changes.update.iter().map(|slice| slice.name().to_owned());
        assert_eq!(names(updated.collect()), "b");
        let deleted = changes.delete.iter().map(|slice| slice.name().to_owned());
        assert_eq!(names(deleted.collect()), "a,c");
        assert_eq!(changes.create.len(), 1);
        assert_eq!(changes.create[0].address_type, "IPv6");
    }

    #[test]
    fn a_prefix_is_never_longer_than_a_name() {
        assert_eq!(name_prefix("web"), "web-");
        let longest = "a".repeat(253);
        assert_eq!(name_prefix(&longest), longest);
    }
}
