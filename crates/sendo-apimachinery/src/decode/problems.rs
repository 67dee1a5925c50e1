//! Unknown and duplicate fields, as strict field validation reports them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::go_text::go_quote;

/// The most problems that are reported of one body.
const MAX_PROBLEMS: usize = 100;

/// Fields that are unknown or there twice, in the order they are met, each reported once.
#[derive(Debug, Default)]
pub(super) struct Problems {
    /// Where the reader is.
    path: String,
    found: Vec<String>,
    seen: BTreeSet<String>,
}

impl Problems {
    /// Goes down into a member; what it returns leads back.
    pub(super) fn enter(&mut self, name: &str) -> usize {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        outer
    }

    /// Goes down into an item; what it returns leads back.
    pub(super) fn enter_item(&mut self, index: usize) -> usize {
        let outer = self.path.len();
        self.path.push('[');
        match u8::try_from(index) {
            Ok(digit @ 0..=9) => self.path.push(char::from(b'0' + digit)),
            // Text takes every write.
            _ => drop(write!(self.path, "{index}")),
        }
        self.path.push(']');
        outer
    }

    pub(super) fn leave(&mut self, outer: usize) {
        self.path.truncate(outer);
    }

    pub(super) fn unknown(&mut self, name: &str) {
        self.add("unknown", name);
    }

    pub(super) fn duplicate(&mut self, name: &str) {
        self.add("duplicate", name);
    }

    fn add(&mut self, what: &str, name: &str) {
        if self.found.len() >= MAX_PROBLEMS {
            return;
        }
        let outer = self.enter(name);
        let problem = format!("{what} field {}", go_quote(&self.path));
        self.leave(outer);
        if self.seen.insert(problem.clone()) {
            self.found.push(problem);
        }
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.found
    }
}
