//! Validation of CertificateSigningRequests, and of what each subresource may change.
//!
//! Requests and certificates are checked only as PEM blocks. Their contents are for the signer.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/certificates/validation/validation.go`: `ValidateCertificateSigningRequestCreate`,
//!   `ValidateCertificateSigningRequestUpdate`, `ValidateCertificateSigningRequestStatusUpdate`,
//!   `ValidateCertificateSigningRequestApprovalUpdate`
//! - `pkg/apis/core/validation/names.go`: `ValidateSignerName`

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use crate::kinds::check::{self, Errors};
use crate::kinds::internal;
use crate::kinds::key_pair::{self, Block};
use crate::kinds::value::Read;

/// The endpoint that an update goes through.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Endpoint {
    Main,
    Status,
    Approval,
}

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Condition types whose status can only be `True`.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

pub(super) fn create(request: &Value) -> Errors {
    validate(request, &Value::Null)
}

pub(super) fn update(new: &Value, old: &Value, endpoint: Endpoint) -> Errors {
    let mut errors = validate(new, old);
    let path = Path::new("status").child("conditions");
    let of_kind = |request: &Value, kind: &str| -> Vec<Value> {
        let conditions = request.at("status").items("conditions").iter();
        let found = conditions.filter(|condition| condition.text("type") == kind);
        found.cloned().collect()
    };
    let mut forbid = |fault: String| errors.push(Error::forbidden(&path, fault));
    for kind in FINAL {
        if of_kind(new, kind).len() < of_kind(old, kind).len() {
            forbid(format!(
                "updates may not remove a condition of type {kind:?}"
            ));
        }
    }
    for kind in ["Approved", "Denied"] {
        let (new, old) = (of_kind(new, kind), of_kind(old, kind));
        if endpoint == Endpoint::Approval || new.len() < old.len() || new == old {
            continue;
        }
        if new.len() > old.len() {
            forbid(format!("updates may not add a condition of type {kind:?}"));
        } else {
            let kind = "[CertificateSigningRequestCondition";
            let diff = internal::difference(kind, &old.into(), &new.into());
            forbid(format!(
                "updates may not modify a condition of type {kind:?}\n{diff}"
            ));
        }
    }
    let certificate = |request: &Value| request.at("status").text("certificate").to_owned();
    if certificate(new) != certificate(old) {
        let path = Path::new("status").child("certificate");
        if endpoint != Endpoint::Status {
            let fault = "updates may not set certificate content";
            errors.push(Error::forbidden(&path, fault));
        } else if !certificate(old).is_empty() {
            let fault = "updates may not modify existing certificate content";
            errors.push(Error::forbidden(&path, fault));
        }
    }
    errors.extend(check::changed_metadata(new, old));
    errors
}

/// Validates a request. Faults that `old` already has are tolerated.
fn validate(request: &Value, old: &Value) -> Errors {
    let mut errors = check::new_metadata(request, Scope::Cluster, |_| Vec::new());
    let (spec, path) = (request.at("spec"), Path::new("spec"));
    let encoded = spec.text("request");
    let blocks = pem_blocks(encoded);
    if blocks
        .first()
        .is_none_or(|block| block.label != "CERTIFICATE REQUEST")
    {
        let fault = "PEM block type must be CERTIFICATE REQUEST";
        let shown = spec.at("request").clone();
        errors.push(Error::invalid(&path.child("request"), shown, fault));
    }
    usages(&mut errors, &path.child("usages"), spec, old.at("spec"));
    let (signer, signer_path) = (spec.text("signerName"), path.child("signerName"));
    if signer == LEGACY_SIGNER && old.at("spec").text("signerName") != LEGACY_SIGNER {
        let fault = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid(&signer_path, signer, fault));
    } else {
        signer_name(&mut errors, &signer_path, signer);
    }
    if let Some(seconds) = spec.number("expirationSeconds").filter(|s| *s < 600) {
        let fault = "may not specify a duration less than 600 seconds (10 minutes)";
        let path = path.child("expirationSeconds");
        errors.push(Error::invalid(&path, seconds, fault));
    }
    conditions(&mut errors, request.at("status"), old.at("status"));
    let certificate = request.at("status").text("certificate");
    let old_certificate = old.at("status").text("certificate");
    let was_wrong = certificate_fault(old_certificate).is_some();
    if certificate != old_certificate
        && !was_wrong
        && let Some(fault) = certificate_fault(certificate)
    {
        let path = Path::new("status").child("certificate");
        errors.push(Error::invalid(&path, "<certificate data>", fault));
    }
    errors
}

fn usages(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) {
    let all =
        |spec: &Value| -> Vec<String> { check::texts(spec, "usages").map(str::to_owned).collect() };
    let (used, before) = (all(spec), all(old));
    let is_known = |usage: &String| USAGES.contains(&usage.as_str());
    let is_repeated = |used: &[String], i: usize| used[..i].contains(&used[i]);
    if used.is_empty() {
        errors.push(Error::required(path, ""));
    }
    if before.iter().all(is_known) {
        for (i, usage) in used.iter().enumerate() {
            check::one_of(errors, &path.index(i), usage, &USAGES);
        }
    }
    if !(0..before.len()).any(|i| is_repeated(&before, i)) {
        for i in (0..used.len()).filter(|i| is_repeated(&used, *i)) {
            errors.push(Error::duplicate(&path.index(i), used[i].clone()));
        }
    }
}

