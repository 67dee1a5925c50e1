//! The same reviews, decided by a program made with Sendo and by one made with controller-runtime.
//!
//! One replica of each, a process of its own that takes its certificate from files. A validator
//! reads a Pod and lets it pass; a defaulter adds a label to it. Clients have a connection each,
//! over TLS and HTTP/2, and send the next review when they have the answer. Both programs have
//! their turn in each round, and are compared within it, because the speed of a machine changes
//! from minute to minute; who does not have it is halted.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use bytes::Bytes;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use sendo::webhook::{self, Admission, Certificates, Change, Denied, Operation, Reached, Serving};
use sendo::{Config, Manager, World};
use sendo_server::Authority;
use serde_json::{Value, json};

use crate::server::{Connection, Processes, Target, resident_bytes};
use crate::{pods, to_anyhow};

/// The number of rounds, and how long a turn lasts.
const ROUNDS: usize = 9;
const TURN: Duration = Duration::from_secs(1);

/// How long a program may take to serve.
const START: Duration = Duration::from_secs(60);

const LABEL: &str = "bench.sendo.example/seen";
const VALIDATE: &str = "/validate-v1-pod";
const DEFAULT: &str = "/mutate-v1-pod";

/// What is measured in a turn.
struct Work {
    name: &'static str,
    path: &'static str,
    clients: usize,
}

const WORKS: [Work; 4] = [
    Work {
        name: "validated a second",
        path: VALIDATE,
        clients: 1,
    },
    Work {
        name: "the same for sixteen clients",
        path: VALIDATE,
        clients: 16,
    },
    Work {
        name: "defaulted a second",
        path: DEFAULT,
        clients: 1,
    },
    Work {
        name: "the same for sixteen clients",
        path: DEFAULT,
        clients: 16,
    },
];

/// The program that is measured: its certificate is in the folder, the address on loopback.
pub(crate) async fn serve(folder: &Path, port: u16) -> anyhow::Result<()> {
    let authority = format!("127.0.0.1:{port}");
    // Its webhooks read nothing: no server is asked for anything.
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse()?);
    let mut config = Config::new(kube::Client::try_from(nowhere)?, World::real());
    config.webhooks = Serving {
        address: Some(authority.clone()),
        reached: Some(Reached::Url { authority }),
        certificates: Certificates::Files,
        certificates_dir: Some(folder.to_owned()),
        ..Serving::default()
    };
    program().run(config).await.map_err(to_anyhow)
}

fn program() -> Manager {
    let validator = webhook::validates(validate).on(Operation::Create);
    let defaulter = webhook::defaults(set_defaults).on(Operation::Create);
    Manager::new("bench")
        .webhook(validator.except_own_namespace())
        .webhook(defaulter.except_own_namespace())
}

async fn validate(change: Change<Pod>, _: Admission) -> Result<(), Denied> {
    let spec = change.new().and_then(|pod| pod.spec.as_ref());
    match spec.is_some_and(|spec| spec.containers.is_empty()) {
        true => Err(Denied::field("spec.containers").required("name one")),
        false => Ok(()),
    }
}

async fn set_defaults(pod: &mut Pod, _: Admission) -> Result<(), Denied> {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(LABEL.to_owned(), "true".to_owned());
    Ok(())
}

/// A program that serves, which ends with this value.
struct Program {
    child: Child,
    target: Target,
    /// What it sends to those of each of [`WORKS`].
    figures: [Figures; WORKS.len()],
}

#[derive(Default)]
struct Figures {
    /// In each round, how many reviews a second.
    rates: Vec<f64>,
    latencies: Vec<Duration>,
}

impl Figures {
    fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    fn percentile(&self, share: usize) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort();
        sorted[(sorted.len() - 1) * share / 100]
    }
}

