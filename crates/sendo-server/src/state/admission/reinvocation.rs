//! What steps that call others to mutate keep from one call to the next.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/reinvocation.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/reinvocationcontext.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go`

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use sendo_apimachinery::Meta;
use serde_json::Value;

/// Whether all that mutates is asked a second time, and what of a step that calls others
/// (policies, webhooks) is called then.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    is_second: bool,
    /// The field managers before the first step that calls others; `None` if there was none.
    managers: Option<Option<Value>>,
    steps: BTreeMap<&'static str, Called>,
}

/// What one step has called, by keys of its own.
#[derive(Debug, Default)]
struct Called {
    /// The object when the step was last done with it.
    output: Option<Value>,
    /// What was called and may be called again.
    before: BTreeSet<String>,
    /// What is called again.
    again: BTreeSet<String>,
}

impl Called {
    fn repeat(&mut self) {
        self.again.append(&mut self.before);
    }
}

impl Reinvocation {
    /// Begins the second round, if a step wants one.
    pub(super) fn begin_second(&self) -> bool {
        let mut state = self.0.lock();
        state.is_second = state.is_wanted;
        state.is_second
    }

    /// The field managers as they were before anything was called; `None` if nothing was.
    pub(super) fn take_managers(&self) -> Option<Option<Value>> {
        self.0.lock().managers.take()
    }

    /// Whether this is the second round.
    pub(crate) fn is_second(&self) -> bool {
        self.0.lock().is_second
    }

    /// Begins a step. In the second round, what it called before is called again if the
    /// object is not as it left it.
    pub(crate) fn begin_step(&self, step: &'static str, object: &Value) {
        let mut state = self.0.lock();
        let is_second = state.is_second;
        state
            .managers
            .get_or_insert_with(|| Meta::new(object).get("managedFields").cloned());
        let called = state.steps.entry(step).or_default();
        if is_second && called.output.as_ref() != Some(object) {
            called.repeat();
        }
    }

    /// Ends a step with the object it leaves.
    pub(crate) fn end_step(&self, step: &'static str, object: &Value) {
        let mut state = self.0.lock();
        state.steps.entry(step).or_default().output = Some(object.clone());
    }

    /// Whether something is called in this round.
    pub(crate) fn is_called(&self, step: &'static str, key: &str) -> bool {
        let state = self.0.lock();
        let again = |called: &Called| called.again.contains(key);
        !state.is_second || state.steps.get(step).is_some_and(again)
    }

    /// Notes that something changed the object: there is a second round, in which what the
    /// step called before is called again.
    pub(crate) fn note_change(&self, step: &'static str) {
        let mut state = self.0.lock();
        state.is_wanted = true;
        state.steps.entry(step).or_default().repeat();
    }

    /// Notes that something was called that may be called again.
    pub(crate) fn note_repeatable(&self, step: &'static str, key: &str) {
        let mut state = self.0.lock();
        let called = state.steps.entry(step).or_default();
        called.before.insert(key.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_came_before_a_change_is_called_again() {
        let reinvocation = Reinvocation::default();
        let object = json!({});
        reinvocation.begin_step("p", &object);
        reinvocation.note_repeatable("p", "a");
        reinvocation.note_change("p");
        reinvocation.note_repeatable("p", "b");
        reinvocation.end_step("p", &object);
        assert!(reinvocation.begin_second());
        reinvocation.begin_step("p", &object);
        assert!(reinvocation.is_called("p", "a"));
        assert!(!reinvocation.is_called("p", "b"));
        assert!(!reinvocation.is_called("q", "a"));
    }

    #[test]
    fn a_change_by_others_calls_everything_again() {
        let reinvocation = Reinvocation::default();
        reinvocation.begin_step("p", &json!({}));
        reinvocation.note_repeatable("p", "a");
        reinvocation.end_step("p", &json!({}));
        assert!(!reinvocation.begin_second(), "nothing has changed");
        reinvocation.note_change("q");
        assert!(reinvocation.begin_second());
        reinvocation.begin_step("p", &json!({"x": 1}));
        assert!(reinvocation.is_called("p", "a"));
    }
}
