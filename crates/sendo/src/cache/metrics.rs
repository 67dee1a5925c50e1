//! The figures of a cache, read at every scrape.

use super::{Cache, Figures};
use crate::metrics::{InformerFigures, Registry};

impl Registry {
    /// Shows what `cache` holds and how its watches are doing, by kind, until it is dropped.
    pub fn follow_cache(&self, cache: &Cache) {
        let figures = cache.figures();
        self.follow_informers(move || Some(figures()?.iter().map(of_informer).collect()));
    }
}

fn of_informer(figures: &Figures) -> InformerFigures {
    let state = &figures.state;
    let scopes = state.selection.scopes().len() as u64;
    InformerFigures {
        kind: state.kind.to_string(),
        objects: state.objects as u64,
        bytes: figures.bytes,
        lists: state.lists,
        // Each scope's first watch is no restart.
        restarts: state.watches.saturating_sub(scopes),
        failing: state.failures.len() as u64,
        lag: figures.lag.unwrap_or_default(),
    }
}
