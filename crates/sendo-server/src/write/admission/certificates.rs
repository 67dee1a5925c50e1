//! Who may approve a request for a certificate, and sign one.

use sendo_apimachinery::{Status, go_quote};
use serde_json::Value;

use crate::authorise::{self, Attributes, Subject, What};
use crate::call::Call;

const GROUP: &str = "certificates.k8s.io";

/// Approval and signature need a permission for the signer beside that for the request.
pub(super) async fn confirm_update(
    call: &Call<'_>,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    let changed = |member: &str| new["status"][member] != old["status"][member];
    let verb = match call.path.subresource.as_deref() {
        Some("approval") => "approve",
        Some("status") if changed("certificate") || changed("conditions") => "sign",
        _ => return Ok(()),
    };
    let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let asked = Attributes {
            user: &call.request.user,
            verb,
            what: What::Resource(Subject {
                group: GROUP,
                resource: "signers",
                name,
                ..Subject::default()
            }),
        };
        if authorise::judge(call.server, &asked).await?.is_allowed() {
            return Ok(());
        }
    }
    let why = format_args!(
        "user not permitted to {verb} requests with signerName {}",
        go_quote(signer)
    );
    let resource = call.resource.group_resource();
    Err(Status::forbidden(&resource, call.name(), why))
}
