//! What is counted of admission: its two phases, its steps, and the webhooks among them.
//!
//! The summary of the phases (`apiserver_admission_step_admission_duration_seconds_summary`) is
//! left out: the histogram says the same.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/metrics/metrics.go`: `newAdmissionMetrics`

use std::time::Duration;

use super::page::{Description, Page};
use super::table::{Counter, Histogram, Table};

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const POLICY_SECONDS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];
const WEBHOOK_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// The phases of admission, as the label `type` names them.
pub(crate) const ADMIT: &str = "admit";
pub(crate) const VALIDATE: &str = "validate";

/// What is counted of admission.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    steps: Table<Histogram>,
    controllers: Table<Histogram>,
    webhooks: Table<Histogram>,
    webhook_requests: Table<Counter>,
    webhook_rejections: Table<Counter>,
    webhook_fail_open: Table<Counter>,
    validating_policies: Table<Histogram>,
    mutating_policies: Table<Histogram>,
    validating_checks: Table<Counter>,
    mutating_checks: Table<Counter>,
}

/// One evaluation of a policy with a binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyCheck<'a> {
    pub(crate) policy: &'a str,
    pub(crate) binding: &'a str,
    /// What is wrong; `None` if nothing is.
    pub(crate) fault: Option<&'a str>,
    /// What was done about it; empty for policies that mutate.
    pub(crate) action: &'a str,
    pub(crate) time: Duration,
}

impl PolicyCheck<'_> {
    /// The kind of fault, as Kubernetes tells it from its text.
    fn error_type(&self) -> &'static str {
        let budget = "validation failed due to running out of cost budget";
        match self.fault {
            None => "no_error",
            Some(text) if text.starts_with("compilation") => "compile_error",
            Some(text) if text.starts_with(budget) => "out_of_budget",
            Some(_) => "invalid_error",
        }
    }
}

/// What came of the call of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookResult {
    /// The request may pass.
    Allowed,
    /// The webhook refused the request with this code.
    Denied(u16),
    /// The webhook could not be called, and the request is refused.
    CallFailed(u16),
    /// The webhook could not be called, and the request may pass.
    CallIgnored(u16),
    /// The server could not do what the webhook answered.
    ServerFailed,
}

/// Codes over this one are counted as this one.
const LARGEST_CODE: u16 = 600;

fn word(is_rejected: bool) -> &'static str {
    if is_rejected { "true" } else { "false" }
}

impl Admission {
    /// Counts a phase of one request.
    pub(crate) fn step(&self, phase: &str, operation: &str, rejected: bool, time: Duration) {
        let labels = [phase, operation, word(rejected)];
        self.steps.observe(&labels, SECONDS, time);
    }

    /// Counts what one step of a phase took.
    pub(crate) fn controller(
        &self,
        name: &str,
        phase: &str,
        operation: &str,
        rejected: bool,
        time: Duration,
    ) {
        let labels = [name, phase, operation, word(rejected)];
        self.controllers.observe(&labels, SECONDS, time);
    }

    /// Counts a call of a webhook; `kind` is `admit` or `validating`.
    pub(crate) fn webhook(
        &self,
        name: &str,
        kind: &str,
        operation: &str,
        result: WebhookResult,
        time: Duration,
    ) {
        let (rejected, code, error) = match result {
            WebhookResult::Allowed => (false, 200, ""),
            WebhookResult::Denied(code) => (true, code, "no_error"),
            WebhookResult::CallFailed(code) => (true, code, "calling_webhook_error"),
            WebhookResult::CallIgnored(code) => (false, code, ""),
            WebhookResult::ServerFailed => (true, 0, "apiserver_internal_error"),
        };
        let code = code.min(LARGEST_CODE).to_string();
        let rejected = word(rejected);
        if !error.is_empty() {
            self.webhook_rejections
                .count(&[name, kind, operation, error, &code]);
        }
        if matches!(result, WebhookResult::CallIgnored(_)) {
            self.webhook_fail_open.count(&[name, kind]);
        }
        self.webhook_requests
            .count(&[name, kind, operation, &code, rejected]);
        self.webhooks
            .observe(&[name, kind, operation, rejected], WEBHOOK_SECONDS, time);
    }

    /// Counts a decision of a validating policy.
    pub(crate) fn validating_policy(&self, check: &PolicyCheck<'_>) {
        let labels = [
            check.policy,
            check.binding,
            check.error_type(),
            check.action,
        ];
        self.validating_checks.count(&labels);
        self.validating_policies
            .observe(&labels, POLICY_SECONDS, check.time);
    }

    /// Counts a mutation by a policy.
    pub(crate) fn mutating_policy(&self, check: &PolicyCheck<'_>) {
        let labels = [check.policy, check.binding, check.error_type()];
        self.mutating_checks.count(&labels);
        self.mutating_policies
            .observe(&labels, POLICY_SECONDS, check.time);
    }

    fn write_policies(&self, page: &mut Page) {
        let validating = &[
            "policy",
            "policy_binding",
            "error_type",
            "enforcement_action",
        ];
        let mutating = &["policy", "policy_binding", "error_type"];
        page.counters(
            &Description {
                name: "apiserver_validating_admission_policy_check_total",
                help: "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
                labels: validating,
            },
            &self.validating_checks,
        );
        page.histograms(
            &Description {
                name: "apiserver_validating_admission_policy_check_duration_seconds",
                help: "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
                labels: validating,
            },
            &self.validating_policies,
        );
        page.counters(
            &Description {
                name: "apiserver_mutating_admission_policy_check_total",
                help: "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.",
                labels: mutating,
            },
            &self.mutating_checks,
        );
        page.histograms(
            &Description {
                name: "apiserver_mutating_admission_policy_check_duration_seconds",
                help: "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
                labels: mutating,
            },
            &self.mutating_policies,
        );
    }

    pub(super) fn write(&self, page: &mut Page) {
        self.write_policies(page);
        page.histograms(
            &Description {
                name: "apiserver_admission_step_admission_duration_seconds",
                help: "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
                labels: &["type", "operation", "rejected"],
            },
            &self.steps,
        );
        page.histograms(
            &Description {
                name: "apiserver_admission_controller_admission_duration_seconds",
                help: "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
                labels: &["name", "type", "operation", "rejected"],
            },
            &self.controllers,
        );
        page.histograms(
            &Description {
                name: "apiserver_admission_webhook_admission_duration_seconds",
                help: "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
                labels: &["name", "type", "operation", "rejected"],
            },
            &self.webhooks,
        );
        page.counters(
            &Description {
                name: "apiserver_admission_webhook_rejection_count",
                help: "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                labels: &["name", "type", "operation", "error_type", "rejection_code"],
            },
            &self.webhook_rejections,
        );
        page.counters(
            &Description {
                name: "apiserver_admission_webhook_fail_open_count",
                help: "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).",
                labels: &["name", "type"],
            },
            &self.webhook_fail_open,
        );
        page.counters(
            &Description {
                name: "apiserver_admission_webhook_request_total",
                help: "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
                labels: &["name", "type", "operation", "code", "rejected"],
            },
            &self.webhook_requests,
        );
    }

    pub(super) fn reset(&self) {
        self.steps.clear();
        self.controllers.clear();
        self.webhooks.clear();
        self.webhook_requests.clear();
        self.webhook_rejections.clear();
        self.webhook_fail_open.clear();
        self.validating_policies.clear();
        self.mutating_policies.clear();
        self.validating_checks.clear();
        self.mutating_checks.clear();
    }
}
