//! Reads what a webhook answers.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`: `VerifyAdmissionResponse`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go`: `ToStatusErr`

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sendo_apimachinery::{Status, go_quote};
use serde_json::{Map, Value};

use crate::webhook::review;

/// What a webhook of which kind may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookType {
    /// It may change the object.
    Mutating,
    /// It may not.
    Validating,
}

/// A webhook's decision.
#[derive(Debug)]
pub(super) struct AdmissionResponse {
    pub(super) allowed: bool,
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    pub(super) status: Map<String, Value>,
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: Vec<(String, String)>,
}

/// Reads the body of a response as a review of this version, or says why it is none.
pub(super) fn read(body: &[u8], version: &str) -> Result<Value, String> {
    let kind = review::Kind {
        group: "admission.k8s.io",
        version,
        kind: "AdmissionReview",
    };
    let review = kind.read(body)?;
    check_types(&review["response"])?;
    Ok(review)
}

/// Refuses members of a response that are of another type than Go's.
fn check_types(response: &Value) -> Result<(), String> {
    type IsOfType = fn(&Value) -> bool;
    let members: [(&str, &str, IsOfType); 6] = [
        ("uid", "types.UID", Value::is_string),
        ("allowed", "bool", Value::is_boolean),
        ("status", "v1.Status", Value::is_object),
        ("patchType", "v1.PatchType", Value::is_string),
        ("auditAnnotations", "map[string]string", |annotations| {
            let mut values = annotations.as_object().into_iter().flatten();
            annotations.is_object() && values.all(|(_, value)| value.is_string())
        }),
        ("warnings", "[]string", |warnings| {
            let mut items = warnings.as_array().into_iter().flatten();
            warnings.is_array() && items.all(Value::is_string)
        }),
    ];
    let wrong = |value: &Value, field: &str, wanted: &str| {
        let field = format!("AdmissionResponse.response{field}");
        review::wrong_type(value, &field, wanted)
    };
    if response.is_null() {
        return Ok(());
    }
    if !response.is_object() {
        return Err(review::wrong_type(
            response,
            "AdmissionReview.response",
            "v1.AdmissionResponse",
        ));
    }
    for (member, wanted, is_of_type) in members {
        let value = &response[member];
        if !value.is_null() && !is_of_type(value) {
            return Err(wrong(value, &format!(".{member}"), wanted));
        }
    }
    review::check_status(&response["status"], "response.status")?;
    match &response["patch"] {
        Value::Null => Ok(()),
        Value::String(text) => match STANDARD.decode(text) {
            Ok(_) => Ok(()),
            Err(_) => Err("illegal base64 data at input byte 0".to_owned()),
        },
        other => Err(wrong(other, ".patch", "[]uint8")),
    }
}

/// The decision of a review that answers the one with this uid, or what is wrong with it.
pub(super) fn verify(
    review: &Value,
    version: &str,
    uid: &str,
    hook_type: HookType,
) -> Result<AdmissionResponse, String> {
    let response = &review["response"];
    if response.is_null() {
        return Err("webhook response was absent".to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let patch = STANDARD
        .decode(text(&response["patch"]))
        .unwrap_or_default();
    let patch_type = response["patchType"].as_str();
    let (patch, patch_type) = match version {
        "v1" => {
            check_identity(review, uid)?;
            check_patch(&patch, patch_type, hook_type)?;
            (patch, patch_type.unwrap_or_default().to_owned())
        }
        // Of the older version neither was ever checked.
        _ if hook_type == HookType::Validating => (Vec::new(), String::new()),
        _ => (patch, "JSONPatch".to_owned()),
    };
    let annotations = response["auditAnnotations"]
        .as_object()
        .into_iter()
        .flatten();
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(AdmissionResponse {
        allowed: response["allowed"] == true,
        patch,
        patch_type,
        status: response["status"].as_object().cloned().unwrap_or_default(),
        warnings: warnings.map(text).collect(),
        audit_annotations: annotations
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
    })
}

fn check_identity(review: &Value, uid: &str) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = text(&review["response"]["uid"]);
    if found != uid {
        let (expected, found) = (go_quote(uid), go_quote(&found));
        return Err(format!("expected response.uid={expected}, got {found}"));
    }
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if (api_version.as_str(), kind.as_str()) == ("admission.k8s.io/v1", "AdmissionReview") {
        return Ok(());
    }
    let shown = match api_version.is_empty() {
        true => "/".to_owned(),
        false => api_version,
    };
    Err(format!(
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {shown}, Kind={kind}"
    ))
}

fn check_patch(patch: &[u8], patch_type: Option<&str>, hook_type: HookType) -> Result<(), String> {
    let fault = match (hook_type, patch.is_empty(), patch_type) {
        (HookType::Mutating, false, None) => {
            "webhook returned response.patch but not response.patchType"
        }
        (HookType::Mutating, true, Some(_)) => {
            "webhook returned response.patchType but not response.patch"
        }
        (HookType::Mutating, false, Some("")) => {
            "webhook returned invalid response.patchType of \"\""
        }
        (HookType::Validating, false, _) => "validating webhook may not return response.patch",
        (HookType::Validating, true, Some(_)) => {
            "validating webhook may not return response.patchType"
        }
        _ => return Ok(()),
    };
    Err(fault.to_owned())
}

/// The refusal of a request that a webhook has denied.
pub(super) fn denial(hook: &str, status: &Map<String, Value>) -> Status {
    let text = |member: &str| {
        status
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let denied = format!("admission webhook {} denied the request", go_quote(hook));
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status.get("code").and_then(Value::as_i64).unwrap_or(0);
    let code = u16::try_from(code.clamp(400, 999)).expect("a number of three digits");
    let mut shown = Map::new();
    let failure = match text("status") {
        "" | "Success" => "Failure",
        other => other,
    };
    shown.insert("status".to_owned(), failure.into());
    if !text("reason").is_empty() {
        shown.insert("reason".to_owned(), text("reason").into());
    }
    if let Some(metadata) = members(status.get("metadata"), METADATA) {
        shown.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if let Some(mut details) = members(status.get("details"), DETAILS) {
        if let Some(Value::Array(causes)) = details.get_mut("causes") {
            let known = causes
                .iter()
                .filter_map(|cause| members(Some(cause), CAUSE));
            *causes = known.map(Value::Object).collect();
        }
        shown.insert("details".to_owned(), Value::Object(details));
    }
    Status::foreign(code, message, shown)
}

const METADATA: &[&str] = &[
    "selfLink",
    "resourceVersion",
    "continue",
    "remainingItemCount",
];
const DETAILS: &[&str] = &[
    "name",
    "group",
    "kind",
    "uid",
    "causes",
    "retryAfterSeconds",
];
const CAUSE: &[&str] = &["reason", "message", "field"];

/// The members that a type of Kubernetes has, of which it leaves out those that are empty.
fn members(value: Option<&Value>, known: &[&str]) -> Option<Map<String, Value>> {
    let object = value?.as_object()?;
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) | Value::Object(_) => false,
    };
    let shown = object
        .iter()
        .filter(|(name, value)| known.contains(&name.as_str()) && !is_empty(value));
    Some(
        shown
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}
