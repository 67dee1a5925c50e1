//! `sendo doctor`: whether this machine, this project and this cluster have what is needed.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::api::{Api, ClusterFlags, Connection};
use crate::output::{Format, print_json};
use crate::program::cargo_command;
use crate::project::Project;

/// The oldest Rust that programs build with.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// The oldest minor release of Kubernetes 1 that the library has types of.
const KUBERNETES_MINOR: u32 = 33;

/// Check the tools, the project in this folder and the cluster, and say what to do
///
/// What is missing and needed is an error (✗), and the command fails; what is
/// missing and only helps is a warning (!).
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo doctor                             the cluster of the current kubeconfig
  sendo doctor --kubeconfig prod.yaml      may I deploy there?
  sendo doctor --output json"
)]
pub(crate) struct Doctor {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Print JSON for programs
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Warning,
    Error,
}

/// What was found, and what to do if it is not good.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    found: String,
    fix: String,
}

impl Finding {
    fn good(check: &'static str, found: impl Into<String>) -> Self {
        Finding {
            check,
            verdict: Verdict::Good,
            found: found.into(),
            fix: String::new(),
        }
    }

    fn bad(check: &'static str, verdict: Verdict, found: impl Into<String>, fix: &str) -> Self {
        Finding {
            check,
            verdict,
            found: found.into(),
            fix: fix.to_owned(),
        }
    }

    fn to_json(&self) -> Value {
        let verdict = match self.verdict {
            Verdict::Good => "good",
            Verdict::Warning => "warning",
            Verdict::Error => "error",
        };
        json!({"check": self.check, "verdict": verdict, "found": self.found, "fix": self.fix})
    }
}

impl Doctor {
    pub(crate) async fn run(self) -> Result<()> {
        let mut findings = tools();
        findings.extend(project());
        findings.extend(self.cluster_findings().await);
        let errors = findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Error)
            .count();
        match self.output {
            Format::Json => {
                let checks: Vec<Value> = findings.iter().map(Finding::to_json).collect();
                print_json(&json!({"checks": checks, "errors": errors}))?;
            }
            Format::Text => {
                let screen = self.output.progress();
                for finding in &findings {
                    let text = format!("{}: {}", finding.check, finding.found);
                    match finding.verdict {
                        Verdict::Good => screen.step(&text, ""),
                        Verdict::Warning => screen.warning(&text, &finding.fix),
                        Verdict::Error => screen.failure(&text, &finding.fix),
                    }
                }
            }
        }
        match errors {
            0 => Ok(()),
            1 => bail!("one thing is missing"),
            several => bail!("{several} things are missing"),
        }
    }

    async fn cluster_findings(&self) -> Vec<Finding> {
        let Connection { api, address } = match self.cluster.connect().await {
            Ok(connection) => connection,
            Err(error) => {
                let fix =
                    "`sendo up` starts a cluster on this machine; --kubeconfig FILE names another";
                return vec![Finding::bad(
                    "cluster",
                    Verdict::Warning,
                    format!("{error:#}"),
                    fix,
                )];
            }
        };
        let version = match api.version().await {
            Ok(version) => version,
            Err(error) => {
                let fix =
                    "is it running, and may this machine reach it? --context NAME chooses another";
                let found = format!("{address}: {error:#}");
                return vec![Finding::bad("cluster", Verdict::Error, found, fix)];
            }
        };
        let found = format!("Kubernetes {version} at {address}");
        let mut findings = vec![match minor(&version) {
            Some(minor) if minor < KUBERNETES_MINOR => Finding::bad(
                "cluster",
                Verdict::Warning,
                found,
                &format!("the oldest that is tested is 1.{KUBERNETES_MINOR}: upgrade the cluster"),
            ),
            _ => Finding::good("cluster", found),
        }];
        findings.push(rights(&api).await);
        findings
    }
}

