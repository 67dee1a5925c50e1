//! The cluster a test is given.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use parking_lot::Mutex;
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions, Deletion, Patch};
use sendo::election::ElectionOptions;
use sendo::{Config, Manager, Running, Typed, World};
use sendo_cluster::{Cluster, ClusterOptions};
use sendo_server::ApiServer;
use sendo_store::{KeyRange, Revision, Store};
use serde_json::Value;

use crate::faults::Faults;
use crate::troubles::Troubles;
use crate::view::View;

/// How long, in virtual time, [`TestCluster::until`] waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(600);

/// A live cluster with virtual time. Cheap to clone.
///
/// Every method that fails panics with what was seen: a test has nothing better to do.
#[derive(Clone)]
pub struct TestCluster {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    cluster: Mutex<Option<Cluster>>,
    view: View,
    store: Arc<dyn Store>,
    kube: kube::Client,
    client: Client,
    managers: Mutex<Vec<Running>>,
    /// How many programs have been given settings.
    programs: AtomicU64,
    /// Every change since the cluster was there, in a line each.
    changes: Arc<Mutex<String>>,
    troubles: Troubles,
}

impl fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCluster").finish_non_exhaustive()
    }
}

impl TestCluster {
    /// A cluster with two nodes, every random choice of which follows from `seed`.
    ///
    /// Must be called on a single-threaded runtime with paused time;
    /// `#[sendo_test::test]` sees to that.
    pub async fn start(seed: u64) -> Self {
        TestCluster::start_with(seed, ClusterOptions::default()).await
    }

    /// The same with other parts.
    pub async fn start_with(seed: u64, options: ClusterOptions) -> Self {
        TestCluster::start_watched(seed, options, Troubles::default()).await
    }

    /// The same with a view of what went wrong, to be shown when it is waited in vain.
    pub(crate) async fn start_watched(
        seed: u64,
        options: ClusterOptions,
        troubles: Troubles,
    ) -> Self {
        let world = World::seeded(seed);
        let cluster = Cluster::start(&world, options).await;
        let cluster = cluster.unwrap_or_else(|error| panic!("the cluster did not start: {error}"));
        let kube = cluster.client();
        let test = world.child("test");
        let cache = Cache::new(kube.clone(), test.clone(), CacheOptions::default());
        let options = ClientOptions {
            name: "test".to_owned(),
            ..ClientOptions::default()
        };
        let changes = Arc::new(Mutex::new(String::new()));
        write_down(&test, cluster.store(), changes.clone());
        TestCluster {
            inner: Arc::new(Inner {
                view: View::new(cluster.server().clone()),
                store: cluster.store().clone(),
                client: Client::new(kube.clone(), cache, test, options),
                kube,
                cluster: Mutex::new(Some(cluster)),
                managers: Mutex::default(),
                programs: AtomicU64::default(),
                changes,
                troubles,
                world,
            }),
        }
    }

    /// Runs a program on the cluster until the test ends; returns when it is ready.
    pub async fn run(&self, manager: Manager) {
        self.run_with(manager, self.config()).await;
    }

    /// How a program runs on this cluster by default, to be changed and given to
    /// [`TestCluster::run_with`]. Each has a world of its own: a program that runs
    /// after another does not make the same random choices.
    pub fn config(&self) -> Config {
        Config::new(self.inner.kube.clone(), self.program_world())
    }

    fn program_world(&self) -> World {
        let number = self.inner.programs.fetch_add(1, Ordering::Relaxed);
        self.inner.world.child(&format!("program-{number}"))
    }

    /// The settings of one of several replicas of a program: each has a world of
    /// its own, as if it ran on a machine of its own, and they elect a leader
    /// by the lease `lease` in the namespace `default`.
    pub fn replica(&self, name: &str, lease: &str) -> Config {
        let world = self.inner.world.child(name);
        Config {
            election: Some(ElectionOptions::new("default", lease)),
            ..Config::new(self.inner.kube.clone(), world)
        }
    }

    /// The settings of a program whose requests meet `faults`.
    pub fn faulty(&self, faults: &Faults) -> Config {
        let service = self.inner.view.server().client_service();
        Config::new(faults.client(service), self.program_world())
    }

    /// The same with other settings than the defaults.
    pub async fn run_with(&self, manager: Manager, config: Config) {
        let running = manager.start(config);
        let running = running.unwrap_or_else(|error| panic!("the manager did not start: {error}"));
        running.ready().await;
        self.inner.managers.lock().push(running);
    }

