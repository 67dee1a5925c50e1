//! What the server counts of its work, under the names that Kubernetes has for it.
//!
//! Each part of the server counts into [`Metrics`], which is below all of them; the page
//! `/metrics` is written in `pages/metrics.rs`. Counting costs a request two looks at the clock
//! and one look into a table, and allocates nothing ([`table::Table`]).
//!
//! Metrics of etcd, of the watch cache, of priority and fairness and of Go's runtime are not
//! here, because what they are about is not.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/metrics/metrics.go`
//! - `staging/src/k8s.io/apiserver/pkg/audit/metrics.go`
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/status/metrics/metrics.go`

pub(crate) mod admission;
pub(crate) mod conversion;
pub(crate) mod page;
pub(crate) mod requests;
pub(crate) mod table;

use admission::Admission;
use conversion::Conversion;
use page::{Description, Page};
use requests::Requests;
use table::{Counter, Gauge, Table};

/// What a server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Requests,
    pub(crate) admission: Admission,
    pub(crate) conversion: Conversion,
    pub(crate) audit: Audit,
    pub(crate) aggregator: Aggregator,
    /// Connections whose clients did not shake hands.
    pub(crate) tls_handshake_errors: Counter,
}

impl Metrics {
    /// Writes all of it.
    pub(crate) fn write(&self, page: &mut Page) {
        self.requests.write(page);
        self.admission.write(page);
        self.conversion.write(page);
        self.audit.write(page);
        self.aggregator.write(page);
        let handshakes = Description {
            name: "apiserver_tls_handshake_errors_total",
            help: "[ALPHA] Number of requests dropped with 'TLS handshake error from' error",
            labels: &[],
        };
        let errors = self.tls_handshake_errors.value();
        page.value("counter", &handshakes, errors as f64);
    }

    /// Begins anew with what Kubernetes resets, which are metrics with labels.
    pub(crate) fn reset(&self) {
        self.requests.reset();
        self.admission.reset();
        self.conversion.reset();
        self.audit.levels.clear();
        self.aggregator.unavailable_total.clear();
    }
}

/// What is counted of the audit log.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) events: Counter,
    /// By plugin.
    pub(crate) errors: Table<Counter>,
    /// By level.
    pub(crate) levels: Table<Counter>,
}

impl Audit {
    fn write(&self, page: &mut Page) {
        let events = Description {
            name: "apiserver_audit_event_total",
            help: "[ALPHA] Counter of audit events generated and sent to the audit backend.",
            labels: &[],
        };
        page.value("counter", &events, self.events.value() as f64);
        let rejected = Description {
            name: "apiserver_audit_requests_rejected_total",
            help: "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend.",
            labels: &[],
        };
        page.value("counter", &rejected, 0.0);
        let errors = Description {
            name: "apiserver_audit_error_total",
            help: "[ALPHA] Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.",
            labels: &["plugin"],
        };
        page.counters(&errors, &self.errors);
        let levels = Description {
            name: "apiserver_audit_level_total",
            help: "[ALPHA] Counter of policy levels for audit events (1 per request).",
            labels: &["level"],
        };
        page.counters(&levels, &self.levels);
    }
}

/// What is counted of APIServices.
#[derive(Debug, Default)]
pub(crate) struct Aggregator {
    /// Whether an APIService is unavailable, by its name.
    pub(crate) unavailable: Table<Gauge>,
    /// How often one became unavailable, by its name and the reason.
    pub(crate) unavailable_total: Table<Counter>,
}

impl Aggregator {
    fn write(&self, page: &mut Page) {
        let unavailable = Description {
            name: "aggregator_unavailable_apiservice",
            help: "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.",
            labels: &["name"],
        };
        page.gauges(&unavailable, &self.unavailable);
        let total = Description {
            name: "aggregator_unavailable_apiservice_total",
            help: "[ALPHA] Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
            labels: &["name", "reason"],
        };
        page.counters(&total, &self.unavailable_total);
    }
}
