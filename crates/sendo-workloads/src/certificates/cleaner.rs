//! Deletes CertificateSigningRequests that are old.
//!
//! Kubernetes looks once in an hour; here each request has a timer.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/certificates/cleaner/cleaner.go`

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use sendo::{Action, Context, Controller, Result, Timestamp};
use sendo_x509::Certificate;

use super::is_issued;

/// How long a request stays that was decided about.
const DECIDED: Duration = Duration::from_secs(60 * 60);
/// How long one stays that waits.
const WAITING: Duration = Duration::from_secs(24 * 60 * 60);

/// The controller that deletes requests.
pub fn controller() -> Controller {
    Controller::new::<CertificateSigningRequest>()
        .named("certificatesigningrequest-cleaner-controller")
        .without_events()
        .reconcile(sync)
}

async fn sync(csr: Arc<CertificateSigningRequest>, cx: Context) -> Result<Action> {
    let Some(due) = due(&csr) else {
        return Ok(Action::done());
    };
    let left = Duration::try_from(due.duration_since(cx.now())).unwrap_or_default();
    if !left.is_zero() {
        return Ok(Action::after(left));
    }
    match cx.delete(&*csr).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// When the request is to be deleted.
fn due(csr: &CertificateSigningRequest) -> Option<Timestamp> {
    let status = csr.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    if conditions.is_empty() {
        let created = csr.metadata.creation_timestamp.as_ref()?;
        return Some(created.0 + WAITING);
    }
    let of_conditions = conditions.iter().filter_map(|condition| {
        let since = condition.last_update_time.as_ref()?.0;
        match condition.type_.as_str() {
            "Denied" | "Failed" => Some(since + DECIDED),
            "Approved" if is_issued(csr) => Some(since + DECIDED),
            "Approved" => Some(since + WAITING),
            _ => None,
        }
    });
    of_conditions.chain(expiry(csr)).min()
}

/// When the certificate that was issued is not valid any more.
fn expiry(csr: &CertificateSigningRequest) -> Option<Timestamp> {
    let certificate = csr.status.as_ref()?.certificate.as_ref()?;
    let block = sendo_x509::pem_block(&String::from_utf8_lossy(&certificate.0))?;
    Some(Certificate::from_der(&block.content)?.not_after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn requests_stay_for_a_day_and_decided_ones_for_an_hour() {
        let due = |status: Value| {
            let csr = json!({
                "metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"request": "", "signerName": "example.dev/s"},
                "status": status,
            });
            let csr = serde_json::from_value(csr).expect("a request");
            due(&csr).map(|due| due.to_string())
        };
        let decided = |type_: &str| json!([{"type": type_, "status": "True", "lastUpdateTime": "2026-01-01T06:00:00Z"}]);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(due(json!({})), some("2026-01-02T00:00:00Z"));
        for type_ in ["Denied", "Failed"] {
            let conditions = decided(type_);
            assert_eq!(
                due(json!({"conditions": conditions})),
                some("2026-01-01T07:00:00Z")
            );
        }
        let approved = decided("Approved");
        assert_eq!(
            due(json!({"conditions": approved})),
            some("2026-01-02T06:00:00Z")
        );
        let issued = json!({"conditions": approved, "certificate": "AAAA"});
        assert_eq!(due(issued), some("2026-01-01T07:00:00Z"));
    }
}
