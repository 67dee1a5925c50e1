//! What the pod security standards ask of a pod: a table of checks, each with the
//! releases of Kubernetes since which a form of it applies.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/pod-security-admission/policy/registry.go`: `EvaluatePod`, `populate`
//! - `staging/src/k8s.io/pod-security-admission/policy/checks.go`: `AggregateCheckResult`
//! - `staging/src/k8s.io/pod-security-admission/policy/visitor.go`: `visitContainers`

mod baseline;
mod restricted;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

use crate::kinds::value::Read;
use crate::state::pod_security::{Level, LevelVersion, Version};

/// The part of a pod, or of a template, that is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// A pod, or the template of one.
    pub(super) fn new(object: &'a Value) -> Self {
        Pod {
            metadata: object.at("metadata"),
            spec: object.at("spec"),
        }
    }

    /// All containers: the initial ones first, ephemeral ones last.
    fn containers(self) -> impl Iterator<Item = &'a Value> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists
            .into_iter()
            .flat_map(move |list| self.spec.items(list))
    }

    /// The names of the containers that are `bad`.
    fn containers_that(self, mut bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| bad(container))
            .map(|container| container.text("name"))
            .collect()
    }

    /// The security context of the pod itself.
    fn context(self) -> &'a Value {
        self.spec.at("securityContext")
    }

    fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.metadata.entries("annotations");
        annotations.map(|(key, value)| (key, value.as_str().unwrap_or_default()))
    }

    fn is_windows(self) -> bool {
        self.spec.at("os").text("name") == "windows"
    }

    /// Whether its users are not those of its node.
    fn has_user_namespace(self) -> bool {
        self.spec.switch("hostUsers") == Some(false)
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Violation {
    /// In few words.
    reason: Cow<'static, str>,
    /// Which containers or values it is about; may be empty.
    detail: String,
}

impl Violation {
    fn new(reason: impl Into<Cow<'static, str>>, detail: String) -> Self {
        Violation {
            reason: reason.into(),
            detail,
        }
    }
}

/// A check, and its forms over the releases.
struct Check {
    /// By which the violations are sorted.
    id: &'static str,
    forms: &'static [Form],
}

/// A form of a check.
struct Form {
    /// The release 1.x since which it applies.
    since: u32,
    check: fn(Pod<'_>) -> Option<Violation>,
    /// The check of the baseline that it is in place of.
    overrides: Option<&'static str>,
}

impl Check {
    /// The form that applies in the release 1.x.
    fn form(&self, minor: u32) -> Option<&'static Form> {
        self.forms.iter().rev().find(|form| form.since <= minor)
    }
}

/// A form that applies since a release and overrides nothing.
const fn since(minor: u32, check: fn(Pod<'_>) -> Option<Violation>) -> Form {
    Form {
        since: minor,
        check,
        overrides: None,
    }
}

/// A form that applies since a release, in place of a check of the baseline.
const fn since_overriding(
    minor: u32,
    check: fn(Pod<'_>) -> Option<Violation>,
    overrides: &'static str,
) -> Form {
    Form {
        since: minor,
        check,
        overrides: Some(overrides),
    }
}

/// The checks of the baseline, by their ids.
static BASELINE: &[Check] = &[
    Check {
        id: "appArmorProfile",
        forms: &[since(0, baseline::app_armor_profile)],
    },
    Check {
        id: "capabilities_baseline",
        forms: &[since(0, baseline::capabilities)],
    },
    Check {
        id: "hostNamespaces",
        forms: &[since(0, baseline::host_namespaces)],
    },
    Check {
        id: "hostPathVolumes",
        forms: &[since(0, baseline::host_path_volumes)],
    },
    Check {
        id: "hostPorts",
        forms: &[since(0, baseline::host_ports)],
    },
    Check {
        id: "hostProbesAndHostLifecycle",
        forms: &[since(34, baseline::host_probes_and_lifecycle)],
    },
    Check {
        id: "privileged",
        forms: &[since(0, baseline::privileged)],
    },
    Check {
        id: "procMount",
        forms: &[
            since(0, baseline::proc_mount),
            since(35, baseline::proc_mount_without_user_namespace),
        ],
    },
    Check {
        id: "seLinuxOptions",
        forms: &[
            since(0, baseline::se_linux_options),
            since(31, baseline::se_linux_options_with_engine),
        ],
    },
    Check {
        id: "seccompProfile_baseline",
        forms: &[
            since(0, baseline::seccomp_annotations),
            since(19, baseline::seccomp_profile),
        ],
    },
    Check {
        id: "sysctls",
        forms: &[
            since(0, |pod| baseline::sysctls(pod, 5)),
            since(27, |pod| baseline::sysctls(pod, 6)),
            since(29, |pod| baseline::sysctls(pod, 10)),
            since(32, |pod| baseline::sysctls(pod, 12)),
        ],
    },
    Check {
        id: "windowsHostProcess",
        forms: &[since(0, baseline::windows_host_process)],
    },
];

/// What the restricted level asks beyond the baseline, by their ids.
static RESTRICTED: &[Check] = &[
    Check {
        id: "allowPrivilegeEscalation",
        forms: &[
            since(8, restricted::allow_privilege_escalation),
            since(25, |pod| {
                unless(
                    pod.is_windows(),
                    pod,
                    restricted::allow_privilege_escalation,
                )
            }),
        ],
    },
    Check {
        id: "capabilities_restricted",
        forms: &[
            since_overriding(22, restricted::capabilities, "capabilities_baseline"),
            since_overriding(
                25,
                |pod| unless(pod.is_windows(), pod, restricted::capabilities),
                "capabilities_baseline",
            ),
        ],
    },
    Check {
        id: "procMount_restricted",
        forms: &[since_overriding(35, baseline::proc_mount, "procMount")],
    },
    Check {
        id: "restrictedVolumes",
        forms: &[since_overriding(0, restricted::volumes, "hostPathVolumes")],
    },
    Check {
        id: "runAsNonRoot",
        forms: &[
            since(0, restricted::run_as_non_root),
            since(35, |pod| {
                unless(pod.has_user_namespace(), pod, restricted::run_as_non_root)
            }),
        ],
    },
    Check {
        id: "runAsUser",
        forms: &[
            since(23, restricted::run_as_user),
            since(35, |pod| {
                unless(pod.has_user_namespace(), pod, restricted::run_as_user)
            }),
        ],
    },
    Check {
        id: "seccompProfile_restricted",
        forms: &[
            since_overriding(19, restricted::seccomp_profile, "seccompProfile_baseline"),
            since_overriding(
                25,
                |pod| unless(pod.is_windows(), pod, restricted::seccomp_profile),
                "seccompProfile_baseline",
            ),
        ],
    },
];

fn unless(
    exempt: bool,
    pod: Pod<'_>,
    check: fn(Pod<'_>) -> Option<Violation>,
) -> Option<Violation> {
    match exempt {
        true => None,
        false => check(pod),
    }
}

/// The checks of a level: those of the baseline first.
fn checks_of(level: Level, minor: u32) -> Vec<&'static Form> {
    let forms = |checks: &'static [Check]| {
        checks
            .iter()
            .filter_map(move |check| Some((check.id, check.form(minor)?)))
    };
    match level {
        Level::Privileged => Vec::new(),
        Level::Baseline => forms(BASELINE).map(|(_, form)| form).collect(),
        Level::Restricted => {
            let restricted: Vec<&Form> = forms(RESTRICTED).map(|(_, form)| form).collect();
            let overridden = |id| restricted.iter().any(|form| form.overrides == Some(id));
            let baseline = forms(BASELINE).filter(|(id, _)| !overridden(*id));
            let baseline: Vec<&Form> = baseline.map(|(_, form)| form).collect();
            [baseline, restricted].concat()
        }
    }
}

/// In what a pod violates a level at a version. None: it meets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    /// Checks a pod.
    pub(super) fn new(pod: Pod<'_>, asked: LevelVersion) -> Self {
        let minor = match asked.version {
            Version::Latest => u32::MAX,
            Version::Minor(minor) => minor,
        };
        let checks = checks_of(asked.level, minor);
        Violations(checks.iter().filter_map(|form| (form.check)(pod)).collect())
    }

    /// Whether the pod is allowed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is violated, in few words.
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.iter().map(|found| found.reason.as_ref()).collect();
        reasons.join(", ")
    }

    /// What is violated, and by what.
    pub(super) fn details(&self) -> String {
        let texts: Vec<String> = self
            .0
            .iter()
            .map(|found| match found.detail.as_str() {
                "" => found.reason.to_string(),
                detail => format!("{} ({detail})", found.reason),
            })
            .collect();
        texts.join(", ")
    }
}

/// `"a", "b"`, without escapes.
fn quoted<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> String {
    let quoted: Vec<String> = texts
        .into_iter()
        .map(|text| format!("\"{}\"", text.as_ref()))
        .collect();
    quoted.join(", ")
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`.
fn named_containers(names: &[&str]) -> String {
    let noun = plural(names.len(), "container", "containers");
    format!("{noun} {}", quoted(names))
}

/// Who sets a bad value: `pod`, `container "a"` or both; `None` if nobody does.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    match (pod, containers) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, containers) => Some(named_containers(containers)),
        (true, containers) => Some(format!("pod and {}", named_containers(containers))),
    }
}

/// The security context of a container.
fn context(container: &Value) -> &Value {
    container.at("securityContext")
}
