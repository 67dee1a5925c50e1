//! Which controllers a cluster runs.

use std::collections::BTreeSet;
use std::str::FromStr;

/// The scheduler's name in a choice of controllers.
pub(crate) const SCHEDULER: &str = "scheduler";

/// A choice of controllers, in the format of `kube-controller-manager --controllers`:
/// names separated by commas, `*` for all, `-name` to leave one out.
///
/// ```
/// use sendo_cluster::Controllers;
///
/// let chosen: Controllers = "*,-namespace-controller".parse().unwrap();
/// assert!(chosen.includes("replicaset-controller"));
/// assert!(!chosen.includes("namespace-controller"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(BTreeSet<&'static str>);

/// The error for a name that no controller has.
#[derive(Debug, thiserror::Error)]
#[error("there is no controller called `{name}`: choose from {}", known().collect::<Vec<_>>().join(", "))]
pub struct UnknownController {
    /// The name.
    pub name: String,
}

fn known() -> impl Iterator<Item = &'static str> {
    let workloads = sendo_workloads::CONTROLLERS.iter().map(|(name, _)| *name);
    workloads.chain([SCHEDULER])
}

impl Controllers {
    /// All of them.
    pub fn all() -> Self {
        Controllers(known().collect())
    }

    /// None of them.
    pub fn none() -> Self {
        Controllers(BTreeSet::new())
    }

    /// Whether the controller of that name is chosen.
    pub fn includes(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl FromStr for Controllers {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let mut chosen = BTreeSet::new();
        let mut left_out = BTreeSet::new();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let (set, name) = match word.strip_prefix('-') {
                Some(name) => (&mut left_out, name),
                None => (&mut chosen, word),
            };
            if name == "*" {
                set.extend(known());
                continue;
            }
            let unknown = || UnknownController {
                name: name.to_owned(),
            };
            set.insert(known().find(|known| *known == name).ok_or_else(unknown)?);
        }
        Ok(Controllers(&chosen - &left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_dash_are_left_out() {
        let parse = |text: &str| text.parse::<Controllers>().unwrap();
        assert_eq!(parse("*"), Controllers::all());
        assert_eq!(parse(""), Controllers::none());
        assert_eq!(parse("*,-*"), Controllers::none());
        assert!(parse("scheduler").includes("scheduler"));
        assert!(!parse("scheduler").includes("replicaset-controller"));
        assert!(!parse("-scheduler, *").includes("scheduler"));
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "replicasets"
            .parse::<Controllers>()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`replicasets`") && error.contains("replicaset-controller"),
            "{error}"
        );
    }
}
