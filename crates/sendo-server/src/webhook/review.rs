//! Reads the review that a webhook answers with, of admission or of conversion.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go`: `Decode`
//! - `staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`: `NewClientManager`

use sendo_apimachinery::go_quote;
use sendo_apimachinery::patch::json_type;
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
    pub(crate) fn read(self, body: &[u8]) -> Result<Value, String> {
        let no_object = |found: &str| {
            format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type \
                 struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )
        };
        let review: Value = match serde_json::from_slice(body) {
            Ok(review) => review,
            // Text that is no JSON is a string in YAML, which is read too.
            Err(_) => return Err(no_object("string")),
        };
        if !review.is_object() && !review.is_null() {
            return Err(no_object(json_type(&review)));
        }
        self.check(&review)?;
        Ok(review)
    }

    /// Refuses an object of another kind. What it does not say it is of the kind that was sent.
    fn check(self, review: &Value) -> Result<(), String> {
        let own = format!("{}/{}", self.group, self.version);
        let text = |member: &str| review[member].as_str().filter(|text| !text.is_empty());
        let api_version = text("apiVersion").unwrap_or(&own);
        let kind = text("kind").unwrap_or(self.kind);
        if api_version == own && kind == self.kind {
            return Ok(());
        }
        let is_review = kind == self.kind
            && VERSIONS.iter().any(|version| {
                let rest = api_version.strip_prefix(self.group);
                rest.and_then(|rest| rest.strip_prefix('/')) == Some(version)
            });
        if is_review || (api_version, kind) == ("v1", "Status") {
            let found = api_version.rsplit('/').next().unwrap_or_default();
            return Err(format!(
                "converting ({found}.{kind}) to ({}.{}): unknown conversion",
                self.version, self.kind
            ));
        }
        Err(format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            go_quote(kind),
            go_quote(api_version)
        ))
    }
}

/// Refuses a member of a review that is of another type than Go's.
pub(crate) fn wrong_type(value: &Value, field: &str, wanted: &str) -> String {
    let found = json_type(value);
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
}
