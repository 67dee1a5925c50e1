//! When the change happened that endpoints are written for.
//!
//! The time is written into an annotation, from which the delay of the network's programming is
//! measured.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use parking_lot::Mutex;
use sendo::{ObjectExt, ObjectKey, Timestamp};

use crate::pods::{Pod, ready_changed_at};

/// The annotation with the time.
const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times of the changes that each Service was last reconciled for.
#[derive(Debug, Default)]
pub(crate) struct TriggerTimes(Mutex<BTreeMap<ObjectKey, Seen>>);

/// What a Service was last reconciled with.
#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

impl TriggerTimes {
    /// The earliest of the changes since the Service was last reconciled; its creation if it never
    /// was, `None` if there are none.
    pub(crate) fn of_changes(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let created = service
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        let times = pods.iter().filter_map(|pod| {
            let changed = ready_changed_at(pod)?;
            Some((pod.name().to_owned(), changed))
        });
        let seen = Seen {
            service: created,
            pods: times.collect(),
        };
        let mut services = self.0.lock();
        let before = services.get(&service.key());
        let first = match before {
            None => created,
            Some(before) => {
                let of_pods = seen.pods.iter().filter_map(|(name, time)| {
                    (Some(time) > before.pods.get(name)).then_some(*time)
                });
                let of_service = created.filter(|_| created > before.service);
                of_pods.chain(of_service).min()
            }
        };
        services.insert(service.key(), seen);
        first
    }

    /// Forgets a Service that is gone.
    pub(crate) fn forget(&self, service: &ObjectKey) {
        self.0.lock().remove(service);
    }
}

/// Writes the time into the annotations of endpoints; removes what is there if there is none.
pub(crate) fn annotate(annotations: &mut BTreeMap<String, String>, time: Option<Timestamp>) {
    match time {
        Some(time) => annotations.insert(ANNOTATION.to_owned(), time.to_string()),
        None => annotations.remove(ANNOTATION),
    };
}

/// Whether an annotation is that of the time.
pub(crate) fn is_annotation(name: &str) -> bool {
    name == ANNOTATION
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, ready_since: &str) -> Arc<Pod> {
        let condition =
            json!({"type": "Ready", "status": "True", "lastTransitionTime": ready_since});
        let pod = json!({"metadata": {"name": name}, "status": {"conditions": [condition]}});
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    #[test]
    fn the_earliest_change_since_the_last_time_counts() {
        let service = json!({"metadata": {
            "name": "s", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
        }});
        let service: Service = serde_json::from_value(service).expect("a service");
        let times = TriggerTimes::default();
        let of = |pods: &[Arc<Pod>]| {
            times
                .of_changes(&service, pods)
                .map(|time| time.to_string())
        };
        let at = |minute: u8| format!("2026-01-01T01:{minute:02}:00Z");

        // A new Service: its creation, whatever its pods say.
        assert_eq!(
            of(&[pod("a", &at(5))]).as_deref(),
            Some("2026-01-01T00:00:00Z")
        );
        assert_eq!(of(&[pod("a", &at(5))]), None);
        let later = [pod("a", &at(9)), pod("b", &at(7)), pod("c", &at(8))];
        assert_eq!(of(&later), Some(at(7)));
        assert_eq!(of(&later[..1]), None);
        // A pod that was away counts as new.
        assert_eq!(of(&later), Some(at(7)));
        times.forget(&service.key());
        assert_eq!(of(&later).as_deref(), Some("2026-01-01T00:00:00Z"));
    }
}
