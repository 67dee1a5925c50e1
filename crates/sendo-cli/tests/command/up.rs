//! End-to-end tests of the command `sendo up`.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

fn sendo(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sendo"));
    command.args(arguments).current_dir(folder);
    command.env_remove("RUST_LOG").env_remove("KUBECONFIG");
    command
}

fn run(arguments: &[&str]) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = sendo(arguments, folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, error)
}

/// The story is broken at one step after the other, and each time it is that step which is named.
#[test]
fn a_step_of_the_demo_that_does_not_come_true_fails_it_by_name() {
    for step in ["pod-replaced", "bucket-unhealthy", "job-completes"] {
        let (output, error) = run(&["up", "--demo", "--once", "--port=0", "--sabotage", step]);
        assert_eq!(output.status.code(), Some(1), "{step}: {error}");
        let named = format!("step `{step}` did not come true");
        assert!(error.contains(&named), "{step}: {error}");
    }
}

#[test]
fn the_demo_tells_all_stories_and_leaves_a_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["up", "--demo", "--once", "--port=0", "--kubeconfig=demo.kc"];
    let output = sendo(&arguments, folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let told = String::from_utf8_lossy(&output.stdout).to_lowercase();
    for story in ["replicaset", "bucket", "statefulset"] {
        assert!(told.contains(story), "{story}: {told}");
    }
    let config = std::fs::read_to_string(folder.path().join("demo.kc")).unwrap();
    assert!(config.contains("certificate-authority-data"), "{config}");
}

#[test]
fn a_port_in_use_is_told_with_the_flag_that_helps() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (output, error) = run(&["up", "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains(&port), "{error}");
    assert!(error.contains("--port"), "{error}");
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_told_with_the_flag_that_helps() {
    let (output, error) = run(&["up", "--port=0", "--kubeconfig=/proc/none/config"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("--kubeconfig FILE"), "{error}");
}

#[test]
fn an_unknown_controller_is_told_with_those_there_are() {
    let (output, error) = run(&["up", "--port=0", "--controllers=replicasets"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("replicasets"), "{error}");
    assert!(error.contains("replicaset-controller"), "{error}");
}

/// A cluster in a process of its own, ended with the test.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Up {
    /// Starts it and reads on until it has told what to try; what it said.
    fn start(arguments: &[&str], folder: &Path) -> (Self, BufReader<ChildStdout>, String) {
        let mut command = sendo(arguments, folder);
        let mut up = Up(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(up.0.stdout.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("Ctrl-C") {
            let read = lines.read_line(&mut seen).unwrap();
            assert_ne!(read, 0, "ended early: {seen}");
        }
        (up, lines, seen)
    }
}

#[test]
fn ctrl_c_stops_everything_and_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let (mut up, mut lines, seen) = Up::start(&["up", "--port=0", "--nodes=1"], folder.path());
    for component in ["API server", "controllers", "scheduler", "node-0"] {
        assert!(seen.contains(component), "{component} is missing: {seen}");
    }
    let id = up.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(up.0.wait().unwrap().success(), "{seen}{rest}");
}

#[test]
fn a_cluster_in_a_folder_goes_on_after_its_process_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "up",
        "--port=0",
        "--nodes=1",
        "--data-dir=boat",
        "--kubeconfig=kc",
    ];
    let authority = || {
        let config = std::fs::read_to_string(folder.path().join("kc")).unwrap();
        let line = config
            .lines()
            .find(|line| line.contains("certificate-authority-data"));
        line.unwrap().to_owned()
    };
    let (up, _, _) = Up::start(&arguments, folder.path());
    let before = authority();

    let second = sendo(&arguments, folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&second.stderr);
    assert!(error.contains("in use by another process"), "{error}");

    drop(up); // killed
    let (_up, _, _) = Up::start(&arguments, folder.path());
    assert_eq!(authority(), before);
}

#[test]
fn a_folder_of_something_else_is_refused_as_data_dir() {
    let (output, error) = run(&["up", "--port=0", "--data-dir=/proc/self"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("choose an empty folder"), "{error}");
}

#[test]
fn an_audit_policy_that_cannot_be_used_is_told_with_its_file_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: All}]}";
    std::fs::write(folder.path().join("audit.yaml"), policy).unwrap();
    let arguments = [
        "up",
        "--port=0",
        "--audit-policy=audit.yaml",
        "--audit-log=audit.log",
    ];
    let output = sendo(&arguments, folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("audit.yaml"), "{error}");
    assert!(error.contains("rules[0].level"), "{error}");
    let (output, error) = run(&["up", "--audit-log=audit.log"]);
    assert!(!output.status.success());
    assert!(error.contains("--audit-policy"), "{error}");
}
