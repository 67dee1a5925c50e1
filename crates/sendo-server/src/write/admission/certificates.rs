//! CertificateApproval and CertificateSigning: to approve a request for a certificate,
//! or to sign one, takes a permission for its signer beside that for the request. The signer is
//! that of the stored request, whatever a writer makes of it.
//!
//! CertificateSubjectRestriction: nobody asks for a client certificate of the group that may do
//! everything.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/certificates/approval/admission.go`: `Validate`
//! - `plugin/pkg/admission/certificates/signing/admission.go`: `Validate`
//! - `plugin/pkg/admission/certificates/subjectrestriction/admission.go`: `Validate`
//! - `plugin/pkg/admission/certificates/util.go`: `IsAuthorizedForSignerName`

use std::future;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sendo_apimachinery::{Status, go_quote};
use sendo_x509::CertificateRequest;
use serde_json::Value;

use super::{Attributes, Operation, Plugin};
use crate::access::authorise::{self, Requested, ResourceAttributes};
use crate::kinds::key_pair;

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";

pub(super) const CERTIFICATE_APPROVAL: Plugin = Plugin {
    name: "CertificateApproval",
    handles: |attributes| {
        attributes.operation == Operation::Update && attributes.is_of(GROUP, PLURAL, "approval")
    },
    mutate: None,
    validate: Some(|attributes, request, _| Box::pin(demand(attributes, request, "approve"))),
};

pub(super) const CERTIFICATE_SIGNING: Plugin = Plugin {
    name: "CertificateSigning",
    handles: |attributes| {
        attributes.operation == Operation::Update && attributes.is_of(GROUP, PLURAL, "status")
    },
    mutate: None,
    validate: Some(|attributes, request, _| Box::pin(validate_signing(attributes, request))),
};

pub(super) const CERTIFICATE_SUBJECT_RESTRICTION: Plugin = Plugin {
    name: "CertificateSubjectRestriction",
    handles: |attributes| {
        attributes.operation == Operation::Create && attributes.is_of(GROUP, PLURAL, "")
    },
    mutate: None,
    validate: Some(|attributes, request, _| {
        Box::pin(future::ready(restrict_subject(attributes, request)))
    }),
};

/// The signer of certificates of users of this server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group that may do everything.
const MASTERS: &str = "system:masters";

fn restrict_subject(attributes: &Attributes<'_>, request: &Value) -> Result<(), Status> {
    let spec = &request["spec"];
    if spec["signerName"] != CLIENT_SIGNER {
        return Ok(());
    }
    let parsed = requested(spec).map_err(|fault| {
        attributes.forbid(request, format_args!("failed to parse CSR: {fault}"))
    })?;
    if !parsed.subject.organizations().any(|group| group == MASTERS) {
        return Ok(());
    }
    let why = format_args!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
    Err(attributes.forbid(request, why))
}

async fn validate_signing(attributes: &Attributes<'_>, new: &Value) -> Result<(), Status> {
    let Some(old) = attributes.old else {
        return Ok(());
    };
    let changed = |member: &str| new["status"][member] != old["status"][member];
    if !changed("certificate") && !changed("conditions") {
        return Ok(());
    }
    demand(attributes, new, "sign").await
}

/// Refuses who has no permission for the signer or for all of its domain.
async fn demand(attributes: &Attributes<'_>, new: &Value, verb: &str) -> Result<(), Status> {
    let Some(old) = attributes.old else {
        return Ok(());
    };
    let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let asked = authorise::Attributes {
            user: attributes.user(),
            verb,
            requested: Requested::Resource(ResourceAttributes {
                group: GROUP,
                resource: "signers",
                name,
                ..ResourceAttributes::default()
            }),
        };
        if authorise::decide(&attributes.call.server.access, &asked)
            .await?
            .is_allowed()
        {
            return Ok(());
        }
    }
    let why = format_args!(
        "user not permitted to {verb} requests with signerName {}",
        go_quote(signer)
    );
    Err(attributes.forbid(new, why))
}

/// The request for a certificate in the spec of a CertificateSigningRequest.
///
/// # Errors
/// What is wrong with it, in the words of Kubernetes where these do not come from Go's parser.
pub(super) fn requested(spec: &Value) -> Result<CertificateRequest, &'static str> {
    let encoded = spec["request"].as_str().unwrap_or_default();
    let text = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    match key_pair::blocks(&text).first() {
        Some(block) if block.label == "CERTIFICATE REQUEST" => {
            let request = CertificateRequest::from_der(&block.content);
            request.ok_or("asn1: structure error")
        }
        _ => Err("PEM block type must be CERTIFICATE REQUEST"),
    }
}
