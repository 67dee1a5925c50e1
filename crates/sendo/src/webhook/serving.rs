//! How the webhooks of a program are reached, and what is installed for that.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::configuration::Reached;
use super::service::{Limits, Service};

/// How the webhooks that a manager declares are served. Nothing of it matters to a program
/// without any.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// Where the API server finds them. `None`, the default: by the Service
    /// `<program>-webhooks` in the namespace that the client has for its own.
    pub reached: Option<Reached>,
    /// Whether their configurations are installed or brought up to date when the program starts.
    /// Not by default: it takes permissions that a program should not have in production.
    pub install: bool,
    /// The limits of reviews.
    pub limits: Limits,
    /// An API server in this process that calls them without a socket.
    pub in_process: Option<InProcess>,
}

/// An API server in the same process. It is given the host and port under which it would look
/// for the webhooks, and calls them as long as what it returns is kept.
#[derive(Clone)]
pub struct InProcess(Arc<Register>);

type Register = dyn Fn(&str, u16, Service) -> Box<dyn Any + Send + Sync> + Send + Sync;

impl InProcess {
    /// By a function that registers the webhooks, and unregisters them when what it returns is
    /// dropped.
    pub fn new(
        register: impl Fn(&str, u16, Service) -> Box<dyn Any + Send + Sync> + Send + Sync + 'static,
    ) -> Self {
        InProcess(Arc::new(register))
    }

    pub(crate) fn register(
        &self,
        reached: &Reached,
        service: Service,
    ) -> Box<dyn Any + Send + Sync> {
        (self.0)(&reached.host(), reached.port(), service)
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}
