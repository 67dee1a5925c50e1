//! `sendo dev` with a program that stands in for a controller, so that builds take a moment: it
//! prints its flags and serves the probe. Real projects are built by `cargo xtask e2e`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a line may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

const MANIFEST: &str = "
[package]
name = \"stand-in\"
version = \"0.1.0\"
edition = \"2021\"

[dependencies]
sendo = { path = \"sendo\" }

[workspace]
";

const PROGRAM: &str = r#"
use std::io::{Read, Write};

fn main() {
    let flags: Vec<String> = std::env::args().skip(1).collect();
    if flags == ["--help"] {
        return println!("--install-kinds --webhooks-at --health-address");
    }
    println!("MESSAGE {}", flags.join(" "));
    let address = flags.iter().find_map(|flag| flag.strip_prefix("--health-address="));
    let listener = std::net::TcpListener::bind(address.unwrap()).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
}
"#;

const KIND: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bars.example.dev}
spec:
  group: example.dev
  names: {kind: Bar, plural: bars, singular: bar}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";

/// A project whose program is `PROGRAM` with another message.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = Project { folder };
        project.write("Cargo.toml", MANIFEST);
        project.write(
            "sendo/Cargo.toml",
            "[package]\nname = \"sendo\"\nversion = \"0.1.0\"\n",
        );
        project.write("sendo/src/lib.rs", "");
        project.program("hello");
        project
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, message: &str) {
        self.write("src/main.rs", &PROGRAM.replace("MESSAGE", message));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sendo"));
        command
            .arg("dev")
            .args(arguments)
            .current_dir(self.root())
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_BUILD_TARGET_DIR")
            .env("RUSTFLAGS", "")
            .stdin(Stdio::null());
        command
    }

    /// Runs a session that fails; its error.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn start(&self, arguments: &[&str]) -> Session {
        let mut child = self
            .command(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Session {
            child,
            lines,
            said: String::new(),
            reader: Some(reader),
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.root().join("target/sendo-dev/stand-in/kubeconfig")
    }
}

