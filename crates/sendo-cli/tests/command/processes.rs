//! `sendo up --runtime process`: pods that really run.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// How long something may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster in a process and a folder of its own, ended with the test.
struct Cluster {
    process: Child,
    client: kube::Client,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Cluster {
    async fn start(folder: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sendo"));
        command
            .args(["up", "--runtime=process", "--port=0", "--kubeconfig=kc"])
            .args(more);
        command.env_remove("RUST_LOG").env_remove("KUBECONFIG");
        let mut process = command
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("Ctrl-C") {
            let read = lines.read_line(&mut seen).unwrap();
            assert_ne!(read, 0, "ended early: {seen}");
        }
        assert!(seen.contains("plain processes"), "{seen}");
        let config = Kubeconfig::read_from(folder.join("kc")).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await;
        let client = sendo::client::connect(config.unwrap()).unwrap();
        Cluster { process, client }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Runs a script in a pod of its own.
    async fn run(&self, name: &str, script: &str, more: Value) {
        let mut main = json!({"name": "main", "image": "file:///bin/sh", "args": ["-c", script]});
        let mut spec = json!({"restartPolicy": "Never"});
        for (field, value) in more.as_object().into_iter().flatten() {
            match field.strip_prefix("main.") {
                Some(field) => main[field] = value.clone(),
                None => spec[field] = value.clone(),
            }
        }
        spec["containers"] = json!([main]);
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
    }

    /// Waits until a pod is as wanted.
    async fn until(&self, name: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        let begun = Instant::now();
        loop {
            let pod = self.pods().get(name).await.unwrap();
            if wanted(&pod) {
                return pod;
            }
            assert!(begun.elapsed() < PATIENCE, "{name}: {:#?}", pod.status);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn until_gone(&self, name: &str) {
        let begun = Instant::now();
        while self.pods().get_opt(name).await.unwrap().is_some() {
            assert!(begun.elapsed() < PATIENCE, "{name} is still there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn log(&self, name: &str, options: LogParams) -> String {
        self.pods().logs(name, &options).await.unwrap()
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

fn main_status(pod: &Pod) -> ContainerStatus {
    let status = pod.status.as_ref();
    let statuses = status.and_then(|status| status.container_statuses.clone());
    statuses
        .and_then(|list| list.first().cloned())
        .unwrap_or_default()
}

fn exit_code(pod: &Pod) -> Option<i32> {
    Some(main_status(pod).state?.terminated?.exit_code)
}

fn waiting(pod: &Pod) -> Option<(String, String)> {
    let waiting = main_status(pod).state?.waiting?;
    Some((waiting.reason?, waiting.message.unwrap_or_default()))
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The processes whose arguments contain this text.
fn processes(marker: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| {
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(marker).then_some(line)
    });
    lines.collect()
}

fn wait_for_no_process(marker: &str) {
    let begun = Instant::now();
    while !processes(marker).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", processes(marker));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A number that no other process has among its arguments.
fn marker(number: u32) -> String {
    format!(
        "{}{number}",
        7_000_000_000 + u64::from(std::process::id()) * 100
    )
}

#[tokio::test]
async fn a_pod_runs_a_program_and_its_log_and_its_end_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), &["--image=shell:1=/bin/sh"]).await;
    let environment = json!({
        "main.env": [
            {"name": "WHO", "value": "world"},
            {"name": "GREETING", "value": "hello $(WHO)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "main.workingDir": "/usr",
        "main.image": "shell:1",
    });
    let script = "echo $GREETING; echo $POD >&2; pwd; printf end; exit 3";
    cluster.run("talks", script, environment).await;
    let failed = cluster.until("talks", |pod| phase(pod) == "Failed").await;
    assert_eq!(exit_code(&failed), Some(3));
    let log = cluster.log("talks", LogParams::default()).await;
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["/usr", "end", "hello world", "talks"]);
    let tail = LogParams {
        tail_lines: Some(1),
        ..LogParams::default()
    };
    assert_eq!(cluster.log("talks", tail).await.lines().count(), 1);

    // A log is followed until the container ends.
    cluster
        .run(
            "counts",
            "for i in 1 2 3; do echo $i; sleep 0.2; done",
            json!({}),
        )
        .await;
    cluster.until("counts", |pod| phase(pod) != "Pending").await;
    let follow = LogParams {
        follow: true,
        ..LogParams::default()
    };
    assert_eq!(cluster.log("counts", follow).await, "1\n2\n3\n");
    cluster
        .until("counts", |pod| phase(pod) == "Succeeded")
        .await;

    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let node = nodes.get("node-0").await.unwrap().status.unwrap();
    let conditions = node.conditions.unwrap();
    let isolated = conditions
        .iter()
        .find(|condition| condition.type_ == "PodsIsolated")
        .unwrap();
    assert_eq!(isolated.status, "False");
}

#[tokio::test]
async fn what_cannot_run_says_why_and_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), &[]).await;
    cluster
        .run("image", "true", json!({"main.image": "nginx"}))
        .await;
    let reason = |pod: &Pod| waiting(pod).map(|(reason, _)| reason).unwrap_or_default();
    let failed = cluster
        .until("image", |pod| reason(pod) == "ImagePullBackOff")
        .await;
    let (_, message) = waiting(&failed).unwrap();
    assert!(
        message.contains("--image nginx=/path/to/program"),
        "{message}"
    );

    let from_nothing = json!({"main.envFrom": [{"configMapRef": {"name": "none"}}]});
    cluster.run("config", "true", from_nothing).await;
    let failed = cluster
        .until("config", |pod| reason(pod) == "CreateContainerConfigError")
        .await;
    let (_, message) = waiting(&failed).unwrap();
    assert!(
        message.contains("configmap \"none\" not found"),
        "{message}"
    );

    cluster
        .run("command", "", json!({"main.command": ["no-such-program"]}))
        .await;
    let failed = cluster.until("command", |pod| phase(pod) == "Failed").await;
    let end = main_status(&failed).state.unwrap().terminated.unwrap();
    assert_eq!(
        (end.exit_code, end.reason.as_deref()),
        (128, Some("StartError"))
    );
    assert!(
        end.message
            .unwrap()
            .contains("executable file not found in $PATH")
    );

    let none = cluster
        .pods()
        .logs("image", &LogParams::default())
        .await
        .unwrap_err();
    assert!(
        none.to_string()
            .contains("is waiting to start: trying and failing to pull image")
    );
}

#[tokio::test]
async fn containers_start_in_order_are_probed_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), &[]).await;
    let ready = folder.path().join("ready");
    let order = folder.path().join("order");
    let note = |what: &str| format!("echo {what} >> {}", order.display());
    let shell = |name: &str, script: String| json!({"name": name, "image": "file:///bin/sh", "args": ["-c", script]});
    let mut sidecar = shell("sidecar", format!("{}; exec sleep 1000", note("sidecar")));
    sidecar["restartPolicy"] = "Always".into();
    sidecar["startupProbe"] =
        json!({"exec": {"command": ["grep", "sidecar", order]}, "periodSeconds": 1});
    let probe = json!({"exec": {"command": ["test", "-e", ready]}, "periodSeconds": 1});
    let more = json!({
        "initContainers": [shell("first", note("first")), sidecar, shell("last", note("last"))],
        "main.readinessProbe": probe,
        "terminationGracePeriodSeconds": 5,
    });
    cluster
        .run(
            "ordered",
            &format!("{}; exec sleep 1000", note("main")),
            more,
        )
        .await;
    let running = cluster
        .until("ordered", |pod| phase(pod) == "Running")
        .await;
    assert!(!is_ready(&running));
    std::fs::write(&ready, "").unwrap();
    cluster.until("ordered", is_ready).await;
    assert_eq!(
        std::fs::read_to_string(&order).unwrap(),
        "first\nsidecar\nlast\nmain\n"
    );

    let again = json!({"restartPolicy": "Always"});
    cluster.run("crashes", "echo run; exit 7", again).await;
    let waits = |pod: &Pod| waiting(pod).is_some_and(|(reason, _)| reason == "CrashLoopBackOff");
    let crashed = cluster.until("crashes", waits).await;
    let last = main_status(&crashed)
        .last_state
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!(last.exit_code, 7);
    let previous = LogParams {
        previous: true,
        ..LogParams::default()
    };
    assert_eq!(cluster.log("crashes", previous).await, "run\n");
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    let about = ListParams::default().fields("involvedObject.name=crashes,reason=BackOff");
    assert!(!events.list(&about).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_pod_is_asked_to_terminate_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path(), &[]).await;
    let (graceful, stubborn) = (marker(1), marker(2));
    // Processes that leave the session of their container belong to it still.
    let script =
        format!("trap 'echo bye; exit 0' TERM; setsid sleep {graceful} & sleep {graceful} & wait");
    cluster
        .run(
            "graceful",
            &script,
            json!({"terminationGracePeriodSeconds": 60}),
        )
        .await;
    let script = format!("trap '' TERM; while true; do sleep {stubborn}; done");
    cluster
        .run(
            "stubborn",
            &script,
            json!({"terminationGracePeriodSeconds": 1}),
        )
        .await;
    for name in ["graceful", "stubborn"] {
        cluster.until(name, |pod| phase(pod) == "Running").await;
    }
    for marker in [&graceful, &stubborn] {
        let begun = Instant::now();
        while !processes(marker)
            .iter()
            .any(|line| line.starts_with("sleep"))
        {
            assert!(begun.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for name in ["graceful", "stubborn"] {
        cluster
            .pods()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    for name in ["graceful", "stubborn"] {
        cluster.until_gone(name).await;
    }
    wait_for_no_process(&graceful);
    wait_for_no_process(&stubborn);
}

#[tokio::test]
async fn containers_end_with_their_cluster_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (interrupted, killed) = (marker(3), marker(4));
    let mut cluster = Cluster::start(folder.path(), &[]).await;
    cluster
        .run("p", &format!("sleep {interrupted} & wait"), json!({}))
        .await;
    cluster.until("p", |pod| phase(pod) == "Running").await;
    let id = cluster.process.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    assert!(cluster.process.wait().unwrap().success());
    assert_eq!(processes(&interrupted), [""; 0]);

    let cluster = Cluster::start(folder.path(), &[]).await;
    cluster
        .run("p", &format!("sleep {killed} & wait"), json!({}))
        .await;
    cluster.until("p", |pod| phase(pod) == "Running").await;
    drop(cluster);
    wait_for_no_process(&killed);
}

#[tokio::test]
async fn an_agent_that_was_killed_finds_its_containers_again() {
    let folder = tempfile::tempdir().unwrap();
    let stays = marker(5);
    let cluster = Cluster::start(folder.path(), &["--data-dir=boat"]).await;
    cluster
        .run(
            "stays",
            &format!("echo begun; sleep {stays} & wait"),
            json!({}),
        )
        .await;
    let end = folder.path().join("end");
    let script = format!(
        "while ! test -e {}; do sleep 0.05; done; exit 4",
        end.display()
    );
    cluster.run("ends", &script, json!({})).await;
    let before = cluster.until("stays", |pod| phase(pod) == "Running").await;
    cluster.until("ends", |pod| phase(pod) == "Running").await;
    drop(cluster); // killed

    // One ends while there is no agent.
    std::fs::write(&end, "").unwrap();
    let cluster = Cluster::start(folder.path(), &["--data-dir=boat"]).await;
    let ended = cluster.until("ends", |pod| phase(pod) == "Failed").await;
    assert_eq!(exit_code(&ended), Some(4));
    let after = cluster.until("stays", |pod| phase(pod) == "Running").await;
    let (before, after) = (main_status(&before), main_status(&after));
    assert_eq!(
        (after.container_id, after.restart_count),
        (before.container_id, 0)
    );
    assert_eq!(cluster.log("stays", LogParams::default()).await, "begun\n");
    let now = DeleteParams::default().grace_period(1);
    cluster.pods().delete("stays", &now).await.unwrap();
    cluster.until_gone("stays").await;
    wait_for_no_process(&stays);
}
