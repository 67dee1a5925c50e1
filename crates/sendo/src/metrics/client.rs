//! What is counted of requests to the API server.

use super::{Counters, Registered, Registry};

pub(super) fn register(to: &mut Registered) -> Counters {
    to.own(
        "rest_client_requests_total",
        "Requests to the API server by method, host and status code",
        Counters::default(),
    )
}

/// Counts requests to the API server.
#[derive(Clone, Debug)]
pub struct ClientMetrics {
    requests: Counters,
}

impl ClientMetrics {
    /// The counters of `registry`.
    pub fn new(registry: &Registry) -> Self {
        ClientMetrics {
            requests: registry.families().requests.clone(),
        }
    }

    /// Counts a request that was answered.
    pub fn answered(&self, method: &str, host: &str, code: u16) {
        self.count(method, host, code.to_string());
    }

    /// Counts a request that was not answered.
    pub fn failed(&self, method: &str, host: &str) {
        self.count(method, host, "<error>".to_owned());
    }

    fn count(&self, method: &str, host: &str, code: String) {
        let labels = vec![
            ("code", code),
            ("host", host.to_owned()),
            ("method", method.to_owned()),
        ];
        self.requests.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;

    #[test]
    fn requests_are_told_apart_by_code_host_and_method() {
        let registry = Registry::new();
        let metrics = ClientMetrics::new(&registry);
        metrics.answered("GET", "api:443", 200);
        metrics.answered("GET", "api:443", 200);
        metrics.failed("PUT", "api:443");
        let page = registry.encode(Format::Prometheus);
        let name = "rest_client_requests_total";
        for line in [
            format!("{name}{{code=\"200\",host=\"api:443\",method=\"GET\"}} 2\n"),
            format!("{name}{{code=\"<error>\",host=\"api:443\",method=\"PUT\"}} 1\n"),
        ] {
            assert!(page.contains(&line), "{line} is not in\n{page}");
        }
    }
}
