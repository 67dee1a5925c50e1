//! Webhooks over real TLS while their certificates are renewed: three replicas, an API server that
//! finds them by their Service, clients that write all the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::Mutex;
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions, Patch, connect};
use sendo::webhook::{self, Admission, Change, Denied, Lifetimes, Serving};
use sendo::{Config, Manager, ObjectKey, Timestamp, World};
use sendo_server::{ApiServer, Authority, Options};
use sendo_store::{At, Key, Memory, Retention, Store, Transaction};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// An address that an endpoint may have, and that nobody dials.
const ELSEWHERE: &str = "192.0.2.1";

/// How much is done.
struct Size {
    rotations: usize,
    admissions: u64,
    clients: usize,
    jumps: i64,
    lifetimes: Lifetimes,
}

const SMALL: Size = Size {
    rotations: 3,
    admissions: 300,
    clients: 4,
    jumps: 1,
    lifetimes: Lifetimes {
        authority: Duration::from_secs(12),
        certificate: Duration::from_secs(5),
        settle: Duration::from_millis(500),
    },
};

const FULL: Size = Size {
    rotations: 100,
    admissions: 100_000,
    clients: 16,
    jumps: 3,
    lifetimes: Lifetimes {
        authority: Duration::from_secs(60),
        certificate: Duration::from_secs(6),
        settle: Duration::from_secs(1),
    },
};

async fn allow(change: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
    match change.new().is_some_and(|map| map.data.is_none()) {
        true => Err(Denied::field("data").required("")),
        false => Ok(()),
    }
}

fn guard() -> Manager {
    Manager::new("guard").webhook(webhook::validates(allow).except_own_namespace())
}

/// An API server that listens, and a clock that can be set for it and all replicas.
struct Place {
    server: ApiServer,
    store: Arc<dyn Store>,
    kubeconfig: String,
    client: Client,
    world: World,
    ahead: Arc<AtomicI64>,
    lifetimes: Lifetimes,
}

/// A world of the machine's time, so many seconds ahead.
fn world(ahead: &Arc<AtomicI64>) -> World {
    let ahead = ahead.clone();
    World::real().with_wall(move || {
        let seconds = ahead.load(Ordering::Relaxed).unsigned_abs();
        Timestamp::now() + Duration::from_secs(seconds)
    })
}

async fn kube(kubeconfig: &str) -> kube::Client {
    let config = kube::config::Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await;
    connect(config.unwrap()).unwrap()
}

