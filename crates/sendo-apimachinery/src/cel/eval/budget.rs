//! What a run may spend: time, by its cost, and memory.

use super::{Fault, Machine, Result};
use crate::cel::value::{Comparison, Value};
use crate::structural::Pattern;

/// How many patterns that are not written in an expression it may compile.
const MAX_PATTERNS: usize = 1_000;
/// How many of them are kept.
const KEPT_PATTERNS: usize = 64;
/// How long a text may be that an expression makes, in bytes.
const LONGEST_TEXT: usize = 8 * 1024 * 1024;
/// How many items a list may have that an expression makes.
const LONGEST_LIST: usize = 1024 * 1024;
/// How many parts may be looked at, or copied, for one unit of cost, where the price of a call
/// does not depend on them.
const PARTS_PER_COST: u64 = 20;

impl<'a> Machine<'a> {
    /// Counts a cost, and stops if it is too much.
    pub(in crate::cel) fn spend(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(Fault::TooExpensive);
        }
        Ok(())
    }

    /// Stops before a step that would cost more than is left.
    pub(in crate::cel) fn afford(&self, cost: u64) -> Result<()> {
        if self.cost.saturating_add(cost) > self.limit {
            return Err(Fault::TooExpensive);
        }
        Ok(())
    }

    /// Counts parts that were copied or looked at beside what a call costs anyway.
    pub(in crate::cel) fn spend_parts(&mut self, parts: usize) -> Result<()> {
        self.spend(parts as u64 / PARTS_PER_COST)
    }

    /// Refuses to make a text that is larger than any budget would pay for.
    pub(in crate::cel) fn allow_text(&self, bytes: usize) -> Result<()> {
        if bytes > LONGEST_TEXT {
            return Err(Fault::TooExpensive);
        }
        Ok(())
    }

    /// Refuses to make a list that is larger than any budget would pay for.
    pub(in crate::cel) fn allow_items(&self, items: usize) -> Result<()> {
        if items > LONGEST_LIST {
            return Err(Fault::TooExpensive);
        }
        Ok(())
    }

    /// Runs something that compares values, for no more than is left to spend.
    pub(in crate::cel) fn compare<T>(
        &mut self,
        run: impl FnOnce(&mut Comparison) -> T,
    ) -> Result<T> {
        let left = self.limit.saturating_sub(self.cost).saturating_add(1);
        let mut comparison = Comparison::within(left.saturating_mul(PARTS_PER_COST));
        let result = run(&mut comparison);
        if comparison.gave_up() {
            return Err(Fault::TooExpensive);
        }
        self.spend(comparison.looked() / PARTS_PER_COST)?;
        Ok(result)
    }

    /// Whether two values are equal.
    pub(in crate::cel) fn equal(&mut self, one: &Value<'a>, other: &Value<'a>) -> Result<bool> {
        self.compare(|comparison| comparison.equal(one, other))
    }

    /// Counts what it took to decode a value.
    pub(super) fn decoded(&mut self, value: Result<Value<'a>>) -> Result<Value<'a>> {
        if let Ok(Value::Bytes(bytes)) = &value {
            self.spend_parts(bytes.len())?;
        }
        value
    }

    /// Runs something with a pattern.
    pub(in crate::cel) fn with_pattern<T>(
        &mut self,
        source: &str,
        run: impl FnOnce(&Pattern) -> T,
    ) -> Result<T, PatternFault> {
        if let Some(pattern) = self.checked.patterns.get(source) {
            return Ok(run(pattern));
        }
        if let Some(pattern) = self.patterns.get(source) {
            return Ok(run(pattern));
        }
        self.compiled += 1;
        if self.compiled > MAX_PATTERNS {
            return Err(PatternFault::TooMany);
        }
        let pattern =
            Pattern::new(source).map_err(|error| PatternFault::Invalid(error.to_string()))?;
        let result = run(&pattern);
        if self.patterns.len() >= KEPT_PATTERNS {
            self.patterns.clear();
        }
        self.patterns.insert(source.to_owned(), pattern);
        Ok(result)
    }
}

/// Why a pattern cannot be used.
#[derive(Debug)]
pub(in crate::cel) enum PatternFault {
    Invalid(String),
    TooMany,
}
