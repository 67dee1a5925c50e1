//! Programs on the embedded API server, in virtual time: what a manager and its
//! controllers promise.

mod applies;
mod blocked;
mod certificates;
mod controllers;
mod election;
mod lifecycle;
mod observed;
mod rights;
mod sources;
mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use kube::client::Body;
use schemars::JsonSchema;
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions};
use sendo::metrics::Format;
use sendo::{Config, Manager, ObjectKey, Running, World};
use sendo_server::{ApiServer, Options};
use sendo_store::{Memory, Retention};
use serde::{Deserialize, Serialize};
use tower::ServiceExt;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A kind of the tests' own.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.dev", version = "v1", kind = "Bar", namespaced)]
pub(crate) struct BarSpec {
    pub(crate) size: Option<i32>,
}

/// An API server without any controllers, and the world it lives in.
pub(crate) struct Place {
    pub(crate) world: World,
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
}

impl Place {
    pub(crate) async fn new(seed: u64) -> Self {
        Place::within(World::seeded(seed)).await
    }

    /// In real time.
    pub(crate) async fn real() -> Self {
        Place::within(World::real()).await
    }

    async fn within(world: World) -> Self {
        interest();
        let store = Memory::new(world.clock().clone(), Retention::default());
        let options = Options::new(Arc::new(store), world.clone());
        let server = ApiServer::start(options).await.unwrap();
        let kube = kube::Client::new(server.client_service(), "default");
        let test = world.child("test");
        let cache = Cache::new(kube.clone(), test.clone(), CacheOptions::default());
        let client = Client::new(kube, cache, test, ClientOptions::default());
        Place {
            world,
            server,
            client,
        }
    }

    /// The settings of a program in a world of its own.
    pub(crate) fn config(&self, name: &str) -> Config {
        let kube = kube::Client::new(self.server.client_service(), "default");
        Config::new(kube, self.world.child(name))
    }

    /// The same on a connection that breaks before each request that `is_lost`.
    pub(crate) fn config_losing(
        &self,
        name: &str,
        is_lost: impl Fn(&http::Request<Body>) -> bool + Clone + Send + 'static,
    ) -> Config {
        let server = self.server.client_service();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (server, is_lost) = (server.clone(), is_lost(&request));
            async move {
                match is_lost {
                    true => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                    false => Ok(server.oneshot(request).await.unwrap_or_else(|e| match e {})),
                }
            }
        });
        Config {
            client: kube::Client::new(service, "default"),
            ..self.config(name)
        }
    }

    /// A connection on which each request waits for `before`, which may fail it.
    pub(crate) fn through<F>(
        &self,
        before: impl Fn(Method) -> F + Send + Sync + 'static,
    ) -> kube::Client
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (server, before) = (self.server.client_service(), Arc::new(before));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (server, before) = (server.clone(), before.clone());
            async move {
                before(request.method().clone()).await?;
                let answer = server.oneshot(request).await;
                Ok::<_, tower::BoxError>(answer?)
            }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) async fn run(&self, manager: Manager) -> Running {
        let config = self.config("program");
        let running = manager.start(config).unwrap();
        running.ready().await;
        running
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.world.clock().sleep(time).await;
    }

    pub(crate) async fn create(&self, name: &str) -> ConfigMap {
        self.client.create(&map(name, 0)).await.unwrap()
    }

    /// Changes the data of a ConfigMap.
    pub(crate) async fn touch(&self, name: &str, value: u64) {
        let key = ObjectKey::namespaced("default", name);
        let change = |map: &mut ConfigMap| {
            let data = map.data.get_or_insert_default();
            data.insert("value".to_owned(), value.to_string());
        };
        self.client
            .modify::<ConfigMap, _>(&key, change)
            .await
            .unwrap();
    }

    /// Stops everything and checks that no task is left.
    pub(crate) async fn end(self, running: impl IntoIterator<Item = Running>) {
        for running in running {
            running.stop().await.unwrap();
        }
        self.server.shutdown().await;
        drop(self.client);
        self.world.tasks().stop().await;
        assert_eq!(self.world.tasks().running(), Vec::<String>::new());
    }
}

pub(crate) fn map(name: &str, value: u64) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some("default".to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_string())]));
    map
}

/// What happened, in order. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Lets nobody decide that a log line interests no one: that would hold for all
/// threads, and a test of what is logged may just be starting on another.
fn interest() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap();
    });
}

/// All that is logged on this thread from now on, at every level.
pub(crate) struct Tracing {
    lines: Log,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Tracing {
    pub(crate) fn start() -> Self {
        interest();
        let lines = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .without_time()
            .with_writer({
                let lines = lines.clone();
                move || lines.clone()
            });
        Tracing {
            lines,
            _guard: tracing::subscriber::set_default(subscriber.finish()),
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.take()
    }
}

/// One line each time.
impl std::io::Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.add(String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The value of a metric, by the whole of its name and labels.
pub(crate) fn metric(running: &Running, name: &str) -> f64 {
    let page = running.metrics().encode(Format::Prometheus);
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("{name} is not in\n{page}"));
    line.parse().unwrap()
}