impl Place {
    async fn new(lifetimes: Lifetimes) -> Arc<Self> {
        let ahead = Arc::new(AtomicI64::new(0));
        let world = world(&ahead);
        let store: Arc<dyn Store> =
            Arc::new(Memory::new(world.clock().clone(), Retention::default()));
        let server = ApiServer::start(Options::new(store.clone(), world.clone()));
        let server = server.await.unwrap();
        let authority = Authority::new(world.clock().wall()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let serving = server.serve(address, authority).await.unwrap();
        let kubeconfig = serving.kubeconfig();
        let (kube, test) = (kube(&kubeconfig).await, world.child("test"));
        let cache = Cache::new(kube.clone(), test.clone(), CacheOptions::default());
        let client = Client::new(kube, cache, test, ClientOptions::default());
        let place = Place {
            server,
            store,
            kubeconfig,
            client,
            world,
            ahead,
            lifetimes,
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
        Arc::new(place)
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
    async fn start(&self, name: &str) -> Replica {
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let (tell_ready, ready) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (kubeconfig, ahead) = (self.kubeconfig.clone(), self.ahead.clone());
        let lifetimes = self.lifetimes;
        let pod = name.to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let world = world(&ahead);
                let mut config = Config::new(kube(&kubeconfig).await, world.clone());
                config.webhooks = Serving {
                    address: Some(format!("127.0.0.1:{port}")),
                    install: true,
                    lifetimes,
                    pod: Some(pod),
                    ..Serving::default()
                };
                let running = guard().start(config).unwrap();
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
    async fn terminate(&self, replica: Replica) {
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
    async fn kill(&self, replica: Replica) {
        replica
            .end
            .send(End::Killed)
            .unwrap_or_else(|_| panic!("it has ended"));
        let ended = tokio::task::spawn_blocking(|| replica.thread.join());
        ended.await.unwrap().unwrap();
        self.lead_to(&replica.name, false).await;
    }

    async fn certificate(&self) -> Vec<u8> {
        let key = ObjectKey::namespaced("default", "guard-webhook-certificates");
        let secret = self.client.live().get::<Secret>(key).await.unwrap();
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        data.get("tls.crt")
            .map(|it| it.0.clone())
            .unwrap_or_default()
    }

    /// Makes a connection of its own, as a client that trusts what the configuration says.
    async fn shake_hands(&self, port: u16) -> Result<(), String> {
        let live = self.client.live();
        let found = live.get::<ValidatingWebhookConfiguration>(ObjectKey::cluster("guard"));
        let webhooks = found.await.unwrap().unwrap().webhooks.unwrap();
        let bundle = webhooks[0].client_config.ca_bundle.clone().unwrap();
        let mut roots = RootCertStore::empty();
        let authorities = CertificateDer::pem_slice_iter(&bundle.0);
        roots.add_parsable_certificates(authorities.map(Result::unwrap));
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let name = ServerName::try_from("guard-webhooks.default.svc").unwrap();
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
        connected.await.map(drop).map_err(|error| error.to_string())
    }
}

struct Replica {
    name: String,
    port: u16,
    end: oneshot::Sender<End>,
    thread: JoinHandle<()>,
}

enum End {
    Terminated,
    Killed,
}

/// Clients that write all the time.
struct Writers {
    admitted: Arc<AtomicU64>,
    /// When each failed call began, and why it failed.
    failed: Arc<Mutex<Vec<(Instant, String)>>>,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    async fn start(place: &Place, clients: usize) -> Self {
        let admitted = Arc::new(AtomicU64::new(0));
        let failed: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        for number in 0..clients {
            let kube = kube(&place.kubeconfig).await;
            let world = place.world.child(&format!("client-{number}"));
            let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
            let client = Client::new(kube, cache, world, ClientOptions::default());
            let (admitted, failed) = (admitted.clone(), failed.clone());
            let stopped = stopped.clone();
            let mut map = ConfigMap::default();
            map.metadata.name = Some(format!("map-{number}"));
            map.metadata.namespace = Some("work".to_owned());
            map.data = Some([("value".to_owned(), "0".to_owned())].into());
            client.create(&map).await.unwrap();
            tasks.push(tokio::spawn(async move {
                let mut value = 0_u64;
                while !*stopped.borrow() {
                    value += 1;
                    let change = json!({"data": {"value": value.to_string()}});
                    let began = Instant::now();
                    match client.patch(&map, Patch::Merge(change)).await {
                        Ok(_) => drop(admitted.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => {
                            failed.lock().push((began, error.to_string()));
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                }
            }));
        }
        Writers {
            admitted,
            failed,
            stop,
            tasks,
        }
    }

    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    fn take_failed(&self) -> Vec<(Instant, String)> {
        std::mem::take(&mut self.failed.lock())
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        join_all(self.tasks).await;
    }
}

async fn rotate(size: Size) {
    let started = Instant::now();
    let place = Place::new(size.lifetimes).await;
    let mut replicas = Vec::new();
    for name in ["replica-0", "replica-1", "replica-2"] {
        replicas.push(place.start(name).await);
    }
    let writers = Writers::start(&place, size.clients).await;
    let (mut rotations, mut certificate) = (0, place.certificate().await);
    let (mut handshakes, mut terminated) = (0, 0);
    while rotations < size.rotations || writers.admitted() < size.admissions {
        place.world.clock().sleep(Duration::from_millis(100)).await;
        let now = place.certificate().await;
        if now != certificate {
            (rotations, certificate) = (rotations + 1, now);
            if rotations % 3 == 2 {
                terminated += 1;
                place.terminate(replicas.remove(0)).await;
                let name = format!("replica-{}", terminated + 2);
                replicas.push(place.start(&name).await);
            }
        }
        for replica in &replicas {
            let shaken = place.shake_hands(replica.port).await;
            shaken.unwrap_or_else(|error| {
                panic!("{} at rotation {rotations}: {error}", replica.name)
            });
            handshakes += 1;
        }
        let failed = writers.take_failed();
        assert!(failed.is_empty(), "after {rotations} rotations: {failed:?}");
    }
    println!(
        "{rotations} rotations, {} admissions, {handshakes} handshakes, {terminated} replicas \
         terminated in {:?}: none failed",
        writers.admitted(),
        started.elapsed()
    );
    assert!(terminated > 0);

    // Killed: what was on its way to it fails, and nothing that begins when it is out.
    let killed = replicas.remove(0);
    place.kill(killed).await;
    let out = Instant::now();
    place.world.clock().sleep(Duration::from_secs(2)).await;
    let failed = writers.take_failed();
    println!("{} calls failed of a replica that was killed", failed.len());
    for (began, why) in &failed {
        assert!(
            *began <= out,
            "{:?} after: {why}",
            began.duration_since(out)
        );
    }

    // Set ahead past the end of the certificate, and of its authority.
    for days in 1..=size.jumps {
        let (set, admitted) = (Instant::now(), writers.admitted());
        place.ahead.store(days * 24 * 3600, Ordering::Relaxed);
        while place.certificate().await == certificate || writers.admitted() < admitted + 50 {
            assert!(
                set.elapsed() < Duration::from_secs(30),
                "{:?}",
                writers.take_failed()
            );
            place.world.clock().sleep(Duration::from_millis(100)).await;
        }
        certificate = place.certificate().await;
        let passed = set.elapsed();
        println!(
            "a clock set ahead by a day: renewed after {passed:?}, {} calls failed",
            writers.take_failed().len()
        );
    }
    writers.stop().await;
    for replica in replicas {
        place.terminate(replica).await;
    }
    place.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_without_a_failed_admission() {
    rotate(SMALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten minutes; `cargo test -p sendo --test library -- --ignored --nocapture rotations`"]
async fn a_hundred_rotations_and_a_hundred_thousand_admissions() {
    rotate(FULL).await;
}