/// Programs that building needs.
fn tools() -> Vec<Finding> {
    let install = "install Rust, as https://rustup.rs says";
    let rust = match first_line(Command::new("rustc").arg("--version")) {
        None => Finding::bad("rustc", Verdict::Error, "not found", install),
        Some(line) if is_older(&line, RUST) => {
            let fix = format!("programs need Rust {RUST}: `rustup update stable`");
            Finding::bad("rustc", Verdict::Error, line, &fix)
        }
        Some(line) => Finding::good("rustc", line),
    };
    let mut cargo = cargo_command(Path::new("."));
    let mut findings = vec![
        rust,
        found("cargo", cargo.arg("--version"), Verdict::Error, install),
        found(
            "C compiler",
            Command::new("cc").arg("--version"),
            Verdict::Error,
            "install one, such as the package `gcc` or `clang` of your system",
        ),
    ];
    for (tool, fix) in [
        (
            "git",
            "`sendo add` and `sendo remove` want to be undone with it: install git",
        ),
        (
            "rustfmt",
            "new code is not laid out without it: `rustup component add rustfmt`",
        ),
    ] {
        findings.push(found(
            tool,
            Command::new(tool).arg("--version"),
            Verdict::Warning,
            fix,
        ));
    }
    findings
}

fn found(check: &'static str, command: &mut Command, verdict: Verdict, fix: &str) -> Finding {
    match first_line(command) {
        Some(line) => Finding::good(check, line),
        None => Finding::bad(check, verdict, "not found", fix),
    }
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().to_owned();
    output.status.success().then_some(line)
}

fn project() -> Option<Finding> {
    // Outside of a project there is nothing to check.
    let project = Project::here().ok()?;
    let name = format!("{} {}", project.name, project.version);
    Some(match project.depends_on("sendo") {
        true => Finding::good("project", name.trim_end()),
        false => Finding::bad(
            "project",
            Verdict::Warning,
            format!("{} does not depend on `sendo`", project.name),
            "`sendo new DIR` makes a project that does",
        ),
    })
}

/// Whether who asks may do what `sendo deploy` does.
async fn rights(api: &Api) -> Finding {
    let mut missing = Vec::new();
    for (group, resource) in [
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("", "namespaces"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("apps", "deployments"),
    ] {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"group": group, "resource": resource, "verb": "patch"}},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        match api.create(path, &review).await {
            Ok(answer) if answer["status"]["allowed"] == true => {}
            Ok(_) => missing.push(resource),
            Err(error) => {
                let fix = "ask whoever runs the cluster";
                return Finding::bad("rights", Verdict::Warning, format!("{error:#}"), fix);
            }
        }
    }
    match missing.is_empty() {
        true => Finding::good("rights", "you may deploy programs with kinds of their own"),
        false => Finding::bad(
            "rights",
            Verdict::Warning,
            format!("you may not patch {}", missing.join(", ")),
            "`sendo deploy` needs it: ask whoever runs the cluster, or choose another user with --context NAME",
        ),
    }
}

/// The minor release in `v1.36.4`.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}

/// Whether `rustc 1.94.0 (…)` is older than `1.95`.
fn is_older(line: &str, wanted: &str) -> bool {
    let numbers = |text: &str| {
        let numbers = text
            .split(['.', '-'])
            .map_while(|number| number.parse().ok());
        numbers.collect::<Vec<u32>>()
    };
    let version = line.split_whitespace().nth(1).unwrap_or_default();
    numbers(version) < numbers(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_older("rustc 1.94.1 (abc 2026-01-01)", "1.95"));
        assert!(!is_older("rustc 1.95.0 (abc 2026-01-01)", "1.95"));
        assert!(!is_older("rustc 1.100.0-nightly (abc)", "1.95"));
        assert_eq!(minor("v1.36.4"), Some(36));
        assert_eq!(minor("v1.36.4+k3s1"), Some(36));
    }
}
