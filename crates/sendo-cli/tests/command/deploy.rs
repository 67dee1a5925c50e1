//! `sendo install`, `deploy` and their reverse, on a cluster of `sendo up`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

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
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
";

const PROGRAM: &str = "
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: bar, namespace: bar-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: bar}}
  template:
    metadata: {labels: {app: bar}}
    spec: {serviceAccountName: bar, containers: [{name: bar, image: bar}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: bar, namespace: bar-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: bar-system}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: bar}
webhooks: []
---
";

/// A cluster in a process and a folder of its own, ended with the test.
struct Cluster {
    process: Child,
    folder: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = sendo(
            folder.path(),
            &["up", "--port=0", "--nodes=1", "--kubeconfig=kc"],
        );
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("Ctrl-C") {
            assert_ne!(
                lines.read_line(&mut seen).unwrap(),
                0,
                "ended early: {seen}"
            );
        }
        std::fs::write(folder.path().join("kind.yaml"), KIND).unwrap();
        std::fs::write(folder.path().join("all.yaml"), format!("{PROGRAM}{KIND}")).unwrap();
        Cluster { process, folder }
    }

    fn run(&self, arguments: &[&str]) -> (Output, String) {
        let output = sendo(self.folder.path(), arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, error)
    }

    /// Runs a command that succeeds; what it printed.
    fn sendo(&self, arguments: &[&str]) -> String {
        let (output, error) = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that fails; its error.
    fn refused(&self, arguments: &[&str]) -> String {
        let (output, error) = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        error
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.path().join(file), text).unwrap();
    }
}

fn sendo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sendo"));
    command.args(arguments).current_dir(folder);
    command
        .env_remove("RUST_LOG")
        .env("KUBECONFIG", folder.join("kc"));
    command
}

#[test]
fn kinds_with_objects_are_not_uninstalled_unless_it_is_said() {
    let cluster = Cluster::start();
    let said = cluster.sendo(&["install", "--file=kind.yaml"]);
    assert!(said.contains("bars.example.dev created"), "{said}");
    let said = cluster.sendo(&["install", "--file=kind.yaml"]);
    assert!(said.contains("bars.example.dev unchanged"), "{said}");

    // Installed means served: an object can be applied at once.
    cluster.write(
        "bar.yaml",
        "{apiVersion: example.dev/v1, kind: Bar, metadata: {name: a, namespace: default}, spec: {size: 1}}",
    );
    cluster.sendo(&["deploy", "--file=bar.yaml"]);
    let error = cluster.refused(&["uninstall", "--file=kind.yaml"]);
    for part in ["bars.example.dev has default/a", "--delete-objects"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let said = cluster.sendo(&[
        "uninstall",
        "--file=kind.yaml",
        "--delete-objects",
        "--output=json",
    ]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["deleted"][0], "bars.example.dev");
}

#[test]
fn a_program_is_deployed_in_order_and_taken_away_again() {
    let cluster = Cluster::start();
    let said = cluster.sendo(&["deploy", "--file=all.yaml", "--dry-run"]);
    assert!(said.contains("Deployment bar-system/bar created"), "{said}");
    let said = cluster.sendo(&["deploy", "--file=all.yaml", "--dry-run", "--output=json"]);
    let dry: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(dry["objects"].as_array().unwrap().len(), 4, "{said}");

    let said = cluster.sendo(&["deploy", "--file=all.yaml"]);
    for part in [
        "simulate containers",
        "left out: ValidatingWebhookConfiguration bar",
        "Deployment bar-system/bar is up",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let place = |part: &str| said.find(part).unwrap_or_else(|| panic!("{part}: {said}"));
    assert!(place("CustomResourceDefinition") < place("Namespace"));
    assert!(place("Namespace") < place("ServiceAccount"));
    assert!(place("ServiceAccount") < place("Deployment"));

    let all = format!("{PROGRAM}{KIND}");
    cluster.write("all.yaml", &all.replace("replicas: 1", "replicas: 2"));
    let said = cluster.sendo(&["deploy", "--file=all.yaml", "--dry-run"]);
    assert!(said.contains("~ spec.replicas: 1 → 2"), "{said}");

    let said = cluster.sendo(&["undeploy", "--file=all.yaml"]);
    assert!(said.contains("Deployment bar-system/bar deleted"), "{said}");
    assert!(said.contains("Namespace bar-system deleted"), "{said}");
    let said = cluster.sendo(&["install", "--file=kind.yaml", "--dry-run"]);
    assert!(said.contains("bars.example.dev unchanged"), "{said}");
}

#[test]
fn a_program_that_does_not_come_up_says_why() {
    let cluster = Cluster::start();
    let all = format!("{PROGRAM}{KIND}");
    cluster.write(
        "all.yaml",
        &all.replace("serviceAccountName: bar", "nodeName: none"),
    );
    let error = cluster.refused(&["deploy", "--file=all.yaml", "--timeout=2"]);
    for part in [
        "Deployment bar-system/bar is not up after 2 s",
        "--timeout SECONDS",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn what_the_cluster_refuses_is_told_with_a_fix() {
    let cluster = Cluster::start();
    for (yaml, part) in [
        ("a: [", "no YAML"),
        ("a: 1", "no object with a kind and a name"),
        (
            "{apiVersion: other.dev/v1, kind: Foo, metadata: {name: a}}",
            "has no kind Foo in other.dev/v1",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: A}}",
            "the cluster refuses",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dada: {}}",
            "dada",
        ),
    ] {
        cluster.write("x.yaml", yaml);
        let error = cluster.refused(&["deploy", "--file=x.yaml"]);
        assert!(error.contains(part), "{yaml}: {error}");
    }
    let error = cluster.refused(&["deploy", "--file=none.yaml"]);
    assert!(error.contains("cannot read none.yaml"), "{error}");
    let error = cluster.refused(&["deploy", "--file=x.yaml", "--kubeconfig=none"]);
    assert!(error.contains("--kubeconfig FILE"), "{error}");
    let error = cluster.refused(&["deploy"]);
    assert!(error.contains("`sendo new DIR`"), "{error}");
    let error = cluster.refused(&["install", "--file=x.yaml"]);
    assert!(error.contains("defines no kind"), "{error}");
}

#[test]
fn a_cluster_that_does_not_answer_is_told_with_the_flags_that_help() {
    let folder = tempfile::tempdir().unwrap();
    let config = "
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {}}]
";
    std::fs::write(folder.path().join("kc"), config).unwrap();
    std::fs::write(folder.path().join("kind.yaml"), KIND).unwrap();
    let output = sendo(folder.path(), &["install", "--file=kind.yaml"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("does not answer"), "{error}");
    assert!(error.contains("--context NAME"), "{error}");
}

#[test]
fn the_doctor_finds_the_cluster_and_the_rights() {
    let cluster = Cluster::start();
    let said = cluster.run(&["doctor", "--output=json"]).0.stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    let verdict = |check: &str| {
        let mut checks = said["checks"].as_array().unwrap().iter();
        let found = checks.find(|found| found["check"] == check);
        found.unwrap_or_else(|| panic!("{check}: {said}"))["verdict"].clone()
    };
    for check in ["rustc", "cargo", "cluster", "rights"] {
        assert_eq!(verdict(check), "good", "{check}: {said}");
    }
    std::fs::remove_file(cluster.folder.path().join("kc")).unwrap();
    let said = cluster.run(&["doctor", "--kubeconfig=none"]).0.stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("! cluster"), "{said}");
}
