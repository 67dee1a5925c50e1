//! The cluster of a test.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use parking_lot::Mutex;
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions, Deletion, Patch};
use sendo::election::ElectionOptions;
use sendo::webhook::{InProcess, Serving};
use sendo::{Config, Manager, Running, Typed, World};
use sendo_cluster::{Cluster, ClusterOptions};
use sendo_server::{ApiServer, LocalServices};
use sendo_store::{KeyRange, Revision, Store};
use serde_json::Value;

use crate::faults::Faults;
use crate::recent_logs::RecentLogs;
use crate::view::View;

/// How long [`TestCluster::until`] waits, in virtual time, before it panics.
const UNTIL_TIMEOUT: Duration = Duration::from_secs(600);

/// A live cluster with virtual time. Cheap to clone.
///
/// A method that fails panics, and the message says why.
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
    webhooks: InProcess,
    client: Client,
    managers: Mutex<Vec<Running>>,
    /// The number of programs for which a config was made.
    programs: AtomicU64,
    /// Every change since the start of the cluster, a line each.
    changes: Arc<Mutex<String>>,
    recent_logs: RecentLogs,
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

    /// The same with other parts of the cluster.
    pub async fn start_with(seed: u64, options: ClusterOptions) -> Self {
        TestCluster::start_with_logs(seed, options, RecentLogs::default()).await
    }

    /// The same with the collected logs, which [`TestCluster::until`] shows when it times out.
    pub(crate) async fn start_with_logs(
        seed: u64,
        options: ClusterOptions,
        recent_logs: RecentLogs,
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
        record_changes(&test, cluster.store(), changes.clone());
        TestCluster {
            inner: Arc::new(Inner {
                view: View::new(cluster.server().clone()),
                store: cluster.store().clone(),
                webhooks: cluster.webhooks_in_process(),
                client: Client::new(kube.clone(), cache, test, options),
                kube,
                cluster: Mutex::new(Some(cluster)),
                managers: Mutex::default(),
                programs: AtomicU64::default(),
                changes,
                recent_logs,
                world,
            }),
        }
    }

    /// Runs a program on the cluster until the test ends; returns when it is ready.
    pub async fn run(&self, manager: Manager) {
        self.run_with(manager, self.config()).await;
    }

    /// The default config of a program on this cluster, to be changed and passed to
    /// [`TestCluster::run_with`]. Each config has a world of its own, so two programs do not make
    /// the same random choices.
    pub fn config(&self) -> Config {
        self.config_with(self.inner.kube.clone(), self.program_world())
    }

    /// The config of a program whose webhooks are called in this process.
    pub(crate) fn config_with(&self, client: kube::Client, world: World) -> Config {
        Config {
            webhooks: Serving {
                in_process: Some(self.inner.webhooks.clone()),
                ..Serving::default()
            },
            ..Config::new(client, world)
        }
    }

    fn program_world(&self) -> World {
        let number = self.inner.programs.fetch_add(1, Ordering::Relaxed);
        self.inner.world.child(&format!("program-{number}"))
    }

    /// The config of one of several replicas of a program. Each replica has a world of its own, as on
    /// a machine of its own, and they elect a leader by the lease `lease` in the namespace `default`.
    pub fn replica(&self, name: &str, lease: &str) -> Config {
        let world = self.inner.world.child(name);
        Config {
            election: Some(ElectionOptions::new("default", lease)),
            ..self.config_with(self.inner.kube.clone(), world)
        }
    }

    /// The config of a program whose requests fail as `faults` decides.
    pub fn faulty(&self, faults: &Faults) -> Config {
        let service = self.inner.view.server().client_service();
        self.config_with(faults.client(service), self.program_world())
    }

    /// The same with other settings than the defaults.
    pub async fn run_with(&self, manager: Manager, config: Config) {
        let running = self.start_manager(manager, config).await;
        running.ready().await;
        self.inner.managers.lock().push(running);
    }

    /// Starts a program and has the cluster call its webhooks, as who deploys it would. The test
    /// stops it.
    pub async fn start_manager(&self, manager: Manager, config: Config) -> Running {
        let reached = config.client.default_namespace().to_owned();
        let objects = config.webhooks.in_process.is_some().then(|| {
            let manifests = manager.webhook_manifests(&reached, &BTreeMap::new());
            (manifests, manager.definitions_in(&reached))
        });
        let running = manager.start(config);
        let running = running.unwrap_or_else(|error| panic!("the manager did not start: {error}"));
        if let Some((manifests, definitions)) = objects {
            let client = &self.inner.client;
            if let Some(wanted) = manifests.mutating {
                let take = |known: &mut MutatingWebhookConfiguration| {
                    known.webhooks.clone_from(&wanted.webhooks);
                };
                expect_ok(
                    "register",
                    client.create_or_update(wanted.clone(), take).await,
                );
            }
            if let Some(wanted) = manifests.validating {
                let take = |known: &mut ValidatingWebhookConfiguration| {
                    known.webhooks.clone_from(&wanted.webhooks);
                };
                expect_ok(
                    "register",
                    client.create_or_update(wanted.clone(), take).await,
                );
            }
            for wanted in definitions {
                let Some(conversion) = wanted.spec.conversion.clone() else {
                    continue;
                };
                let take = |known: &mut CustomResourceDefinition| {
                    known.spec.conversion = Some(conversion.clone());
                };
                let key = sendo::ObjectKey::from_object(&wanted);
                let converted = client
                    .modify::<CustomResourceDefinition, ()>(&key, take)
                    .await;
                // One that is not installed yet is by the program, with its conversion.
                match converted {
                    Err(error) if error.is_not_found() => {}
                    converted => drop(expect_ok("convert", converted)),
                }
            }
        }
        running
    }

    /// Installs the CustomResourceDefinition of a type and waits until it is served.
    pub async fn install<K: CustomResourceExt>(&self) {
        self.install_definition(K::crd()).await;
    }

    async fn install_definition(&self, definition: CustomResourceDefinition) {
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

    /// Installs the CustomResourceDefinitions of a program, all versions of each kind in one, and
    /// waits until they are served.
    pub async fn install_kinds(&self, manager: &Manager) {
        for definition in manager.definitions_in("default") {
            self.install_definition(definition).await;
        }
    }

    /// Creates an object and returns it as the server stored it.
    pub async fn create<K: Typed>(&self, object: &K) -> K {
        expect_ok("create", self.inner.client.create(object).await)
    }

    /// Changes an object by a merge patch.
    pub async fn patch<K: Typed>(&self, object: &K, change: Value) -> K {
        expect_ok(
            "patch",
            self.inner.client.patch(object, Patch::Merge(change)).await,
        )
    }

    /// Deletes an object, as `kubectl delete` would.
    pub async fn delete<K: Typed>(&self, object: &K) -> Deletion {
        expect_ok("delete", self.inner.client.delete(object).await)
    }

    /// The object under `key`, at this moment.
    pub fn get<K: Typed>(&self, key: impl Into<sendo::ObjectKey>) -> Option<K> {
        self.inner.view.get(key)
    }

    /// All objects of a kind, at this moment.
    pub fn list<K: Typed>(&self) -> Vec<K> {
        self.inner.view.list()
    }

    /// What `look` finds, at this moment.
    pub fn now<T>(&self, look: impl FnOnce(&View) -> T) -> T {
        look(&self.inner.view)
    }

    /// Waits until `holds` returns true; it is called again after every change.
    ///
    /// # Panics
    /// If it does not return true within ten minutes of virtual time. The message has `what`, the last
    /// warnings and errors (a failed reconcile, a watch that was refused) and the last changes.
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
        if clock.timeout(UNTIL_TIMEOUT, waiting).await.is_none() {
            let changes = self.changes();
            let last: Vec<_> = changes
                .lines()
                .rev()
                .filter(|line| !is_heartbeat(line))
                .take(10)
                .map(shortened)
                .collect();
            let recent_logs = match self.inner.recent_logs.take() {
                text if text.is_empty() => "none\n".to_owned(),
                text => text,
            };
            panic!(
                "{what}: did not come true within {UNTIL_TIMEOUT:?} of virtual time\n\
                 the last warnings and errors, newest last:\n{recent_logs}\
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
    /// meanwhile, apart from heartbeats: leases and the status of nodes.
    ///
    /// # Panics
    /// If anything else was written; the message shows it.
    pub async fn stays_quiet_for(&self, duration: Duration) {
        let before = self.inner.store.revision();
        self.pass(duration).await;
        let changes = self.changes();
        // What was written just before may have been recorded only now.
        let written: Vec<String> = changes
            .lines()
            .filter(|line| is_after(line, before) && !is_heartbeat(line))
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

    pub(crate) fn kube(&self) -> &kube::Client {
        &self.inner.kube
    }

    /// Services of this process that the API server calls without a socket: the API servers that
    /// APIServices name, say.
    pub fn local_services(&self) -> &LocalServices {
        self.server().local_services()
    }

    /// The world of the cluster.
    pub fn world(&self) -> &World {
        &self.inner.world
    }

    /// Every change of every object since the start, a line each: virtual time,
    /// revision, key, and the new object.
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

fn expect_ok<T>(verb: &str, result: Result<T, sendo::client::Error>) -> T {
    result.unwrap_or_else(|error| panic!("cannot {verb}: {error}"))
}

/// Whether a line of the changes is about a change after this revision.
fn is_after(line: &str, revision: Revision) -> bool {
    let own = line.split(' ').nth(1).and_then(|own| own.parse().ok());
    own.is_none_or(|own| Revision(own) > revision)
}

/// Whether a line of the changes is one that an idle cluster writes too.
fn is_heartbeat(line: &str) -> bool {
    line.contains("/leases/") || line.contains("/nodes/")
}

/// The beginning of a line of the changes, without managed fields.
fn shortened(line: &str) -> String {
    without_managed_fields(line).chars().take(500).collect()
}

/// A line of the changes without managed fields.
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

/// Watches the store from its beginning and writes a line for every change.
fn record_changes(world: &World, store: &Arc<dyn Store>, changes: Arc<Mutex<String>>) {
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

    /// The message that a failing test panics with.
    fn panic_message<F: Future<Output = ()>>(test: impl FnOnce(TestCluster) -> F) -> String {
        let run = std::panic::AssertUnwindSafe(|| run_with_seed(1, test));
        let panic = catch_unwind(run).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    }

    #[test]
    fn a_wait_that_times_out_shows_errors_and_changes() {
        async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> {
            Err(Error::message("the disk is full"))
        }
        let message = panic_message(|cluster| async move {
            let controller = Controller::new::<ConfigMap>().named("settings");
            let controller = controller.reconcile(reconcile);
            cluster
                .run(Manager::new("program").controller(controller))
                .await;
            cluster.create(&settings()).await;
            cluster.until("settings are applied", |_| false).await;
        });
        let failed = message
            .lines()
            .find(|line| line.contains("the disk is full"));
        let failed = failed.unwrap_or_else(|| panic!("no error in {message}"));
        for part in [
            "ERROR reconcile failed",
            "controller=settings",
            "key=default/settings",
            "times)",
        ] {
            assert!(failed.contains(part), "{part} is not in {failed}");
        }
        assert!(message.contains(r#"{"colour":"green"}"#), "{message}");
        assert!(!message.contains("managedFields"), "{message}");
    }

    #[test]
    fn unexpected_writes_are_shown_without_managed_fields() {
        let message = panic_message(|cluster| async move {
            let writer = cluster.clone();
            let write = async {
                writer.pass(Duration::from_secs(1)).await;
                writer.create(&settings()).await;
            };
            futures::join!(cluster.stays_quiet_for(Duration::from_secs(60)), write);
        });
        assert!(message.contains(r#"{"colour":"green"}"#), "{message}");
        assert!(!message.contains("managedFields"), "{message}");
    }
}
