//! An API server that finds the replicas of a program by their Service, and a clock that can be
//! set for all of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions, connect};
use sendo::webhook::{Lifetimes, Serving};
use sendo::{Config, Manager, ObjectKey, Timestamp, World};
use sendo_server::{ApiServer, Authority, Options};
use sendo_store::{At, Key, Memory, Retention, Store, Transaction};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// An address that an endpoint may have, and that nobody dials.
const ELSEWHERE: &str = "192.0.2.1";

/// An API server that listens, and a clock that can be set for it and all replicas.
pub(super) struct Place {
    pub(super) server: ApiServer,
    store: Arc<dyn Store>,
    pub(super) kube: Kube,
    pub(super) client: Client,
    pub(super) world: World,
    /// By how many seconds.
    ahead: Arc<AtomicU64>,
    lifetimes: Lifetimes,
    program: fn() -> Manager,
}

/// A world of the machine's time, so many seconds ahead.
fn world(ahead: &Arc<AtomicU64>) -> World {
    let ahead = ahead.clone();
    World::real().with_wall(move || {
        let seconds = ahead.load(Ordering::Relaxed);
        Timestamp::now() + Duration::from_secs(seconds)
    })
}

/// The time of a world, for TLS.
#[derive(Debug)]
struct Wall(World);

impl TimeProvider for Wall {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = self.0.clock().wall().as_second().unsigned_abs();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// How to reach an API server.
#[derive(Clone)]
pub(super) struct Kube(kube::Config);

impl Kube {
    pub(super) async fn read(kubeconfig: Kubeconfig) -> Self {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        Kube(config.unwrap())
    }

    /// A connection of its own.
    pub(super) fn connect(&self) -> kube::Client {
        connect(self.0.clone()).unwrap()
    }

