//! Three replicas as processes that are sent signals, beside an API server that finds them by
//! their Service over TLS: what becomes of those who create Bars meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bar::{Bar, BarSpec, manager, v1alpha1};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sendo::cache::{Cache, CacheOptions};
use sendo::client::{Client, ClientOptions, connect};
use sendo::{World, client};
use sendo_server::{ApiServer, Authority, Options};
use sendo_store::{At, Key, Memory, Retention, Store, Transaction};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// How often something is looked at that is waited for, and how long it is.
const INTERVAL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(180);

const CLIENTS: usize = 16;

/// An address that an endpoint may have, and that nobody dials.
const ELSEWHERE: &str = "192.0.2.1";

/// How much is done.
struct Size {
    /// How often a replica is sent TERM, and how often KILL.
    rounds: usize,
    /// How many Bars are created between two signals, at least.
    bars: u64,
}

/// An API server that listens, with what deploys the program but for its pods.
struct Cluster {
    server: ApiServer,
    store: Arc<dyn Store>,
    kubeconfig: String,
    client: Client,
    folder: TempDir,
}

async fn client_of(kubeconfig: &str, world: World) -> Client {
    let config = kube::config::Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await;
    let kube = connect(config.unwrap()).unwrap();
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
    Client::new(kube, cache, world, ClientOptions::default())
}

impl Cluster {
    async fn start() -> Self {
        let world = World::real();
        let store: Arc<dyn Store> =
            Arc::new(Memory::new(world.clock().clone(), Retention::default()));
        let options = Options::new(store.clone(), world.clone());
        let server = ApiServer::start(options).await.unwrap();
        let authority = Authority::new(world.clock().wall()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let kubeconfig = server.serve(address, authority).await.unwrap().kubeconfig();
        let client = client_of(&kubeconfig, world).await;
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("kubeconfig"), &kubeconfig).unwrap();
        for definition in manager().definitions_in("default") {
            client.create(&definition).await.unwrap();
        }
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "bar-controller-webhooks", "namespace": "default"},
            "spec": {"ports": [{"name": "webhooks", "port": 443, "targetPort": "webhooks"}]},
        }))
        .unwrap();
        client.create(&service).await.unwrap();
        Cluster {
            server,
            store,
            kubeconfig,
            client,
            folder,
        }
    }

    /// Has the API server call the program, whose replicas are there by now.
    async fn register(&self) {
        let manifests = manager().webhook_manifests("default", &BTreeMap::new());
        let configuration = manifests.validating.unwrap();
        self.client.create(&configuration).await.unwrap();
        let probe = bar(usize::MAX, 0);
        let began = Instant::now();
        while let Err(error) = self.client.create(&probe).await {
            assert!(began.elapsed() < PATIENCE, "{error}");
            sleep(INTERVAL).await;
        }
    }

    /// Starts a replica, to which the Service leads when it is ready.
    async fn start_replica(&self, name: &str) -> Replica {
        loop {
            let (webhooks, health) = (free_port(), free_port());
            let mut replica = Replica::start(name, self.folder.path(), webhooks, health);
            if replica.is_ready(health).await {
                self.announce(name, webhooks).await;
                self.lead_to(name, true).await;
                return replica;
            }
            // Somebody else was faster.
            let log = replica.log();
            assert!(log.contains("address in use"), "{log}");
        }
    }

    /// Makes the slice of a replica, which does not lead there yet.
    async fn announce(&self, name: &str, port: u16) {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "default",
                "labels": {"kubernetes.io/service-name": "bar-controller-webhooks"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "webhooks", "port": port, "protocol": "TCP"}],
            "endpoints": [{
                "addresses": [ELSEWHERE], "conditions": {"ready": false},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": name},
            }],
        }))
        .unwrap();
        self.client.create(&slice).await.unwrap();
    }

    /// Says whether the Service leads to a replica.
    ///
    /// In the store: no API server lets an endpoint be on the loopback.
    async fn lead_to(&self, name: &str, ready: bool) {
        let key = format!("/registry/discovery.k8s.io/endpointslices/default/{name}");
        let key = Key::from(key.as_str());
        let found = self.store.get(&key, At::Latest).await.unwrap();
        let stored = String::from_utf8(found.entry.unwrap().value.to_vec()).unwrap();
        // Of its text, so that the rest stays as the server has written it.
        let is = |ready: bool| format!("\"ready\":{ready}");
        assert!(stored.contains(&is(!ready)), "{stored}");
        let changed = stored
            .replace(ELSEWHERE, "127.0.0.1")
            .replace(&is(!ready), &is(ready));
        let put = Transaction::new().put(key, changed);
        self.store.commit(put).await.unwrap();
    }

    /// Ends a replica as a pod that is deleted: its endpoint is gone a little later.
    async fn terminate(&self, mut replica: Replica) {
        replica.signal("-TERM");
        sleep(Duration::from_millis(300)).await;
        self.lead_to(&replica.name, false).await;
        let status = replica.ended().await;
        assert!(status.success(), "{status}: {}", replica.log());
    }

    /// Ends a replica without a word. Returns when nothing leads there any more.
    async fn kill(&self, mut replica: Replica) -> Instant {
        replica.signal("-KILL");
        replica.ended().await;
        self.lead_to(&replica.name, false).await;
        Instant::now()
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The program as a process of its own, which ends with this.
struct Replica {
    name: String,
    process: Child,
    log: PathBuf,
}

impl Replica {
    fn start(name: &str, folder: &Path, webhooks: u16, health: u16) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_bar"))
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .arg(format!("--webhook-address=127.0.0.1:{webhooks}"))
            .arg(format!("--health-address=127.0.0.1:{health}"))
            // Longer than a machine under load could keep the leader from renewing its lease.
            .args([
                "--leader-elect",
                "--lease-duration=900",
                "--renew-deadline=600",
            ])
            .env("POD_NAME", name)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Replica {
            name: name.to_owned(),
            process,
            log,
        }
    }

    /// Waits until it says that it is ready; `false` if it ends before.
    async fn is_ready(&mut self, port: u16) -> bool {
        let began = Instant::now();
        loop {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if probe(port).await.is_ok_and(|said| said.contains(" 200 ")) {
                return true;
            }
            assert!(began.elapsed() < PATIENCE, "not ready: {}", self.log());
            sleep(INTERVAL).await;
        }
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "still there: {}", self.log());
            sleep(INTERVAL).await;
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the readiness probe says.
async fn probe(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    Ok(said)
}

fn bar(client: usize, number: u64) -> Bar {
    let name = format!("bar-{client}-{number}");
    let spec = BarSpec {
        deployment: name.clone(),
        replicas: Some(1),
    };
    let mut bar = Bar::new(&name, spec);
    bar.metadata.namespace = Some("default".to_owned());
    bar
}

/// The same in the old version, which the program has to convert.
fn old_bar(client: usize, number: u64) -> v1alpha1::Bar {
    let name = format!("bar-{client}-{number}");
    let spec = v1alpha1::BarSpec {
        deployment_name: name.clone(),
        replicas: Some(1),
    };
    let mut bar = v1alpha1::Bar::new(&name, spec);
    bar.metadata.namespace = Some("default".to_owned());
    bar
}

/// Clients that create Bars all the time.
#[derive(Clone, Default)]
struct Clients {
    created: Arc<AtomicU64>,
    /// When each failed call began, and why it failed.
    failed: Arc<Mutex<Vec<(Instant, String)>>>,
    stop: Arc<AtomicBool>,
}

impl Clients {
    async fn create(self, id: usize, client: Client) {
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let began = Instant::now();
            let created: Result<(), client::Error> = match number % 2 {
                0 => client.create(&bar(id, number)).await.map(drop),
                _ => client.create(&old_bar(id, number)).await.map(drop),
            };
            match created {
                Ok(()) => drop(self.created.fetch_add(1, Ordering::Relaxed)),
                Err(error) => {
                    self.failed.lock().unwrap().push((began, error.to_string()));
                    sleep(INTERVAL).await;
                }
            }
        }
    }

    /// Waits until so many more Bars have been created.
    async fn go_on(&self, bars: u64) {
        let (began, before) = (Instant::now(), self.created());
        while self.created() < before + bars {
            let failed = self.failed.lock().unwrap().len();
            assert!(began.elapsed() < PATIENCE, "{failed} calls failed");
            sleep(INTERVAL).await;
        }
    }

    fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    fn take_failed(&self) -> Vec<(Instant, String)> {
        std::mem::take(&mut self.failed.lock().unwrap())
    }
}