impl Program {
    /// Starts a program, and waits until it decides as it should.
    async fn start(world: &World, mut command: Command, target: Target) -> anyhow::Result<Self> {
        let child = command.stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("start {:?}", command.get_program()))?;
        let mut program = Program {
            child,
            target,
            figures: Default::default(),
        };
        let serves = world.clock().timeout(START, program.decides(world));
        serves.await.context("it does not serve")??;
        Ok(program)
    }

    async fn decides(&mut self, world: &World) -> anyhow::Result<()> {
        let mut connection = loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended: {status}");
            }
            match self.target.connect(world).await {
                Ok(connection) => break connection,
                Err(_) => world.clock().sleep(Duration::from_millis(10)).await,
            }
        };
        let validated = decision(&mut connection, VALIDATE).await?;
        ensure!(validated["allowed"] == true, "it answers {validated}");
        let defaulted = decision(&mut connection, DEFAULT).await?;
        let patch = defaulted["patch"].as_str().context("no patch")?;
        let patch = base64::engine::general_purpose::STANDARD.decode(patch)?;
        let patch: Value = serde_json::from_slice(&patch)?;
        let path = format!("/metadata/labels/{}", LABEL.replace('/', "~1"));
        let wanted = json!([{"op": "add", "path": path, "value": "true"}]);
        ensure!(patch == wanted, "its patch is {patch}");
        Ok(())
    }

    fn processes(&self) -> Processes {
        Processes::new(vec![self.child.id()])
    }

    /// One turn.
    async fn measure(
        &mut self,
        world: &World,
        number: usize,
        review: &Bytes,
    ) -> anyhow::Result<()> {
        let Work { path, clients, .. } = &WORKS[number];
        let clock = world.clock();
        let mut connections = Vec::new();
        for _ in 0..*clients {
            connections.push(self.target.connect(world).await?);
        }
        let began = clock.now();
        let client = |mut connection: Connection| async move {
            let mut took = Vec::new();
            loop {
                let sent = clock.now();
                if sent - began >= TURN {
                    return anyhow::Ok(took);
                }
                connection.post(path, review.clone()).await?;
                took.push(clock.now() - sent);
            }
        };
        let took = try_join_all(connections.into_iter().map(client)).await?;
        let took = took.concat();
        let figures = &mut self.figures[number];
        let lasted = clock.now() - began;
        figures.rates.push(took.len() as f64 / lasted.as_secs_f64());
        figures.latencies.extend(took);
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn decision(connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
    let answer = connection.post(path, review()).await?;
    let mut answer: Value = serde_json::from_slice(&answer)?;
    Ok(answer["response"].take())
}

/// The creation of a Pod, as an API server describes it.
fn review() -> Bytes {
    let pod = pods::pod(7);
    let metadata = &pod["metadata"];
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "name": metadata["name"], "namespace": metadata["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "object": pod, "oldObject": null, "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    });
    Bytes::from(review.to_string())
}

/// Measures both programs.
pub(crate) async fn measure() -> anyhow::Result<()> {
    let world = World::real();
    let folder = tempfile::tempdir()?;
    let authority = Authority::new(world.clock().wall())?;
    let identity = authority.server(&[])?;
    std::fs::write(folder.path().join("tls.crt"), identity.certificate())?;
    std::fs::write(folder.path().join("tls.key"), identity.key())?;
    let peer = build_peer(folder.path())?;

    let target = |port| Target::new("127.0.0.1", port, authority.pem().as_bytes(), "");
    let port = free_port()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--decide-at").arg(port.to_string());
    command.arg("--certificates").arg(folder.path());
    let ours = Program::start(&world, command, target(port)?).await;
    let ours = ours.context("the program of Sendo")?;
    let port = free_port()?;
    let mut command = Command::new(peer);
    command.arg(folder.path()).arg(port.to_string());
    let theirs = Program::start(&world, command, target(port)?).await;
    let theirs = theirs.context("the program of controller-runtime")?;

    let at_rest = [&ours, &theirs].map(|program| resident_bytes(program.child.id()));
    let mut programs = [ours, theirs];
    let processes = [programs[0].processes(), programs[1].processes()];
    let review = review();
    for round in 0..=ROUNDS {
        for (own, program) in programs.iter_mut().enumerate() {
            processes[1 - own].halt()?;
            for number in 0..WORKS.len() {
                program.measure(&world, number, &review).await?;
                if round == 0 {
                    program.figures[number] = Figures::default(); // to warm up
                }
            }
            processes[1 - own].go_on()?;
        }
    }
    let [ours, theirs] = &programs;
    print(ours, theirs);
    let [at_rest, their_rest] = at_rest;
    let loaded = [ours, theirs].map(|program| resident_bytes(program.child.id()));
    let [loaded, their_load] = loaded;
    for (when, own, other) in [
        ("when it serves", at_rest?, their_rest?),
        ("after all this", loaded?, their_load?),
    ] {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "| memory {when} | {:.1} MB | | {:.1} MB | | {:.2}× |",
            megabytes(own),
            megabytes(other),
            own as f64 / other as f64
        );
    }
    println!();
    world.tasks().stop().await;
    Ok(())
}

fn print(ours: &Program, theirs: &Program) {
    println!(
        "| reviews of a Pod of {} KB, one replica | Sendo | p50, p99 | controller-runtime | p50, p99 | Sendo's to it |",
        review().len() / 1000
    );
    println!("|---|---|---|---|---|---|");
    for (number, work) in WORKS.iter().enumerate() {
        let (own, other) = (&ours.figures[number], &theirs.figures[number]);
        let ratios = own.rates.iter().zip(&other.rates);
        let ratio = median(ratios.map(|(own, other)| own / other).collect());
        let latency = |figures: &Figures| {
            let (half, most) = (figures.percentile(50), figures.percentile(99));
            format!("{} µs, {} µs", half.as_micros(), most.as_micros())
        };
        println!(
            "| {} | {:.0} | {} | {:.0} | {} | {ratio:.2}× |",
            work.name,
            own.rate(),
            latency(own),
            other.rate(),
            latency(other),
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn build_peer(folder: &Path) -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/controller-runtime");
    let program = folder.join("webhooks");
    let build = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg("./webhooks")
        .current_dir(source)
        .status();
    let status = build.context("cannot start go, which builds the other program")?;
    ensure!(status.success(), "go build failed, {status}");
    Ok(program)
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}
