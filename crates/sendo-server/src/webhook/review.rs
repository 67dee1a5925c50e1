//! Reads the review that a webhook answers with, of admission or of conversion.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/versioning/versioning.go`: `Decode`
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`: `NewClientManager`

use sendo_apimachinery::decode::read_response;
use sendo_apimachinery::patch::json_type;
use sendo_apimachinery::{GroupVersionKind, go_quote};
use serde_json::Value;

/// The versions of reviews that can be sent.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The version of the review for a webhook that takes these.
pub(crate) fn version(taken: &[String]) -> Option<&'static str> {
    let known = |own: &String| VERSIONS.into_iter().find(|version| version == own);
    taken.iter().find_map(known)
}

/// The kind of a review that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl Kind<'_> {
    /// Reads the body of a response as a review of this kind, or says why it is none.
    ///
    /// What it does not say of its kind is as it was sent.
    pub(crate) fn read(self, body: &[u8]) -> Result<Value, String> {
        let sent = GroupVersionKind {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
        };
        let object = read_response(body, &sent).map_err(|error| error.to_string())?;
        if object.kind != sent {
            return Err(self.refusal(&object.kind));
        }
        Ok(object.value)
    }

    /// What is said of an object of another kind.
    fn refusal(self, found: &GroupVersionKind) -> String {
        let api_version = found.group_version().to_string();
        let is_review = found.kind == self.kind
            && found.group == self.group
            && VERSIONS.contains(&found.version.as_str());
        let is_status = (api_version.as_str(), found.kind.as_str()) == ("v1", "Status");
        if is_review || is_status {
            return format!(
                "converting ({}.{}) to ({}.{}): unknown conversion",
                found.version, found.kind, self.version, self.kind
            );
        }
        format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            go_quote(&found.kind),
            go_quote(&api_version)
        )
    }
}

/// Refuses a member of a review that is of another type than Go's.
pub(crate) fn wrong_type(value: &Value, field: &str, wanted: &str) -> String {
    let found = match value {
        // Where a number is wanted, the one that does not fit is shown.
        Value::Number(number) if wanted == "int32" => format!("number {number}"),
        other => json_type(other).to_owned(),
    };
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
}

/// Refuses members of a Status in a review that are of another type than Go's.
pub(crate) fn check_status(status: &Value, field: &str) -> Result<(), String> {
    type IsOfType = fn(&Value) -> bool;
    let members: [(&str, &str, IsOfType); 6] = [
        ("metadata", "v1.ListMeta", Value::is_object),
        ("status", "string", Value::is_string),
        ("message", "string", Value::is_string),
        ("reason", "v1.StatusReason", Value::is_string),
        ("details", "v1.StatusDetails", Value::is_object),
        ("code", "int32", |code| {
            code.as_i64()
                .is_some_and(|code| i32::try_from(code).is_ok())
        }),
    ];
    for (member, wanted, is_of_type) in members {
        let value = &status[member];
        if !value.is_null() && !is_of_type(value) {
            return Err(wrong_type(
                value,
                &format!("Status.{field}.{member}"),
                wanted,
            ));
        }
    }
    Ok(())
}