    pub(super) fn client(&self, world: World) -> Client {
        let kube = self.connect();
        let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
        Client::new(kube, cache, world, ClientOptions::default())
    }
}

impl Place {
    pub(super) async fn new(lifetimes: Lifetimes, program: fn() -> Manager) -> Self {
        let ahead = Arc::new(AtomicU64::new(0));
        let world = world(&ahead);
        let store: Arc<dyn Store> =
            Arc::new(Memory::new(world.clock().clone(), Retention::default()));
        let server = ApiServer::start(Options::new(store.clone(), world.clone()));
        let server = server.await.unwrap();
        let authority = Authority::new(world.clock().wall()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let serving = server.serve(address, authority).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
        let kube = Kube::read(kubeconfig).await;
        let client = kube.client(world.child("test"));
        let place = Place {
            server,
            store,
            kube,
            client,
            world,
            ahead,
            lifetimes,
            program,
        };
        let service = json!({
            "metadata": {"name": "guard-webhooks", "namespace": "default"},
            "spec": {"ports": [{"name": "webhooks", "port": 443, "targetPort": "webhooks"}]},
        });
        let service: k8s_openapi::api::core::v1::Service = serde_json::from_value(service).unwrap();
        place.client.create(&service).await.unwrap();
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("work".to_owned());
        place.client.create(&namespace).await.unwrap();
        place
    }

    /// Sets the clock ahead, for the API server and all replicas.
    pub(super) fn set_ahead(&self, by: Duration) {
        self.ahead.fetch_add(by.as_secs(), Ordering::Relaxed);
    }

    /// Makes the slice of a replica, which does not lead there yet.
    async fn announce(&self, name: &str, port: u16) {
        let slice = json!({
            "metadata": {
                "name": name, "namespace": "default",
                "labels": {"kubernetes.io/service-name": "guard-webhooks"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "webhooks", "port": port, "protocol": "TCP"}],
            "endpoints": [{
                "addresses": [ELSEWHERE], "conditions": {"ready": false},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": name},
            }],
        });
        let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
        self.client.create(&slice).await.unwrap();
    }

    /// Says whether the Service leads to a replica.
    ///
    /// In the store: no API server lets an endpoint be on the loopback.
    async fn lead_to(&self, name: &str, ready: bool) {
        let key = format!("/registry/discovery.k8s.io/endpointslices/default/{name}");
        let key = Key::from(key.as_str());
        let found = self.store.get(&key, At::Latest).await.unwrap();
        let stored = found.entry.unwrap();
        let stored = String::from_utf8(stored.value.to_vec()).unwrap();
        let (before, after) = (
            format!("\"ready\":{}", !ready),
            format!("\"ready\":{ready}"),
        );
        assert!(stored.contains(&before), "{stored}");
        let changed = stored
            .replace(ELSEWHERE, "127.0.0.1")
            .replace(&before, &after);
        let put = Transaction::new().put(key, changed);
        self.store.commit(put).await.unwrap();
    }

    /// Starts a replica, to which the Service leads when it is ready.
    pub(super) async fn start(&self, name: &str) -> Replica {
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let (tell_ready, ready) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (kube, ahead) = (self.kube.clone(), self.ahead.clone());
        let (lifetimes, program) = (self.lifetimes, self.program);
        let pod = name.to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let world = world(&ahead);
                let mut config = Config::new(kube.connect(), world.clone());
                config.webhooks = Serving {
                    address: Some(format!("127.0.0.1:{port}")),
                    install: true,
                    lifetimes,
                    pod: Some(pod),
                    ..Serving::default()
                };
                let running = program().start(config).unwrap();
                running.ready().await;
                while !running.probes().ready.run(&world, &[]).await.passed() {
                    world.clock().sleep(Duration::from_millis(20)).await;
                }
                tell_ready.send(()).unwrap();
                match ended.await {
                    Ok(End::Terminated) => running.stop().await.unwrap(),
                    // Whatever is at work goes with the runtime.
                    Ok(End::Killed) | Err(_) => std::mem::forget(running),
                }
            });
            runtime.shutdown_background();
        });
        ready.await.unwrap();
        self.announce(name, port).await;
        self.lead_to(name, true).await;
        Replica {
            name: name.to_owned(),
            port,
            end,
            thread,
        }
    }

    /// Ends a replica as a pod that is deleted: its endpoint is gone a little later.
    pub(super) async fn terminate(&self, replica: Replica) {
        replica
            .end
            .send(End::Terminated)
            .unwrap_or_else(|_| panic!("it has ended"));
        self.world.clock().sleep(Duration::from_millis(300)).await;
        self.lead_to(&replica.name, false).await;
        let ended = tokio::task::spawn_blocking(|| replica.thread.join());
        ended.await.unwrap().unwrap();
    }

    /// Ends a replica without a word.
    pub(super) async fn kill(&self, replica: Replica) {
        replica
            .end
            .send(End::Killed)
            .unwrap_or_else(|_| panic!("it has ended"));
        let ended = tokio::task::spawn_blocking(|| replica.thread.join());
        ended.await.unwrap().unwrap();
        self.lead_to(&replica.name, false).await;
    }

    /// An entry of the Secret of the program.
    pub(super) async fn kept(&self, entry: &str) -> Vec<u8> {
        let key = ObjectKey::namespaced("default", "guard-webhook-certificates");
        let secret = self.client.live().get::<Secret>(key).await.unwrap();
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        data.get(entry).map(|it| it.0.clone()).unwrap_or_default()
    }

    /// Makes a connection to a replica. Returns the certificate that is shown.
    pub(super) async fn shake_hands(&self, port: u16) -> Result<Vec<u8>, String> {
        shake_hands(
            &self.client,
            &self.world,
            "guard-webhooks.default.svc",
            port,
        )
        .await
    }
}

/// Makes a connection of its own, as a client that trusts what the configuration says. Returns the
/// certificate that is shown.
pub(super) async fn shake_hands(
    client: &Client,
    world: &World,
    name: &'static str,
    port: u16,
) -> Result<Vec<u8>, String> {
    let live = client.live();
    let found = live.get::<ValidatingWebhookConfiguration>(ObjectKey::cluster("guard"));
    let webhooks = found.await.unwrap().unwrap().webhooks.unwrap();
    let bundle = webhooks[0].client_config.ca_bundle.clone().unwrap();
    let mut roots = RootCertStore::empty();
    let authorities = CertificateDer::pem_slice_iter(&bundle.0);
    roots.add_parsable_certificates(authorities.map(Result::unwrap));
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_details(provider, Arc::new(Wall(world.clone())))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(name).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = stream.await.map_err(|error| error.to_string())?;
    let shown = stream.get_ref().1.peer_certificates();
    Ok(shown.unwrap()[0].to_vec())
}

pub(super) struct Replica {
    pub(super) name: String,
    pub(super) port: u16,
    end: oneshot::Sender<End>,
    thread: JoinHandle<()>,
}

enum End {
    Terminated,
    Killed,
}
