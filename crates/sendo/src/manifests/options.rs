//! What of a deployment can be chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Catalog, InvalidOption};
use crate::cache::Namespaces;
use crate::manager::Manager;
use crate::webhook::Certificates;

/// The most characters of a label's value, of a namespace and of the name of a Service
/// (apimachinery, util/validation: `DNS1123LabelMaxLength`).
const LONGEST_LABEL: usize = 63;

/// The longest ending of a name that is made of the program's own.
const ENDING: usize = "-metrics-reader".len();

/// What of a program's deployment can be chosen. The defaults are those of [`Options::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The name of the Deployment, the account and the roles; that of the program by default.
    pub name: String,
    /// The namespace it runs in; the program's name with `-system` by default.
    pub namespace: String,
    /// The image; the program's name and version by default.
    pub image: String,
    /// How many replicas run; 1 by default.
    pub replicas: u32,
    /// How the webhooks get their certificates.
    pub certificates: Certificates,
    /// What is printed beside what every deployment has.
    pub extras: BTreeSet<Extra>,
    /// The namespaces that the program watches: rights are confined to them. All by default.
    pub namespaces: Namespaces,
    /// Whether it installs its own kinds, for which it needs the rights. Not by default.
    pub install_kinds: bool,
    /// More arguments of the program.
    pub arguments: Vec<String>,
    /// Environment variables of its container.
    pub environment: BTreeMap<String, String>,
    /// How long its pods have to end before they are killed, from the program's own limits.
    pub grace_period: Duration,
    /// What a catalog of operators shows of it: for a bundle alone.
    pub catalog: Catalog,
}

/// What is printed only when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
pub enum Extra {
    /// A NetworkPolicy: only metrics and webhooks can be reached.
    NetworkPolicy,
    /// A ServiceMonitor, by which the Prometheus operator finds the metrics.
    ServiceMonitor,
    /// A dashboard of the program's metrics for Grafana.
    Dashboard,
}

impl Options {
    /// The defaults for a program.
    pub fn new(manager: &Manager) -> Self {
        let version = manager.version.as_deref().unwrap_or("latest");
        Options {
            name: manager.name.clone(),
            namespace: format!("{}-system", manager.name),
            image: format!("{}:{version}", manager.name),
            replicas: 1,
            certificates: Certificates::default(),
            extras: BTreeSet::new(),
            namespaces: Namespaces::default(),
            install_kinds: false,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            grace_period: crate::manager::longest_stop(
                Duration::from_secs(30),
                Duration::from_secs(15),
            ),
            catalog: Catalog::default(),
        }
    }

    /// What the API server would refuse.
    pub(super) fn check(&self) -> Result<(), InvalidOption> {
        let longest = LONGEST_LABEL - ENDING;
        check_label("name", &self.name, longest)?;
        check_label("namespace", &self.namespace, LONGEST_LABEL)?;
        if let Namespaces::Only(these) = &self.namespaces {
            for namespace in these {
                check_label("namespaces", namespace, LONGEST_LABEL)?;
            }
        }
        if self.image.is_empty()
            || self
                .image
                .contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(InvalidOption(format!(
                "--image {:?} is no image, such as `registry.example/bar:1.2`",
                self.image
            )));
        }
        if i32::try_from(self.replicas).is_err() {
            return Err(InvalidOption(format!(
                "--replicas {} are more than a Deployment can have",
                self.replicas
            )));
        }
        for variable in self.environment.keys() {
            if variable.is_empty() || variable.contains(|c: char| c == '=' || c.is_control()) {
                return Err(InvalidOption(format!(
                    "--env {variable:?} is no name of an environment variable"
                )));
            }
        }
        Ok(())
    }
}

/// Whether it is a name of small letters, digits and `-`, which begins and ends with one of the
/// former (apimachinery, util/validation: `IsDNS1123Label`).
fn check_label(flag: &str, name: &str, longest: usize) -> Result<(), InvalidOption> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = !name.is_empty()
        && name.chars().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !is_label {
        return Err(InvalidOption(format!(
            "--{flag} {name:?} is no name in Kubernetes: use small letters, digits and `-`, as in `bar-system`"
        )));
    }
    if name.len() > longest {
        return Err(InvalidOption(format!(
            "--{flag} {name} has {} characters, and may have {longest}",
            name.len()
        )));
    }
    Ok(())
}