async fn end_replicas(size: Size) {
    let began = Instant::now();
    let cluster = Cluster::start().await;
    let mut replicas = Vec::new();
    for number in 0..3 {
        replicas.push(cluster.start_replica(&format!("bar-{number}")).await);
    }
    cluster.register().await;
    let clients = Clients::default();
    let mut tasks = Vec::new();
    for id in 0..CLIENTS {
        let client = client_of(&cluster.kubeconfig, World::real()).await;
        tasks.push(tokio::spawn(clients.clone().create(id, client)));
    }

    let mut lost = Vec::new();
    for round in 0..size.rounds {
        clients.go_on(size.bars).await;
        cluster.terminate(replicas.remove(0)).await;
        clients.go_on(size.bars).await;
        let failed = clients.take_failed();
        assert!(failed.is_empty(), "{failed:?}");
        let name = format!("bar-terminated-{round}");
        replicas.push(cluster.start_replica(&name).await);

        let out = cluster.kill(replicas.remove(0)).await;
        clients.go_on(size.bars).await;
        let failed = clients.take_failed();
        for (began, why) in &failed {
            let late = began.saturating_duration_since(out);
            assert!(late.is_zero(), "{late:?} after the replica was gone: {why}");
        }
        lost.push(failed.len());
        let name = format!("bar-killed-{round}");
        replicas.push(cluster.start_replica(&name).await);
    }
    clients.go_on(size.bars).await;
    let failed = clients.take_failed();
    assert!(failed.is_empty(), "{failed:?}");

    clients.stop.store(true, Ordering::Relaxed);
    join_all(tasks).await;
    println!(
        "{} Bars created by {CLIENTS} clients in {:?}; replicas terminated: {}, no call failed; \
         killed: {}, calls failed: {lost:?}",
        clients.created(),
        began.elapsed(),
        size.rounds,
        size.rounds,
    );
    for replica in replicas {
        cluster.terminate(replica).await;
    }
    cluster.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_when_a_replica_is_terminated_and_those_under_way_when_one_is_killed() {
    end_replicas(Size {
        rounds: 1,
        bars: 50,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; `cargo test -p bar -- --ignored --nocapture thirty`"]
async fn no_call_fails_when_thirty_replicas_are_terminated() {
    end_replicas(Size {
        rounds: 30,
        bars: 500,
    })
    .await;
}
