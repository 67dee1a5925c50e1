//! The task of an APIService that names a service elsewhere.
//!
//! It checks whether the server is available when the Service or its EndpointSlices change,
//! every thirty seconds, and sooner if a check failed; what it finds is the condition
//! `Available`. It asks an available server for its documents every minute. Each APIService has
//! a task of its own, so that a server that hangs holds up no other.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go`: `New`, `updateAPIServiceStatus`
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/status/metrics/metrics.go`: `SetUnavailableGauge`, `SetUnavailableCounter`
//! - `staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper/helpers.go`: `SetAPIServiceCondition`
//! - `staging/src/k8s.io/kube-aggregator/pkg/apiserver/handler_discovery.go`: `NewDiscoveryManager`, `Run`

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use sendo_apimachinery::Status;
use sendo_store::{At, Batch, Entry, Error, KeyRange, Store, Transaction, Watch};
use sendo_world::Clock;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::availability::{self, Condition};
use super::{documents, services};
use crate::catalog::remote::{Backend, RemoteVersion};
use crate::catalog::storage::{backend, time_text};
use crate::catalog::{Resource, stored_form};
use crate::state::Server;
use crate::state::remote_tasks::{RemoteTask, RemoteTasks};
use crate::write::field_managers;

/// How long what is known holds if nothing changes.
const RECHECK: Duration = Duration::from_secs(30);
const REFETCH: Duration = Duration::from_secs(60);
/// How long the first wait after a failure is; each next one is twice as long.
const FIRST_RECHECK: Duration = Duration::from_millis(5);
const FIRST_REFETCH: Duration = Duration::from_millis(500);

/// Runs a task for each version, and ends those of others.
pub(super) fn run(server: &Arc<Server>, tasks: &mut RemoteTasks, remote: &[Arc<RemoteVersion>]) {
    let is_current = |name: &String, task: &RemoteTask| {
        let mut remote = remote.iter();
        remote.any(|remote| remote.api_service() == *name && remote.backend == task.backend)
    };
    tasks
        .by_api_service
        .retain(|name, task| is_current(name, task));
    for remote in remote {
        let name = remote.api_service();
        if let Some(task) = tasks.by_api_service.get(&name) {
            task.changed.notify_one();
            continue;
        }
        let owner = server.world.tasks();
        let task = RemoteTask {
            backend: Arc::clone(&remote.backend),
            changed: Arc::default(),
            stop: owner.stopping().child_token(),
        };
        let checker = Checker {
            server: Arc::downgrade(server),
            store: Arc::clone(&server.store),
            clock: server.world.clock().clone(),
            name: name.clone(),
            backend: Arc::clone(&remote.backend),
            changed: Arc::clone(&task.changed),
            to_fetch: Notify::new(),
        };
        let stop = task.stop.clone();
        owner.spawn("api service", async move {
            let work = async { futures::join!(checker.check(), checker.fetch()) };
            stop.run_until_cancelled(work).await;
        });
        tasks.by_api_service.insert(name, task);
    }
}

struct Checker {
    /// The server owns this task.
    server: Weak<Server>,
    store: Arc<dyn Store>,
    clock: Clock,
    /// The name of the APIService.
    name: String,
    backend: Arc<Backend>,
    /// The APIService was written.
    changed: Arc<Notify>,
    /// The server is to be asked for its documents again.
    to_fetch: Notify,
}

impl Checker {
    /// Keeps the condition `Available`.
    async fn check(&self) {
        let mut backoff = Backoff::new(FIRST_RECHECK, RECHECK);
        loop {
            let changes = Changes::open(&*self.store, &self.backend);
            let Some(retry) = self.check_once().await else {
                return;
            };
            let wait = match retry {
                Retry::Soon => backoff.next(),
                Retry::Later => {
                    backoff.reset();
                    RECHECK
                }
            };
            let changed = async {
                tokio::select! {
                    biased;
                    () = changes.next(&self.backend) => {}
                    () = self.changed.notified() => {}
                }
            };
            self.clock.timeout(wait, changed).await;
        }
    }

    /// Checks, and writes what was found; `None` if there is no server any more.
    async fn check_once(&self) -> Option<Retry> {
        let server = self.server.upgrade()?;
        let Some(remote) = self.version(&server) else {
            return Some(Retry::Later);
        };
        let condition = availability::check(&server, &remote).await;
        match self.write(&server, &condition).await {
            Ok(()) if condition.is_to_be_retried() => Some(Retry::Soon),
            Ok(()) => Some(Retry::Later),
            Err(error) => {
                tracing::warn!(api_service = self.name, %error, "its condition cannot be written");
                Some(Retry::Soon)
            }
        }
    }

    /// Writes the condition, and forwards requests from now on, or no longer.
    async fn write(&self, server: &Arc<Server>, condition: &Condition) -> Result<(), Status> {
        let services = services(server)?;
        let key = services.keys.object(None, &self.name);
        loop {
            let found = server.store.get(&key, At::Latest).await;
            let Some(entry) = found.map_err(backend)?.entry else {
                return Ok(());
            };
            match Backend::from_api_service(&stored_form::object(&entry)) {
                Some(backend) if backend == *self.backend => {}
                // Its next task checks it.
                _ => return Ok(()),
            }
            if set_available(server, &services, &entry, condition).await? == Written::Stale {
                continue;
            }
            let is_available = condition.status == "True";
            let Some(known) = self.version(server) else {
                return Ok(());
            };
            if known.is_available != is_available {
                server.change_catalog(|catalog| {
                    catalog.change_remote(&self.name, |remote| remote.is_available = is_available);
                });
            }
            if known.is_available != is_available || is_available != known.documents.is_fresh {
                self.to_fetch.notify_one();
            }
            return Ok(());
        }
    }

    /// Keeps the documents for discovery and OpenAPI.
    async fn fetch(&self) {
        let mut backoff = Backoff::new(FIRST_REFETCH, REFETCH);
        // Nothing is known before the first check.
        self.to_fetch.notified().await;
        loop {
            let wait = match self.fetch_once().await {
                None => return,
                Some(Ok(())) => {
                    backoff.reset();
                    REFETCH
                }
                Some(Err(why)) => {
                    tracing::debug!(api_service = self.name, why, "discovery is stale");
                    backoff.next()
                }
            };
            self.clock.timeout(wait, self.to_fetch.notified()).await;
        }
    }

    /// Fetches the documents; `None` if there is no server any more.
    async fn fetch_once(&self) -> Option<Result<(), String>> {
        let server = self.server.upgrade()?;
        let Some(remote) = self.version(&server) else {
            return Some(Ok(()));
        };
        let (documents, outcome) = documents::fetch(&server, &remote).await;
        server.change_catalog(|catalog| {
            catalog.change_remote(&self.name, |remote| {
                if remote.backend == self.backend {
                    remote.documents = documents;
                }
            });
        });
        Some(outcome)
    }

    /// The version as the catalog has it now.
    fn version(&self, server: &Server) -> Option<Arc<RemoteVersion>> {
        let catalog = server.catalog();
        let mut remote = catalog.remote().iter();
        let found = remote.find(|remote| remote.api_service() == self.name);
        found.cloned()
    }
}

/// When to check again if nothing changes.
enum Retry {
    Soon,
    Later,
}

/// Waits that grow.
struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    fn new(first: Duration, longest: Duration) -> Self {
        Backoff {
            first,
            longest,
            next: first,
        }
    }

    fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    fn reset(&mut self) {
        self.next = self.first;
    }
}

/// The changes of a Service and of its EndpointSlices, from before a check on.
struct Changes {
    /// `None` if the store does not tell.
    watches: Option<[Watch; 2]>,
}

impl Changes {
    fn open(store: &dyn Store, backend: &Backend) -> Self {
        let now = store.revision();
        let service = KeyRange::one(availability::service_key(backend));
        let watches = [service, availability::slices_range(backend)];
        let opened = watches.map(|range| store.watch(range, now));
        Changes {
            watches: match opened {
                [Ok(service), Ok(slices)] => Some([service, slices]),
                _ => None,
            },
        }
    }

    /// Returns when one has changed.
    async fn next(self, backend: &Backend) {
        let Some([mut service, mut slices]) = self.watches else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                biased;
                _ = service.next() => return,
                batch = slices.next() => match batch {
                    Some(Ok(batch)) if !concerns(&batch, backend) => {}
                    _ => return,
                },
            }
        }
    }
}

/// Whether a slice of the Service was changed.
fn concerns(batch: &Batch, backend: &Backend) -> bool {
    let mut entries = batch
        .changes
        .iter()
        .flat_map(|change| [&change.now, &change.before]);
    entries.any(|entry| {
        entry.as_ref().is_some_and(|entry| {
            let slice: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
            availability::is_slice_of(&slice, backend)
        })
    })
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The APIService has the condition.
    Done,
    /// The APIService was changed meanwhile.
    Stale,
}

/// Writes the condition `Available` of an APIService, if that is another one, and counts it.
pub(super) async fn set_available(
    server: &Server,
    services: &Resource,
    entry: &Entry,
    condition: &Condition,
) -> Result<Written, Status> {
    let before = stored_form::decode(&entry.value, entry.modified, &services.stored);
    let name = before["metadata"]["name"].as_str().unwrap_or_default();
    let is_available = condition.status == "True";
    let counted = &server.metrics.aggregator;
    let unavailable = i64::from(!is_available);
    counted.unavailable.set(&[name], unavailable);

    let now = time_text(server.world.clock().wall());
    let Some(status) = with_condition(&before["status"], condition, &now) else {
        return Ok(Written::Done);
    };
    let mut after = before.clone();
    after["status"] = status;
    field_managers::update_own(server, services, "status", &before, &mut after, &now);
    let put = Transaction::new()
        .unchanged(entry.key.clone(), entry.modified)
        .put(entry.key.clone(), server.encode(services, &mut after));
    match server.store.commit(put).await {
        Ok(_) => {}
        Err(Error::Conflict { .. }) => return Ok(Written::Stale),
        Err(other) => return Err(backend(other)),
    }
    if !is_available && availability::is_available(&before) {
        counted.unavailable_total.count(&[name, condition.reason]);
    }
    Ok(Written::Done)
}

/// A status with the condition; `None` if it has it. The time is that of the last change of
/// the condition's status.
fn with_condition(status: &Value, condition: &Condition, now: &str) -> Option<Value> {
    let mut status = match status.is_object() {
        true => status.clone(),
        false => json!({}),
    };
    let new = json!({
        "type": "Available",
        "status": condition.status,
        "lastTransitionTime": now,
        "reason": condition.reason,
        "message": condition.message,
    });
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    let Some(conditions) = conditions else {
        status["conditions"] = json!([new]);
        return Some(status);
    };
    let Some(known) = conditions.iter_mut().find(|own| own["type"] == "Available") else {
        conditions.push(new);
        return Some(status);
    };
    let is_same = |key: &str| known[key] == new[key];
    if ["status", "reason", "message"].into_iter().all(is_same) {
        return None;
    }
    let since = match is_same("status") {
        true => known["lastTransitionTime"].clone(),
        false => new["lastTransitionTime"].clone(),
    };
    *known = new;
    known["lastTransitionTime"] = since;
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change_of_status() {
        let condition = |status, message: &str| Condition {
            status,
            reason: "R",
            message: message.to_owned(),
        };
        let first = with_condition(&Value::Null, &condition("False", "a"), "1").unwrap();
        assert_eq!(with_condition(&first, &condition("False", "a"), "2"), None);
        let second = with_condition(&first, &condition("False", "b"), "2").unwrap();
        let shown = |status: &Value| {
            let own = &status["conditions"][0];
            format!(
                "{} {} {}",
                own["status"], own["message"], own["lastTransitionTime"]
            )
        };
        assert_eq!(shown(&second), r#""False" "b" "1""#);
        let third = with_condition(&second, &condition("True", "c"), "3").unwrap();
        assert_eq!(shown(&third), r#""True" "c" "3""#);
        assert_eq!(third["conditions"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn waits_grow_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(3));
        let waits = [backoff.next(), backoff.next(), backoff.next()];
        assert_eq!(waits.map(|wait| wait.as_secs()), [1, 2, 3]);
        backoff.reset();
        assert_eq!(backoff.next(), Duration::from_secs(1));
    }
}
