//! Validation of probes and lifecycle hooks.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateLivenessProbe`, `validateReadinessProbe`,
//!   `validateStartupProbe`, `validateProbe`, `validateLifecycle`, `validateHandler`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::value::Read;

const LIFECYCLE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];
const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Validates the lifecycle hooks and the three probes of a container.
pub(super) fn hooks_and_probes(
    errors: &mut Errors,
    path: &Path,
    container: &Value,
    grace_period: Option<i64>,
) {
    lifecycle(
        errors,
        &path.child("lifecycle"),
        container.at("lifecycle"),
        grace_period,
    );
    probes(errors, path, container, grace_period);
}

fn probes(errors: &mut Errors, path: &Path, container: &Value, grace_period: Option<i64>) {
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.at(key);
        if probe.is_null() {
            continue;
        }
        let path = &path.child(key);
        self::probe(errors, path, probe, grace_period);
        if key == "readinessProbe" {
            if let Some(period) = probe.number("terminationGracePeriodSeconds") {
                let fault = "must not be set for readinessProbes";
                errors.push(Error::invalid(
                    &path.child("terminationGracePeriodSeconds"),
                    period,
                    fault,
                ));
            }
        } else if probe.count("successThreshold") != 1 {
            let threshold = probe.count("successThreshold");
            errors.push(Error::invalid(
                &path.child("successThreshold"),
                threshold,
                "must be 1",
            ));
        }
    }
}

fn probe(errors: &mut Errors, path: &Path, probe: &Value, grace_period: Option<i64>) {
    handler(errors, path, probe, &PROBE_HANDLERS, grace_period);
    let numbers = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    for key in numbers {
        check::non_negative(errors, &path.child(key), probe.count(key));
    }
    if let Some(period) = probe
        .number("terminationGracePeriodSeconds")
        .filter(|period| *period <= 0)
    {
        let path = path.child("terminationGracePeriodSeconds");
        errors.push(Error::invalid(&path, period, "must be greater than 0"));
    }
}

fn lifecycle(errors: &mut Errors, path: &Path, lifecycle: &Value, grace_period: Option<i64>) {
    for key in ["postStart", "preStop"] {
        if lifecycle.has(key) {
            handler(
                errors,
                &path.child(key),
                lifecycle.at(key),
                &LIFECYCLE_HANDLERS,
                grace_period,
            );
        }
    }
}

fn handler(
    errors: &mut Errors,
    path: &Path,
    object: &Value,
    kinds: &[&str],
    grace_period: Option<i64>,
) {
    let mut present = kinds.iter().filter(|key| object.has(key));
    match present.next() {
        None => errors.push(Error::required(path, "must specify a handler type")),
        Some(key) => action(errors, &path.child(key), key, object.at(key), grace_period),
    }
    for key in present {
        errors.push(Error::forbidden(
            &path.child(key),
            "may not specify more than 1 handler type",
        ));
    }
}

fn action(errors: &mut Errors, path: &Path, kind: &str, action: &Value, grace_period: Option<i64>) {
    match kind {
        "exec" => {
            if action.items("command").is_empty() {
                errors.push(Error::required(&path.child("command"), ""));
            }
        }
        "httpGet" => {
            check::required(errors, &path.child("path"), action.text("path"));
            check::port_number_or_name(errors, &path.child("port"), action.at("port"));
            check::one_of(
                errors,
                &path.child("scheme"),
                action.text("scheme"),
                &["HTTP", "HTTPS"],
            );
            for header in action.items("httpHeaders") {
                let name = header.text("name");
                check::faults(
                    errors,
                    &path.child("httpHeaders"),
                    name,
                    names::http_header_name(name),
                );
            }
        }
        "sleep" => {
            let seconds = action.count("seconds");
            if let Some(period) = grace_period.filter(|period| !(0..=*period).contains(&seconds)) {
                let fault = format!(
                    "must be non-negative and less than terminationGracePeriodSeconds ({period})"
                );
                errors.push(Error::invalid(path, seconds, fault));
            }
        }
        _ => check::port_number_or_name(errors, &path.child("port"), action.at("port")),
    }
}