    /// Installs the CustomResourceDefinition of a type and waits until it is served.
    pub async fn install<K: CustomResourceExt>(&self) {
        let definition = K::crd();
        let name = definition.metadata.name.clone().unwrap_or_default();
        self.create(&definition).await;
        self.until(&format!("{name} is served"), |now| {
            let definition = now.get::<CustomResourceDefinition>(name.as_str());
            let status = definition.and_then(|definition| definition.status);
            let mut conditions = status
                .into_iter()
                .flat_map(|s| s.conditions.into_iter().flatten());
            conditions.any(|c| c.type_ == "Established" && c.status == "True")
        })
        .await;
    }

    /// Creates an object; gives it back as the server made it.
    pub async fn create<K: Typed>(&self, object: &K) -> K {
        told("create", self.inner.client.create(object).await)
    }

    /// Changes an object by a merge patch.
    pub async fn patch<K: Typed>(&self, object: &K, change: Value) -> K {
        told(
            "patch",
            self.inner.client.patch(object, Patch::Merge(change)).await,
        )
    }

    /// Deletes an object, as `kubectl delete` would.
    pub async fn delete<K: Typed>(&self, object: &K) -> Deletion {
        told("delete", self.inner.client.delete(object).await)
    }

    /// The object under `key`, at this moment.
    pub fn get<K: Typed>(&self, key: impl Into<sendo::ObjectKey>) -> Option<K> {
        self.inner.view.get(key)
    }

    /// All objects of a kind, at this moment.
    pub fn list<K: Typed>(&self) -> Vec<K> {
        self.inner.view.list()
    }

    /// Waits until `holds`; looks again after every change.
    ///
    /// # Panics
    /// If it does not hold within ten minutes of virtual time; the message says
    /// `what` was waited for, what was logged last as warning or error (a failed
    /// reconcile, a watch that was refused), and what changed last.
    pub async fn until(&self, what: &str, holds: impl Fn(&View) -> bool) {
        let waiting = async {
            let mut seen = Revision(0);
            while !holds(&self.inner.view) {
                seen = self
                    .changed_after(seen.max(self.inner.store.revision()))
                    .await;
            }
        };
        let clock = self.inner.world.clock();
        if clock.timeout(PATIENCE, waiting).await.is_none() {
            let changes = self.changes();
            let last: Vec<_> = changes
                .lines()
                .rev()
                .filter(|line| !is_heartbeat(line))
                .take(10)
                .map(brief)
                .collect();
            let troubles = match self.inner.troubles.take() {
                none if none.is_empty() => "none\n".to_owned(),
                troubles => troubles,
            };
            panic!(
                "{what}: did not come true within {PATIENCE:?} of virtual time\n\
                 the last warnings and errors, newest last:\n{troubles}\
                 the last changes, newest first:\n{}",
                last.join("\n")
            );
        }
    }

    /// Lets virtual time pass.
    pub async fn pass(&self, duration: Duration) {
        self.inner.world.clock().sleep(duration).await;
    }

    /// Lets `duration` of virtual time pass and checks that nothing was written
    /// in it, but for heartbeats: leases and the nodes' own reports.
    ///
    /// # Panics
    /// If anything else was written; the message shows it.
    pub async fn stays_quiet_for(&self, duration: Duration) {
        let before = self.changes().len();
        self.pass(duration).await;
        let changes = self.changes();
        let written: Vec<String> = changes[before..]
            .lines()
            .filter(|line| !is_heartbeat(line))
            .map(without_managed_fields)
            .collect();
        assert!(
            written.is_empty(),
            "not quiet for {duration:?}: {} writes\n{}",
            written.len(),
            written.join("\n")
        );
    }

    pub(crate) fn server(&self) -> &ApiServer {
        self.inner.view.server()
    }

    /// A client of the cluster's API server, as its administrator.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The world the cluster lives in.
    pub fn world(&self) -> &World {
        &self.inner.world
    }

    /// Every change of every object since the start, a line each: virtual time,
    /// revision, key, and what it became.
    pub fn changes(&self) -> String {
        self.inner.changes.lock().clone()
    }

    /// Stops the managers and the cluster, and checks that no task is left.
    pub async fn stop(&self) {
        let managers = std::mem::take(&mut *self.inner.managers.lock());
        for manager in managers {
            if let Err(error) = manager.stop().await {
                panic!("a manager had failed: {error}");
            }
        }
        let cluster = self.inner.cluster.lock().take();
        if let Some(cluster) = cluster {
            cluster.stop().await;
        }
        self.inner.world.tasks().stop().await;
    }

