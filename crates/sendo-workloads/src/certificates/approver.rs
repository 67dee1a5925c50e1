//! Approves the requests of nodes that may have a certificate of a client.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/certificates/approver/sarapprove.go`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use sendo::{Action, Context, Controller, Result};

use super::{NODE_CLIENT, has, is_issued, node_client_fault, parse, usages};

/// The controller that approves.
pub fn controller() -> Controller {
    Controller::new::<CertificateSigningRequest>()
        .named("certificatesigningrequest-approving-controller")
        .workers(5)
        .without_events()
        .reconcile(sync)
}

async fn sync(csr: Arc<CertificateSigningRequest>, cx: Context) -> Result<Action> {
    let is_decided = has(&csr, "Approved") || has(&csr, "Denied");
    if is_issued(&csr) || is_decided || csr.spec.signer_name != NODE_CLIENT {
        return Ok(Action::done());
    }
    let Ok(request) = parse(&csr) else {
        // It stays as it is: nothing will make it better.
        return Ok(Action::done());
    };
    if node_client_fault(&request, usages(&csr)).is_some() {
        return Ok(Action::done());
    }
    let is_own = csr.spec.username.as_deref() == request.subject.common_name();
    let own = is_own.then_some((
        "selfnodeclient",
        "Auto approving self kubelet client certificate after SubjectAccessReview.",
    ));
    let any = (
        "nodeclient",
        "Auto approving kubelet client certificate after SubjectAccessReview.",
    );
    for (subresource, message) in own.into_iter().chain([any]) {
        if may_create(&csr, subresource, &cx).await? {
            approve(&csr, message, &cx).await?;
            break;
        }
    }
    Ok(Action::done())
}

/// Whether who asks may have requests of this sort approved.
async fn may_create(
    csr: &CertificateSigningRequest,
    subresource: &str,
    cx: &Context,
) -> Result<bool> {
    let extra: Option<BTreeMap<_, _>> = csr.spec.extra.clone();
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: csr.spec.username.clone(),
            uid: csr.spec.uid.clone(),
            groups: csr.spec.groups.clone(),
            extra,
            resource_attributes: Some(ResourceAttributes {
                group: Some("certificates.k8s.io".to_owned()),
                resource: Some("certificatesigningrequests".to_owned()),
                subresource: Some(subresource.to_owned()),
                verb: Some("create".to_owned()),
                version: Some("*".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = cx.create(&review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn approve(csr: &CertificateSigningRequest, message: &str, cx: &Context) -> Result<()> {
    let mut approved = csr.clone();
    let status = approved.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    conditions.push(CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some("AutoApproved".to_owned()),
        message: Some(message.to_owned()),
        ..CertificateSigningRequestCondition::default()
    });
    let subresource = cx.client().subresource(csr, "approval")?;
    let written: Result<CertificateSigningRequest, _> = subresource.update(&approved).await;
    written?;
    Ok(())
}
