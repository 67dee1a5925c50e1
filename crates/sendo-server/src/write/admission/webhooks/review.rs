//! What a webhook is sent: an AdmissionReview with everything about the request.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`: `CreateAdmissionObjects`, `CreateV1AdmissionReview`

use serde_json::{Value, json};

use super::super::versions::Versioned;
use super::super::{Attributes, request};

/// The review of a request.
pub(super) fn review(
    attributes: &Attributes<'_>,
    versioned: &Versioned,
    version: &str,
    uid: &str,
) -> Value {
    let mut request = request::describe(attributes, versioned, &versioned.version.resource);
    request["uid"] = uid.into();
    request["object"] = versioned.object.clone();
    request["oldObject"] = versioned.old.clone();
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "request": request,
    })
}
