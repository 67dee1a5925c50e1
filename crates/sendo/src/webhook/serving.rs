//! How the webhooks of a program are reached, and what is installed for that.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::configuration::Reached;
use super::service::{Limits, Service};
use crate::certificates::Lifetimes;

/// How the webhooks that a manager declares are served. Nothing of it matters to a program
/// without any.
#[derive(Clone, Debug)]
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
    /// Where they are served, through TLS: `host:port`, or `:port` for all interfaces. `None`,
    /// the default: nowhere.
    pub address: Option<String>,
    /// Where the certificate comes from; by default the program makes its own.
    pub certificates: Certificates,
    /// The folder of the certificate, where it comes from files; [`Serving::FOLDER`] by default.
    pub certificates_dir: Option<PathBuf>,
    /// How long certificates are valid that the program makes.
    pub lifetimes: Lifetimes,
    /// A file with authorities, in PEM: who calls must show a certificate that one of them signed.
    /// `None`, the default: anybody may call who reaches the port.
    pub client_authorities: Option<PathBuf>,
    /// How long to go on serving after a stop, at most, while the Service still leads to this
    /// replica; 20 s by default.
    pub drain: Duration,
    /// The name of the pod that this is, by which it is found among the endpoints of the Service.
    /// `None`, the default: the name of the machine, which is that of the pod.
    pub pod: Option<String>,
}

impl Serving {
    /// Where the certificate is mounted by default, with `tls.crt` and `tls.key`.
    pub const FOLDER: &str = "/etc/webhook-certificates";

    pub(crate) fn certificates_dir(&self) -> PathBuf {
        let given = self.certificates_dir.clone();
        given.unwrap_or_else(|| PathBuf::from(Serving::FOLDER))
    }
}

impl Default for Serving {
    fn default() -> Self {
        Serving {
            reached: None,
            install: false,
            limits: Limits::default(),
            in_process: None,
            address: None,
            certificates: Certificates::default(),
            certificates_dir: None,
            lifetimes: Lifetimes::default(),
            client_authorities: None,
            drain: Duration::from_secs(20),
            pod: None,
        }
    }
}

/// Where the certificate of a program's webhooks comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
pub enum Certificates {
    /// The program makes an authority and certificates, keeps them in a Secret, renews them, and
    /// has the API server trust them
    #[default]
    Own,
    /// A folder has them; who mounts it sees to it that the API server trusts them
    Files,
    /// cert-manager makes them and has the API server trust them, as the printed manifests ask it to
    CertManager,
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
