//! Teams and their members, kept outside the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The members of each team, by name.
pub type Teams = BTreeMap<String, BTreeSet<String>>;

/// A directory of teams, as last read. Clones share the teams.
#[derive(Clone)]
pub struct Directory {
    ask: Arc<dyn Fn() -> std::io::Result<Teams> + Send + Sync>,
    known: Arc<Mutex<Option<Teams>>>,
}

impl Directory {
    /// A directory that is read by calling `ask`.
    pub fn new(ask: impl Fn() -> std::io::Result<Teams> + Send + Sync + 'static) -> Self {
        Directory {
            ask: Arc::new(ask),
            known: Arc::default(),
        }
    }

    /// A directory without teams.
    pub fn empty() -> Self {
        Directory::new(|| Ok(Teams::new()))
    }

    /// A directory in a file, `{"team": ["member", …], …}`, read again every time.
    pub fn file(path: PathBuf) -> Self {
        Directory::new(move || Ok(serde_json::from_slice(&std::fs::read(&path)?)?))
    }

    /// The members of a team; `None` if there is no such team, or if the
    /// directory has not been read yet.
    pub fn members(&self, team: &str) -> Option<BTreeSet<String>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref()?.get(team).cloned()
    }

    /// Reads the directory, and returns which teams have changed. If that fails, the teams stay as
    /// they were.
    pub fn refresh(&self) -> Vec<String> {
        let now = match (self.ask)() {
            Ok(now) => now,
            Err(error) => {
                tracing::warn!(%error, "the directory of teams does not answer; going on with what is known");
                return Vec::new();
            }
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.replace(now.clone()).unwrap_or_default();
        let teams: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let changed = teams
            .into_iter()
            .filter(|team| before.get(*team) != now.get(*team));
        changed.cloned().collect()
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teams(teams: &[(&str, &[&str])]) -> Teams {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        teams
            .iter()
            .map(|(team, members)| ((*team).to_owned(), owned(members)))
            .collect()
    }

    #[test]
    fn only_changed_teams_are_returned() {
        let answers = Arc::new(Mutex::new(vec![
            Ok(teams(&[("blue", &["ann", "bob"]), ("red", &["cy"])])),
            Err(std::io::Error::other("down")),
            Ok(teams(&[("blue", &["ann"]), ("red", &["cy"])])),
            Ok(teams(&[("blue", &["ann"])])),
        ]));
        let directory = Directory::new(move || answers.lock().unwrap().remove(0));
        assert_eq!(directory.members("blue"), None);
        assert_eq!(directory.refresh(), ["blue", "red"]);
        assert_eq!(directory.refresh(), [""; 0]);
        assert_eq!(directory.members("blue").unwrap().len(), 2);
        assert_eq!(directory.refresh(), ["blue"]);
        assert_eq!(directory.refresh(), ["red"]);
        assert_eq!(directory.members("red"), None);
    }
}
