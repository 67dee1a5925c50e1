//! The levels of the pod security standards, the policies that labels of namespaces
//! ask for, and what a server applies where they are silent.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/pod-security-admission/api/helpers.go`: `PolicyToEvaluate`, `ParseLevel`,
//!   `ParseVersion`, `CompareLevels`
//! - `staging/src/k8s.io/pod-security-admission/api/constants.go`
//! - `staging/src/k8s.io/pod-security-admission/admission/api/types.go`: `PodSecurityConfiguration`

use std::fmt;

use sendo_apimachinery::Meta;
use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

/// The prefix of the labels and audit annotations about pod security.
pub(crate) const PREFIX: &str = "pod-security.kubernetes.io/";

/// How the admission plug-in PodSecurity is configured.
///
/// By default nothing is exempt, and a namespace without labels allows every pod.
#[derive(Clone, Debug, Default)]
pub struct PodSecurity {
    /// What counts for a namespace as far as its labels say nothing.
    pub defaults: Policy,
    /// Users whose pods and workloads are not checked, for example
    /// `system:serviceaccount:kube-system:job-controller`.
    pub exempt_users: Vec<String>,
    /// Namespaces that are not checked.
    pub exempt_namespaces: Vec<String>,
    /// Runtime classes whose pods are not checked.
    pub exempt_runtime_classes: Vec<String>,
}

/// What is asked of the pods of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Pods that do not meet this are refused.
    pub enforce: LevelVersion,
    /// Pods and workloads that do not meet this are noted in the audit log.
    pub audit: LevelVersion,
    /// Who creates pods or workloads that do not meet this is warned.
    pub warn: LevelVersion,
}

impl Policy {
    /// Whether nothing is asked in any mode.
    pub(crate) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn]
            .iter()
            .all(|mode| mode.level == Level::Privileged)
    }

    /// Whether this asks the same of every pod.
    pub(crate) fn is_equivalent(&self, other: &Policy) -> bool {
        let same = |a: LevelVersion, b: LevelVersion| {
            a == b || a.level == Level::Privileged && b.level == Level::Privileged
        };
        same(self.enforce, other.enforce)
            && same(self.audit, other.audit)
            && same(self.warn, other.warn)
    }

    /// The policy that the labels of `namespace` ask for, and what is wrong with them.
    ///
    /// A level that cannot be read is `restricted` where it is enforced and
    /// `privileged` elsewhere, a version `latest`.
    pub(crate) fn from_namespace(namespace: &Value, defaults: &Policy) -> (Policy, Vec<Error>) {
        let mut labels = Labels {
            meta: Meta::new(namespace),
            faults: Vec::new(),
        };
        let mut policy = *defaults;
        let enforced = labels.level("enforce");
        match enforced {
            Some(Some(level)) => policy.enforce.level = level,
            Some(None) => policy.enforce.level = Level::Restricted,
            None => {}
        }
        labels.version("enforce-version", &mut policy.enforce);
        if let Some(level) = labels.level("audit") {
            policy.audit.level = level.unwrap_or(Level::Privileged);
        }
        labels.version("audit-version", &mut policy.audit);
        let warned = labels.level("warn");
        if let Some(level) = warned {
            policy.warn.level = level.unwrap_or(Level::Privileged);
        }
        let has_version = labels.version("warn-version", &mut policy.warn);
        // What is enforced is worth a warning, for workloads too.
        let enforced = enforced.flatten();
        if warned.is_none() && enforced.is_some_and(|level| level > policy.warn.level) {
            policy.warn.level = policy.enforce.level;
            if !has_version {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, labels.faults)
    }
}

/// The labels of a namespace, and what is wrong with those that were read.
struct Labels<'a> {
    meta: Meta<'a>,
    faults: Vec<Error>,
}

