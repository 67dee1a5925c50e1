//! What is counted of requests to the API server.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::{Counters, Histograms, Registered, Registry};

pub(super) struct Families {
    requests: Counters,
    latency: Histograms,
}

/// Seconds: from what a cache in the server answers to what nobody waits for.
const LATENCY_BUCKETS: [f64; 14] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.5, 5.0, 15.0, 30.0,
];

impl Families {
    pub(super) fn register(to: &mut Registered) -> Self {
        Families {
            requests: to.own(
                "rest_client_requests_total",
                "Requests to the API server by method, host and status code",
                Counters::default(),
            ),
            latency: to.own(
                "rest_client_request_duration_seconds",
                "How long the API server takes to answer, by method and host",
                Histograms::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            ),
        }
    }
}

/// Counts requests to one API server.
#[derive(Clone, Debug)]
pub struct ClientMetrics {
    requests: Counters,
    latency: Histograms,
    host: Arc<str>,
}

impl ClientMetrics {
    /// The counters of `registry` for the API server at `host`.
    pub fn new(registry: &Registry, host: &str) -> Self {
        let families = &registry.families().requests;
        ClientMetrics {
            requests: families.requests.clone(),
            latency: families.latency.clone(),
            host: host.into(),
        }
    }

    /// Counts a request that took `time` to be answered with `code`, or to fail without an answer.
    pub fn sent(&self, method: &str, code: Option<u16>, time: Duration) {
        let code = code.map_or("<error>".to_owned(), |code| code.to_string());
        let host = ("host", self.host.to_string());
        let method = ("method", method.to_owned());
        let labels = vec![("code", code), host.clone(), method.clone()];
        self.requests.get_or_create(&labels).inc();
        let latency = self.latency.get_or_create(&vec![host, method]);
        latency.observe(time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;

    #[test]
    fn requests_are_distinguished_by_code_host_and_method() {
        let registry = Registry::new();
        let metrics = ClientMetrics::new(&registry, "api:443");
        let time = Duration::from_millis(30);
        metrics.sent("GET", Some(200), time);
        metrics.sent("GET", Some(200), time);
        metrics.sent("PUT", None, time);
        let page = registry.encode(Format::Prometheus);
        let name = "rest_client_requests_total";
        let latency = "rest_client_request_duration_seconds_bucket";
        for line in [
            format!("{latency}{{host=\"api:443\",method=\"GET\",le=\"0.025\"}} 0\n"),
            format!("{latency}{{host=\"api:443\",method=\"GET\",le=\"0.05\"}} 2\n"),
            format!("{name}{{code=\"200\",host=\"api:443\",method=\"GET\"}} 2\n"),
            format!("{name}{{code=\"<error>\",host=\"api:443\",method=\"PUT\"}} 1\n"),
        ] {
            assert!(page.contains(&line), "{line} is not in\n{page}");
        }
    }
}
