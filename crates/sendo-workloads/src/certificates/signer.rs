//! Signs the requests that are approved, with the cluster's authority.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/certificates/signer/signer.go`
//! - `pkg/controller/certificates/signer/config/v1alpha1/defaults.go`

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::{Action, Context, Controller, Error, Reconcile, Result};
use sendo_x509::CertificateRequest;

use super::{
    CLIENT, LEGACY, NODE_CLIENT, NODE_SERVING, has, is_issued, node_client_fault,
    node_serving_fault, parse, usages,
};

/// How long a certificate is valid at most.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long one is valid at least.
const SHORTEST: Duration = Duration::from_secs(10 * 60);

/// What is to be signed.
#[derive(Clone, Debug)]
pub struct Requested {
    /// Whom the certificate is for.
    pub request: CertificateRequest,
    /// What it may be used for, as CertificateSigningRequests name it.
    pub usages: Vec<String>,
    /// How long it is valid.
    pub lifetime: Duration,
}

type Sign = dyn Fn(Requested) -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// Signs certificates, in PEM, with the cluster's authority.
#[derive(Clone)]
pub struct CertificateSigner(Arc<Sign>);

impl CertificateSigner {
    /// A signer that calls `sign`.
    pub fn new<F>(sign: impl Fn(Requested) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        CertificateSigner(Arc::new(move |requested| Box::pin(sign(requested))))
    }
}

/// One without an authority, which signs nothing.
impl Default for CertificateSigner {
    fn default() -> Self {
        CertificateSigner::new(|_| async { Err("there is no authority to sign with".to_owned()) })
    }
}

impl fmt::Debug for CertificateSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateSigner")
    }
}

/// The controller that signs.
pub fn controller(signer: CertificateSigner) -> Controller {
    Controller::new::<CertificateSigningRequest>()
        .named("certificatesigningrequest-signing-controller")
        .workers(5)
        .without_events()
        .reconcile(Signing { signer })
}

struct Signing {
    signer: CertificateSigner,
}

impl Reconcile<CertificateSigningRequest> for Signing {
    async fn reconcile(&self, csr: Arc<CertificateSigningRequest>, cx: Context) -> Result<Action> {
        let is_ready = has(&csr, "Approved") && !has(&csr, "Denied") && !has(&csr, "Failed");
        if !is_ready || is_issued(&csr) {
            return Ok(Action::done());
        }
        let signer = csr.spec.signer_name.as_str();
        if ![CLIENT, NODE_CLIENT, NODE_SERVING, LEGACY].contains(&signer) {
            return Ok(Action::done());
        }
        let request = match parse(&csr) {
            Ok(request) => request,
            Err(error) => {
                let message = format!("unable to parse csr {:?}: {error}", csr.metadata.name);
                return Err(Error::terminal(Error::message(message)));
            }
        };
        if let Some(fault) = fault(signer, &request, usages(&csr)) {
            fail(&csr, fault, &cx).await?;
            return Ok(Action::done());
        }
        let requested = Requested {
            request,
            usages: usages(&csr).to_vec(),
            lifetime: lifetime(csr.spec.expiration_seconds),
        };
        let signed = (self.signer.0)(requested).await;
        let signed =
            signed.map_err(|error| Error::message(format!("error auto signing csr: {error}")))?;
        let written = cx.status(&csr, |status| {
            status.certificate = Some(ByteString(signed.into_bytes()));
        });
        written.await?;
        Ok(Action::done())
    }
}

/// How long a certificate is valid for which this many seconds were asked.
fn lifetime(seconds: Option<i32>) -> Duration {
    let asked = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    asked.map_or(LONGEST, |seconds| {
        Duration::from_secs(seconds).clamp(SHORTEST, LONGEST)
    })
}

/// Why the signer does not sign such a request.
fn fault(signer: &str, request: &CertificateRequest, usages: &[String]) -> Option<String> {
    match signer {
        NODE_SERVING => node_serving_fault(request, usages),
        NODE_CLIENT => node_client_fault(request, usages),
        CLIENT => client_fault(usages),
        _ => None,
    }
}

fn client_fault(usages: &[String]) -> Option<String> {
    let allowed = ["digital signature", "key encipherment", "client auth"];
    let wrong = usages
        .iter()
        .find(|usage| !allowed.contains(&usage.as_str()));
    if let Some(wrong) = wrong {
        return Some(format!("invalid usage for client certificate: {wrong}"));
    }
    let is_client = usages.iter().any(|usage| usage == "client auth");
    let missing = "missing required usage for client certificate: client auth";
    (!is_client).then(|| missing.to_owned())
}

async fn fail(csr: &Arc<CertificateSigningRequest>, fault: String, cx: &Context) -> Result<()> {
    let now = Time(cx.now());
    let written = cx.status(csr, |status| {
        let conditions = status.conditions.get_or_insert_default();
        conditions.push(CertificateSigningRequestCondition {
            type_: "Failed".to_owned(),
            status: "True".to_owned(),
            reason: Some("SignerValidationFailure".to_owned()),
            message: Some(fault),
            last_update_time: Some(now.clone()),
            last_transition_time: Some(now),
        });
    });
    written.await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_sign_and_encipher_keys_and_must_be_a_client() {
        let fault = |usages: &[&str]| {
            let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
            client_fault(&usages)
        };
        assert_eq!(fault(&["client auth", "digital signature"]), None);
        assert_eq!(
            fault(&["client auth", "server auth"]).as_deref(),
            Some("invalid usage for client certificate: server auth")
        );
        assert_eq!(
            fault(&["digital signature"]).as_deref(),
            Some("missing required usage for client certificate: client auth")
        );
    }

    #[test]
    fn certificates_are_valid_for_ten_minutes_to_a_year() {
        assert_eq!(lifetime(None), LONGEST);
        assert_eq!(lifetime(Some(5)), SHORTEST);
        assert_eq!(lifetime(Some(7200)), Duration::from_secs(7200));
        assert_eq!(lifetime(Some(i32::MAX)), LONGEST);
    }
}
