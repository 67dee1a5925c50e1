//! A profile: the plugins, with weights, for the pods that name a scheduler.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/apis/config/v1/default_plugins.go`: `getDefaultPlugins`
//! - `pkg/scheduler/apis/config/types.go`: `KubeSchedulerProfile`

use std::fmt;
use std::sync::Arc;

use super::Plugin;

/// The plugins for the pods whose `spec.schedulerName` is this profile's name.
#[derive(Clone)]
pub struct Profile {
    pub(super) name: Arc<str>,
    pub(super) plugins: Vec<Weighted>,
    percentage_of_nodes_to_score: Option<u8>,
}

#[derive(Clone)]
pub(super) struct Weighted {
    pub(super) plugin: Arc<dyn Plugin>,
    pub(super) weight: i64,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("name", &self.name)
            .field("plugins", &self.plugin_names().collect::<Vec<_>>())
            .finish()
    }
}

/// The fewest nodes that are found before scoring begins, where there are so many.
const MIN_FEASIBLE_NODES: usize = 100;

/// The smallest share of the nodes, in percent, that are found before scoring begins.
const MIN_FEASIBLE_PERCENTAGE: usize = 5;

impl Profile {
    /// A profile without plugins.
    pub fn new(scheduler_name: &str) -> Self {
        Profile {
            name: scheduler_name.into(),
            plugins: Vec::new(),
            percentage_of_nodes_to_score: None,
        }
    }

    /// With a plugin after those there are.
    ///
    /// # Panics
    /// If there are 64 already.
    #[must_use]
    pub fn with(self, plugin: impl Plugin, weight: i64) -> Self {
        self.with_arc(Arc::new(plugin), weight)
    }

    /// The same for a plugin that others hold, too.
    ///
    /// # Panics
    /// If there are 64 already.
    #[must_use]
    pub fn with_arc(mut self, plugin: Arc<dyn Plugin>, weight: i64) -> Self {
        assert!(self.plugins.len() < 64, "a profile has up to 64 plugins");
        self.plugins.push(Weighted { plugin, weight });
        self
    }

    /// Without the plugin of this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.plugins.retain(|one| one.plugin.name() != name);
        self
    }

    /// How many of the nodes, in percent, are found to fit before scoring begins. By default 50
    /// less one for every 125 nodes, and at least 5; at least 100 nodes in any case.
    #[must_use]
    pub fn percentage_of_nodes_to_score(mut self, percentage: u8) -> Self {
        self.percentage_of_nodes_to_score = Some(percentage.min(100));
        self
    }

    /// The name by which pods choose it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its plugins, in order.
    pub fn plugin_names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|one| one.plugin.name())
    }

    /// Its plugins, in order.
    pub fn plugins(&self) -> impl Iterator<Item = &Arc<dyn Plugin>> {
        self.plugins.iter().map(|one| &one.plugin)
    }

    /// How many nodes are found to fit before scoring begins.
    pub(crate) fn feasible_nodes_to_find(&self, all: usize) -> usize {
        if all < MIN_FEASIBLE_NODES {
            return all;
        }
        let percentage = match self.percentage_of_nodes_to_score {
            Some(percentage) if percentage > 0 => usize::from(percentage),
            _ => 50_usize
                .saturating_sub(all / 125)
                .max(MIN_FEASIBLE_PERCENTAGE),
        };
        (all * percentage / 100).max(MIN_FEASIBLE_NODES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_nodes_some_are_enough() {
        let profile = Profile::new("p");
        let found =
            [10, 99, 100, 1000, 5000, 10_000].map(|all| profile.feasible_nodes_to_find(all));
        assert_eq!(found, [10, 99, 100, 420, 500, 500]);
        let all = profile.percentage_of_nodes_to_score(100);
        assert_eq!(all.feasible_nodes_to_find(5000), 5000);
    }
}