/// A `sendo dev` in a process of its own.
struct Session {
    child: Child,
    lines: Receiver<String>,
    said: String,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Session {
    /// Waits for a line with this part.
    fn until(&mut self, part: &str) -> String {
        let [line] = self.until_all([part]);
        line
    }

    /// Waits for a line with each of these parts, in any order: what the
    /// program prints and what is said of it come through two pipes.
    fn until_all<const PARTS: usize>(&mut self, parts: [&str; PARTS]) -> [String; PARTS] {
        let end = Instant::now() + PATIENCE;
        let mut found = parts.map(|_| None);
        while found.iter().any(Option::is_none) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("of {parts:?} only {found:?} came:\n{}", self.said);
            };
            self.said += &format!("{line}\n");
            for (part, found) in parts.iter().zip(&mut found) {
                if found.is_none() && line.contains(part) {
                    *found = Some(line.clone());
                }
            }
        }
        found.map(Option::unwrap)
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let killed = Command::new("sh")
            .args(["-c", "kill -s $0 $1", name, &id])
            .status();
        assert!(killed.unwrap().success());
    }

    /// Ends it as Ctrl-C does; what it said in all.
    fn interrupt(mut self) -> String {
        self.signal("INT");
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let rest: Vec<String> = self.lines.try_iter().collect();
        self.said += &rest.join("\n");
        assert!(status.success(), "{status}: {}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process has a file of this folder as its program.
fn runs_from(folder: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut programs = processes.filter_map(|entry| entry.path().join("exe").read_link().ok());
    programs.any(|program| program.starts_with(folder))
}

#[test]
fn a_change_of_the_source_is_live_and_a_failed_build_is_not() {
    let project = Project::new();
    let mut session = project.start(&["--", "--extra"]);
    let [flags, _] = session.until_all(["program │ hello", "the program is ready"]);
    for part in [
        "--install-kinds",
        "--kubeconfig",
        "--webhooks-at=127.0.0.1:",
        "--extra",
    ] {
        assert!(flags.contains(part), "{part}: {flags}");
    }

    project.program("goodbye");
    session.until("src/main.rs changed");
    session.until_all(["program │ goodbye", "live "]);

    project.write("src/main.rs", "fn main() { nothing_of_this_name }");
    session.until("build   │ error");
    session.until("the program runs on as it was");
    assert!(runs_from(project.root()));

    project.program("again");
    session.until_all(["program │ again", "live "]);
    session.interrupt();
    assert!(!runs_from(project.root()));
}

#[test]
fn samples_are_applied_and_the_cluster_is_kept() {
    let project = Project::new();
    project.write("samples/kind.yaml", KIND);
    project.write(
        "samples/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: example}\ndata: {a: b}\n",
    );
    project.write("samples/broken.yaml", "kind: [");
    let mut session = project.start(&["--samples"]);
    session.until("samples/broken.yaml: what is to be applied is no YAML");
    session.until("CustomResourceDefinition bars.example.dev created");
    session.until("ConfigMap example created");
    project.write(
        "samples/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: example}\ndata: {a: c}\n",
    );
    session.until("ConfigMap example changed");
    assert!(project.kubeconfig().is_file());
    session.interrupt();

    let mut session = project.start(&["--samples"]);
    session.until("ConfigMap example unchanged");
    // It is in use.
    let error = project.refused(&[]);
    assert!(error.contains("another `sendo dev`"), "{error}");
    let error = project.refused(&["--reset"]);
    assert!(error.contains("another `sendo dev`"), "{error}");
    session.interrupt();

    let mut session = project.start(&["--samples", "--reset"]);
    session.until("ConfigMap example created");
    session.interrupt();
}

#[test]
fn a_program_that_ends_at_once_is_told_and_starts_again_with_the_next_change() {
    let project = Project::new();
    project.write(
        "src/main.rs",
        "fn main() { eprintln!(\"no luck\"); std::process::exit(3) }",
    );
    let mut session = project.start(&[]);
    session.until("program │ no luck");
    session.until("(exit status: 3), for the reason above; it starts again when a file changes");
    project.program("hello");
    session.until_all(["program │ hello", "live "]);
    session.interrupt();
}

#[test]
fn what_cannot_be_is_refused_with_its_fix() {
    let project = Project::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let error = project.refused(&["--port", &port]);
    assert!(
        error.contains(&format!("port {port} is not to be had")),
        "{error}"
    );
    let error = project.refused(&["--kubeconfig", "nowhere"]);
    assert!(
        error.contains("cannot read the kubeconfig nowhere"),
        "{error}"
    );
    let error = project.refused(&["--webhook-host", "10.0.0.1"]);
    assert!(error.contains("--kubeconfig"), "{error}");
    let error = project.refused(&["--cluster-log", "a=b=c"]);
    assert!(error.contains("--cluster-log"), "{error}");

    let mut command = project.command(&[]);
    let output = command.env("CARGO", "/nowhere/cargo").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot run cargo: install Rust"), "{error}");

    project.write(
        "Cargo.toml",
        &MANIFEST.replace("sendo = { path = \"sendo\" }", ""),
    );
    let error = project.refused(&[]);
    assert!(error.contains("does not depend on `sendo`"), "{error}");
}

#[test]
fn a_session_on_another_cluster_leaves_webhooks_out_unless_it_is_told_where_they_are() {
    let project = Project::new();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kc");
    let mut up = Command::new(env!("CARGO_BIN_EXE_sendo"))
        .args(["up", "--port=0", "--nodes=1", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + PATIENCE;
    while !kubeconfig.is_file() {
        assert!(Instant::now() < end, "no cluster");
        std::thread::sleep(Duration::from_millis(20));
    }
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let mut session = project.start(&[&flag]);
    session.until("on the cluster https://127.0.0.1:");
    session.until("webhooks are left out");
    let flags = session.until("program │ hello");
    assert!(!flags.contains("--webhooks-at"), "{flags}");
    session.interrupt();

    let mut session = project.start(&[&flag, "--webhook-host=127.0.0.1"]);
    let flags = session.until("program │ hello");
    assert!(flags.contains("--webhooks-at=127.0.0.1:"), "{flags}");
    session.interrupt();
    up.kill().unwrap();
    up.wait().unwrap();
    let error = project.refused(&[&flag]);
    assert!(error.contains("the cluster does not answer"), "{error}");
}
