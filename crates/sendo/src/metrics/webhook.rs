//! What a webhook counts.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use sendo_world::Timestamp;

use super::{Counters, Gauges, Histograms, Registered, Registry};

/// Seconds, as Go's Prometheus client divides them by default.
const LATENCY_BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

pub(super) struct Families {
    requests: Counters,
    in_flight: Gauges,
    latency: Histograms,
    panics: Counter,
    conversion_panics: Counter,
    certificate_reads: Counter,
    certificate_errors: Counter,
    certificate_expires: Gauge,
}

impl Families {
    pub(super) fn register(to: &mut Registered) -> Self {
        let name = |tail: &str| format!("controller_runtime_{tail}");
        Families {
            requests: to.own(
                &name("webhook_requests_total"),
                "Admission requests by the HTTP status they were answered with",
                Counters::default(),
            ),
            in_flight: to.own(
                &name("webhook_requests_in_flight"),
                "Admission requests that are being handled",
                Gauges::default(),
            ),
            latency: to.own(
                &name("webhook_latency_seconds"),
                "How long admission requests take",
                Histograms::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            ),
            panics: to.own(
                &name("webhook_panics_total"),
                "Webhooks that panicked",
                Counter::default(),
            ),
            conversion_panics: to.own(
                &name("conversion_webhook_panics_total"),
                "Conversions that panicked",
                Counter::default(),
            ),
            certificate_reads: to.own(
                "certwatcher_read_certificate_total",
                "Reads of the files of the webhooks' certificate",
                Counter::default(),
            ),
            certificate_errors: to.own(
                "certwatcher_read_certificate_errors_total",
                "Reads of the files of the webhooks' certificate that failed",
                Counter::default(),
            ),
            certificate_expires: to.own(
                "sendo_webhook_certificate_expiration_timestamp_seconds",
                "When the certificate expires that webhooks are served with",
                Gauge::default(),
            ),
        }
    }
}

/// The metrics of one webhook, told apart by its path.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    path: String,
    requests: Counters,
    in_flight: Gauge,
    latency: Histogram,
    panics: Counter,
}

impl WebhookMetrics {
    /// The metrics of the admission webhook at `path`.
    pub fn new(registry: &Registry, path: &str) -> Self {
        let panics = registry.families().webhook.panics.clone();
        WebhookMetrics::counting(registry, path, panics)
    }

    /// The metrics of conversions at `path`.
    pub fn of_conversions(registry: &Registry, path: &str) -> Self {
        let panics = registry.families().webhook.conversion_panics.clone();
        WebhookMetrics::counting(registry, path, panics)
    }

    fn counting(registry: &Registry, path: &str, panics: Counter) -> Self {
        let families = &registry.families().webhook;
        let labels = vec![("webhook", path.to_owned())];
        let metrics = WebhookMetrics {
            path: path.to_owned(),
            requests: families.requests.clone(),
            in_flight: families.in_flight.get_or_create_owned(&labels),
            latency: families.latency.get_or_create_owned(&labels),
            panics,
        };
        // There, at zero, from the start, as dashboards expect.
        for code in [200, 500] {
            metrics.requests(code);
        }
        metrics
    }

    fn requests(&self, code: u16) -> Counter {
        let labels = vec![("code", code.to_string()), ("webhook", self.path.clone())];
        self.requests.get_or_create_owned(&labels)
    }

    /// Counts a request as under way until the returned value is dropped.
    pub fn active(&self) -> ActiveReview {
        self.in_flight.inc();
        ActiveReview(self.in_flight.clone())
    }

    /// Counts a request that was answered with this HTTP status.
    pub fn answered(&self, code: u16, took: Duration) {
        self.requests(code).inc();
        self.latency.observe(took.as_secs_f64());
    }

    /// Counts a panic, beside the failure it is.
    pub fn panicked(&self) {
        self.panics.inc();
    }
}

/// The metrics of the certificate that webhooks are served with.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    reads: Counter,
    errors: Counter,
    expires: Gauge,
}

impl CertificateMetrics {
    /// The metrics of the program's only such certificate.
    pub fn new(registry: &Registry) -> Self {
        let families = &registry.families().webhook;
        CertificateMetrics {
            reads: families.certificate_reads.clone(),
            errors: families.certificate_errors.clone(),
            expires: families.certificate_expires.clone(),
        }
    }

    /// Counts a read of its files.
    pub fn read(&self) {
        self.reads.inc();
    }

    /// Counts a read that failed.
    pub fn failed(&self) {
        self.errors.inc();
    }

    /// Notes when the certificate expires.
    pub fn expires(&self, at: Timestamp) {
        self.expires.set(at.as_second());
    }
}

/// A request under way; see [`WebhookMetrics::active`].
#[derive(Debug)]
pub struct ActiveReview(Gauge);

impl Drop for ActiveReview {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;

    #[test]
    fn every_answer_is_counted_where_dashboards_look_for_it() {
        let registry = Registry::new();
        let metrics = WebhookMetrics::new(&registry, "/validate-v1-pod");
        let active = metrics.active();
        metrics.answered(200, Duration::from_millis(7));
        metrics.panicked();
        WebhookMetrics::of_conversions(&registry, "/convert").panicked();
        let page = registry.encode(Format::Prometheus);
        for line in [
            "webhook_requests_total{code=\"200\",webhook=\"/validate-v1-pod\"} 1",
            "webhook_requests_total{code=\"500\",webhook=\"/validate-v1-pod\"} 0",
            "webhook_requests_in_flight{webhook=\"/validate-v1-pod\"} 1",
            "webhook_latency_seconds_bucket{webhook=\"/validate-v1-pod\",le=\"0.01\"} 1",
            "webhook_panics_total 1",
            "conversion_webhook_panics_total 1",
        ] {
            let line = format!("controller_runtime_{line}\n");
            assert!(page.contains(&line), "{line} is not in\n{page}");
        }
        drop(active);
    }
}
