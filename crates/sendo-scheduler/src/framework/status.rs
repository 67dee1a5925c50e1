//! What plugins say of a pod or of a node.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-scheduler/framework/interface.go`: `Code`, `Status`

use std::borrow::Cow;

/// Why a pod cannot run on a node, as the message about an unschedulable pod counts it.
pub type Reason = Cow<'static, str>;

/// What follows from a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It would be otherwise if other pods made way.
    Unschedulable,
    /// It would be the same if other pods made way.
    UnschedulableAndUnresolvable,
    /// Something went wrong.
    Error,
}

/// A plugin's no, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// What follows from it.
    pub code: Code,
    /// The reasons.
    pub reasons: Vec<Reason>,
    /// The plugin; set by the framework.
    pub plugin: &'static str,
}

impl Rejected {
    /// A rejection that other pods' making way would help against.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Rejected::new(Code::Unschedulable, reason)
    }

    /// A rejection that other pods' making way would not help against.
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Rejected::new(Code::UnschedulableAndUnresolvable, reason)
    }

    /// Something went wrong.
    pub fn error(reason: impl Into<Reason>) -> Self {
        Rejected::new(Code::Error, reason)
    }

    /// With one reason.
    pub fn new(code: Code, reason: impl Into<Reason>) -> Self {
        Rejected {
            code,
            reasons: vec![reason.into()],
            plugin: "",
        }
    }

    /// All reasons as one text.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }

    pub(crate) fn by(self, plugin: &'static str) -> Self {
        Rejected { plugin, ..self }
    }
}