/// Validates a signer name: a domain, a slash, and a path of labels.
pub(super) fn signer_name(errors: &mut Errors, path: &Path, name: &str) {
    const MAX: usize = 253 + 1 + 253 + 63 + 1;
    if name.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let parts = name.split_once('/').filter(|(_, rest)| !rest.contains('/'));
    let Some((domain, rest)) = parts else {
        let fault =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(Error::invalid(path, name, fault));
        return;
    };
    if domain.len() > 253 {
        errors.push(Error::too_long(path, 253));
    }
    labels(errors, path, domain, names::dns1123_label);
    if !domain.contains('.') {
        let fault = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(path, domain, fault));
    }
    labels(errors, path, rest, names::dns1123_subdomain);
    if name.len() > MAX {
        errors.push(Error::too_long(path, MAX));
    }
}

/// Reports only the first invalid label: the errors of others would have the same text.
fn labels(errors: &mut Errors, path: &Path, text: &str, check: names::Check) {
    let faults = text.split('.').map(|label| (label, check(label)));
    if let Some((label, faults)) = faults.into_iter().find(|(_, faults)| !faults.is_empty()) {
        for fault in faults {
            let fault = format!("validating label {label:?}: {fault}");
            errors.push(Error::invalid(path, text, fault));
        }
    }
}

fn conditions(errors: &mut Errors, status: &Value, old: &Value) {
    let path = Path::new("status").child("conditions");
    let kinds = |status: &Value| -> Vec<String> {
        let conditions = status.items("conditions").iter();
        conditions
            .map(|condition| condition.text("type").to_owned())
            .collect()
    };
    let before = kinds(old);
    let had = |kind: &str| before.iter().any(|before| before == kind);
    let was_both = had("Approved") && had("Denied");
    let was_repeated = (0..before.len()).any(|i| before[..i].contains(&before[i]));
    let mut seen: Vec<&str> = Vec::new();
    for (i, condition) in status.items("conditions").iter().enumerate() {
        let (kind, path_of) = (condition.text("type"), path.index(i));
        if kind.is_empty() && !had("") {
            errors.push(Error::required(&path_of.child("type"), ""));
        }
        let states: &[&str] = match FINAL.contains(&kind) {
            true => &["True"],
            false => &["False", "True", "Unknown"],
        };
        let state = condition.text("status");
        check::required_one_of(errors, &path_of.child("status"), state, states);
        let opposite = match kind {
            "Approved" => Some("Denied"),
            "Denied" => Some("Approved"),
            _ => None,
        };
        if !was_both && opposite.is_some_and(|opposite| seen.contains(&opposite)) {
            let fault = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid(&path, kind, fault));
        }
        if !was_repeated && seen.contains(&kind) {
            errors.push(Error::duplicate(&path_of.child("type"), kind));
        }
        seen.push(kind);
    }
}

fn certificate_fault(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return None;
    }
    let blocks = pem_blocks(encoded);
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            let label = &block.label;
            return Some(format!(
                "only CERTIFICATE PEM blocks are allowed, found {label:?}"
            ));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
    }
    let fault = "must contain at least one CERTIFICATE PEM block";
    blocks.is_empty().then(|| fault.to_owned())
}

/// The PEM blocks of a base64 text.
fn pem_blocks(encoded: &str) -> Vec<Block> {
    key_pair::blocks(&BASE64_STANDARD.decode(encoded).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pem(label: &str) -> String {
        BASE64_STANDARD.encode(format!(
            "-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n"
        ))
    }

    fn request(status: Value) -> Value {
        json!({
            "metadata": {"name": "r", "resourceVersion": "1"},
            "spec": {"request": pem("CERTIFICATE REQUEST"), "usages": ["client auth"],
                     "signerName": "example.com/signer"},
            "status": status,
        })
    }

    fn texts(errors: &Errors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_is_in_its_envelope() {
        let mut request = request(json!({}));
        assert_eq!(create(&request), []);
        request["spec"]["request"] = pem("CERTIFICATE").into();
        request["spec"]["usages"] = json!(["any", "any"]);
        let found = texts(&create(&request));
        assert!(found[0].ends_with("PEM block type must be CERTIFICATE REQUEST"));
        assert_eq!(found[1], "spec.usages[1]: Duplicate value: \"any\"");
    }

    #[test]
    fn each_way_changes_its_own_part() {
        let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        let signed = json!({"certificate": pem("CERTIFICATE")});
        let (old, approved, signed) = (request(json!({})), request(approved), request(signed));
        let approve =
            "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"";
        let sign = "status.certificate: Forbidden: updates may not set certificate content";
        for (new, through, expected) in [
            (&approved, Endpoint::Approval, None),
            (&approved, Endpoint::Status, Some(approve)),
            (&signed, Endpoint::Status, None),
            (&signed, Endpoint::Approval, Some(sign)),
        ] {
            assert_eq!(texts(&update(new, &old, through)), Vec::from_iter(expected));
        }
    }

    #[test]
    fn signers_have_a_domain_and_a_path() {
        for (name, count) in [
            ("example.com/a", 0),
            ("example.com/a.b", 0),
            ("", 1),
            ("example.com", 1),
            ("example/a", 1),
            ("Example.com/a", 1),
        ] {
            let mut errors = Vec::new();
            signer_name(&mut errors, &Path::new("s"), name);
            assert_eq!(errors.len(), count, "{name}: {errors:?}");
        }
    }
}