impl Labels<'_> {
    /// The level of a label; the inner one is `None` if it cannot be read.
    fn level(&mut self, label: &str) -> Option<Option<Level>> {
        let key = format!("{PREFIX}{label}");
        let text = self.meta.label(&key)?;
        let level = Level::ALL.into_iter().find(|level| level.name() == text);
        if level.is_none() {
            let levels = Level::ALL.map(Level::name).join(", ");
            self.refuse(&key, text, format!("must be one of {levels}"));
        }
        Some(level)
    }

    /// Sets the version of a label, if there is one.
    fn version(&mut self, label: &str, mode: &mut LevelVersion) -> bool {
        let key = format!("{PREFIX}{label}");
        let Some(text) = self.meta.label(&key) else {
            return false;
        };
        let version = Version::parse(text);
        if version.is_none() {
            self.refuse(&key, text, "must be \"latest\" or \"v1.x\"".to_owned());
        }
        mode.version = version.unwrap_or(Version::Latest);
        true
    }

    fn refuse(&mut self, key: &str, text: &str, why: String) {
        let path = Path::new("metadata").child("labels").key(key);
        self.faults.push(Error::invalid(&path, text, why));
    }
}

/// A level at a version, as in `restricted:v1.30`. By default `privileged:latest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    /// How much is asked.
    pub level: Level,
    /// The Kubernetes release whose checks are applied.
    pub version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

/// How much is asked of a pod, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    #[default]
    Privileged,
    /// That it cannot easily get rights of its node.
    Baseline,
    /// That it is hardened as well as is known.
    Restricted,
}

impl Level {
    const ALL: [Level; 3] = [Level::Privileged, Level::Baseline, Level::Restricted];

    /// Its name in labels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// The Kubernetes release whose checks are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// That of the server.
    #[default]
    Latest,
    /// The release 1.x.
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let digits = minor.bytes().all(|byte| byte.is_ascii_digit());
        let padded = minor.len() > 1 && minor.starts_with('0');
        match digits && !padded {
            true => minor.parse().ok().map(Version::Minor),
            false => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Latest => f.write_str("latest"),
            Version::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(labels: &[(&str, &str)], defaults: &Policy) -> (String, Vec<String>) {
        let labels: serde_json::Map<String, Value> = labels
            .iter()
            .map(|(label, value)| (format!("{PREFIX}{label}"), json!(value)))
            .collect();
        let namespace = json!({"metadata": {"labels": labels}});
        let (policy, faults) = Policy::from_namespace(&namespace, defaults);
        let text = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (text, faults.iter().map(Error::to_string).collect())
    }

    #[test]
    fn labels_say_what_is_asked_in_each_mode() {
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&[], "privileged:latest privileged:latest privileged:latest"),
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.30")],
                "baseline:v1.30 privileged:latest baseline:v1.30",
            ),
            (
                &[("enforce", "restricted"), ("warn-version", "v1.9")],
                "restricted:latest privileged:latest restricted:v1.9",
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged")],
                "restricted:latest privileged:latest privileged:latest",
            ),
            (
                &[("audit", "restricted"), ("audit-version", "v1.0")],
                "privileged:latest restricted:v1.0 privileged:latest",
            ),
            (
                &[("enforce-version", "v1.30")],
                "privileged:v1.30 privileged:latest privileged:latest",
            ),
        ];
        for (labels, expected) in cases {
            let read = read(labels, &Policy::default());
            assert_eq!(read, (expected.to_owned(), vec![]), "{labels:?}");
        }
    }

    #[test]
    fn a_level_that_cannot_be_read_is_the_strictest_where_it_is_enforced() {
        let labels = [
            ("enforce", "Baseline"),
            ("audit", ""),
            ("warn-version", "v1.05"),
        ];
        let (policy, faults) = read(&labels, &Policy::default());
        assert_eq!(
            policy,
            "restricted:latest privileged:latest privileged:latest"
        );
        assert_eq!(
            faults,
            [
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"Baseline\": must be one of privileged, baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"\": must be one of privileged, baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v1.05\": must be \"latest\" or \"v1.x\"",
            ]
        );
    }

    #[test]
    fn a_stricter_default_warning_stays() {
        let restricted = LevelVersion {
            level: Level::Restricted,
            version: Version::Minor(30),
        };
        let defaults = Policy {
            warn: restricted,
            ..Policy::default()
        };
        let (policy, _) = read(&[("enforce", "baseline")], &defaults);
        assert_eq!(policy, "baseline:latest privileged:latest restricted:v1.30");
    }
}