    async fn changed_after(&self, revision: Revision) -> Revision {
        let watch = self.inner.store.watch(KeyRange::all(), revision);
        let mut watch = watch.expect("a revision that is still kept");
        match watch.next().await {
            Some(Ok(batch)) => batch.revision,
            _ => revision,
        }
    }
}

fn told<T>(did: &str, result: Result<T, sendo::client::Error>) -> T {
    result.unwrap_or_else(|error| panic!("cannot {did}: {error}"))
}

/// Whether a line of the changes is written at rest, too.
fn is_heartbeat(line: &str) -> bool {
    line.contains("/leases/") || line.contains("/nodes/")
}

/// A line of the changes, as much of it as people look at.
fn brief(line: &str) -> String {
    without_managed_fields(line).chars().take(500).collect()
}

/// A line of the changes without what no one reads.
fn without_managed_fields(line: &str) -> String {
    let parts: Vec<&str> = line.splitn(4, ' ').collect();
    let [time, revision, key, object] = parts[..] else {
        return line.to_owned();
    };
    let Ok(mut object) = serde_json::from_str::<Value>(object) else {
        return line.to_owned();
    };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    format!("{time} {revision} {key} {object}")
}

/// Follows the store from its beginning and writes a line for every change.
fn write_down(world: &World, store: &Arc<dyn Store>, changes: Arc<Mutex<String>>) {
    let watch = store.watch(KeyRange::all(), Revision(0));
    let mut watch = watch.expect("a young store keeps everything");
    let clock = world.clock().clone();
    let stopping = world.tasks().stopping().clone();
    let follow = async move {
        loop {
            let next = tokio::select! {
                biased;
                next = watch.next() => next,
                () = stopping.cancelled() => watch.next().now_or_never().flatten(),
            };
            let Some(Ok(batch)) = next else {
                return;
            };
            let mut changes = changes.lock();
            for change in batch.changes.iter() {
                let value = change
                    .now
                    .as_ref()
                    .map(|entry| String::from_utf8_lossy(&entry.value));
                let value = value.as_deref().unwrap_or("(deleted)");
                let _ = writeln!(
                    changes,
                    "{} {} {} {value}",
                    clock.wall(),
                    batch.revision,
                    change.key
                );
            }
        }
    };
    world.tasks().spawn("changes", follow);
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use k8s_openapi::api::core::v1::ConfigMap;
    use sendo::{Action, Context, Controller, Error, Result};
    use serde_json::json;

    use super::*;
    use crate::run_with_seed;

    fn settings() -> ConfigMap {
        let metadata = json!({"name": "settings", "namespace": "default"});
        serde_json::from_value(json!({"metadata": metadata, "data": {"colour": "green"}})).unwrap()
    }

    /// What a failing test says.
    fn complaint<F: Future<Output = ()>>(test: impl FnOnce(TestCluster) -> F) -> String {
        let run = std::panic::AssertUnwindSafe(|| run_with_seed(1, test));
        let panic = catch_unwind(run).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    }

    #[test]
    fn a_wait_in_vain_shows_what_failed_and_what_changed() {
        async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> {
            Err(Error::message("the disk is full"))
        }
        let complaint = complaint(|cluster| async move {
            let controller = Controller::new::<ConfigMap>().named("settings");
            let controller = controller.reconcile(reconcile);
            cluster
                .run(Manager::new("program").controller(controller))
                .await;
            cluster.create(&settings()).await;
            cluster.until("they are taken", |_| false).await;
        });
        let failed = complaint
            .lines()
            .find(|line| line.contains("the disk is full"));
        let failed = failed.unwrap_or_else(|| panic!("no error in {complaint}"));
        for part in [
            "ERROR reconcile failed",
            "controller=settings",
            "key=default/settings",
            "times)",
        ] {
            assert!(failed.contains(part), "{part} is not in {failed}");
        }
        assert!(complaint.contains(r#"{"colour":"green"}"#), "{complaint}");
        assert!(!complaint.contains("managedFields"), "{complaint}");
    }

    #[test]
    fn unrest_is_shown_without_managed_fields() {
        let complaint = complaint(|cluster| async move {
            let writer = cluster.clone();
            let write = async {
                writer.pass(Duration::from_secs(1)).await;
                writer.create(&settings()).await;
            };
            futures::join!(cluster.stays_quiet_for(Duration::from_secs(60)), write);
        });
        assert!(complaint.contains(r#"{"colour":"green"}"#), "{complaint}");
        assert!(!complaint.contains("managedFields"), "{complaint}");
    }
}
