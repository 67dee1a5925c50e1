//! What is counted of conversion webhooks. A review of several objects counts once.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/metrics.go`

use std::time::Duration;

use super::page::{Description, Page};
use super::table::{Counter, Histogram, Table};

const CALL_SECONDS: &[f64] = &[
    0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0,
];
const KIND_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];

/// What is counted of conversion webhooks.
#[derive(Debug, Default)]
pub(crate) struct Conversion {
    requests: Table<Counter>,
    durations: Table<Histogram>,
    kinds: Table<Histogram>,
}

/// A call of a conversion webhook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversionCall<'a> {
    pub(crate) definition: &'a str,
    pub(crate) from_version: &'a str,
    pub(crate) to_version: &'a str,
    /// What went wrong, if anything did, in the word of Kubernetes.
    pub(crate) failure: Option<&'a str>,
    pub(crate) time: Duration,
}

impl Conversion {
    /// Counts a call.
    pub(crate) fn call(&self, call: &ConversionCall<'_>) {
        let (result, succeeded) = match call.failure {
            None => ("success", "true"),
            Some(_) => ("failure", "false"),
        };
        let labels = [result, call.failure.unwrap_or_default()];
        self.requests.count(&labels);
        self.durations.observe(&labels, CALL_SECONDS, call.time);
        let labels = [
            call.definition,
            call.from_version,
            call.to_version,
            succeeded,
        ];
        self.kinds.observe(&labels, KIND_SECONDS, call.time);
    }

    /// Writes all of it.
    pub(crate) fn write(&self, page: &mut Page) {
        let requests = Description {
            name: "apiserver_conversion_webhook_request_total",
            help: "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type",
            labels: &["result", "failure_type"],
        };
        page.counters(&requests, &self.requests);
        let durations = Description {
            name: "apiserver_conversion_webhook_duration_seconds",
            help: "[ALPHA] Conversion webhook request latency",
            labels: &["result", "failure_type"],
        };
        page.histograms(&durations, &self.durations);
        let kinds = Description {
            name: "apiserver_crd_conversion_webhook_duration_seconds",
            help: "[ALPHA] CRD webhook conversion duration in seconds",
            labels: &["crd_name", "from_version", "to_version", "succeeded"],
        };
        page.histograms(&kinds, &self.kinds);
    }

    /// Begins anew.
    pub(crate) fn reset(&self) {
        self.requests.clear();
        self.durations.clear();
        self.kinds.clear();
    }
}
