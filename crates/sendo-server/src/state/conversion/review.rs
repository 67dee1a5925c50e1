//! The ConversionReview: what is sent to the webhook of a definition, and what it answers.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`:
//!   `createConversionReviewObjects`, `getConvertedObjectsFromResponse`, `Convert`

use sendo_apimachinery::go_quote;
use sendo_apimachinery::patch::json_type;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::metadata;
use crate::webhook::review::{Kind, check_status, wrong_type};

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";

/// What is wrong with an answer. The texts of most go on from "conversion webhook for … ".
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// It is no answer to the review, or says that the conversion failed.
    #[error("failed: {0}")]
    Malformed(String),
    /// It has another number of objects.
    #[error("returned {found} objects, expected {expected}")]
    Partial { found: usize, expected: usize },
    /// An object in it is another one, or not in the version that was asked for.
    #[error("returned {0}")]
    Invalid(String),
    /// What stands for an object in it is none. Nothing goes before the text.
    #[error("{0}")]
    NoObject(String),
}

impl Fault {
    /// The kind of fault, as metrics tell it.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Fault::Malformed(_) => "conversion_webhook_malformed_response_failure",
            Fault::Partial { .. } => "conversion_webhook_partial_response_failure",
            Fault::Invalid(_) | Fault::NoObject(_) => {
                "conversion_webhook_invalid_converted_object_failure"
            }
        }
    }
}

/// A review that was sent.
#[derive(Debug)]
pub(super) struct Review<'a> {
    pub(super) version: &'static str,
    pub(super) uid: String,
    /// The `apiVersion` that is asked for.
    pub(super) wanted: &'a str,
    pub(super) objects: &'a [Value],
}

impl Review<'_> {
    /// The review as the webhook is sent it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "kind": KIND,
            "apiVersion": format!("{GROUP}/{}", self.version),
            "request": {
                "uid": self.uid,
                "desiredAPIVersion": self.wanted,
                "objects": self.objects,
            },
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        })
    }

    /// The converted objects of an answer.
    pub(super) fn read(&self, body: &[u8]) -> Result<Vec<Value>, Fault> {
        let sent = Kind {
            group: GROUP,
            version: self.version,
            kind: KIND,
        };
        let mut answer = sent.read(body).map_err(Fault::Malformed)?;
        check_types(&answer["response"], self.version).map_err(Fault::Malformed)?;
        self.check_response(&answer).map_err(Fault::Malformed)?;
        let converted = match answer["response"]["convertedObjects"].take() {
            Value::Array(objects) => objects,
            _ => Vec::new(),
        };
        if converted.len() != self.objects.len() {
            return Err(Fault::Partial {
                found: converted.len(),
                expected: self.objects.len(),
            });
        }
        let pairs = self.objects.iter().zip(converted).enumerate();
        pairs
            .map(|(index, (original, converted))| {
                check_object(&converted, || sent_text(body, index, &converted))
                    .map_err(Fault::NoObject)?;
                self.accept(original, converted)
            })
            .collect()
    }

    /// Refuses an answer that is not to this review, and one that says that it failed.
    fn check_response(&self, answer: &Value) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let response = &answer["response"];
        // Of the older version neither was ever checked.
        let is_checked = self.version == "v1";
        let (api_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if is_checked && (api_version != format!("{GROUP}/v1") || kind != KIND) {
            let shown = match api_version.is_empty() {
                true => "/".to_owned(),
                false => api_version,
            };
            return Err(format!(
                "expected webhook response of {GROUP}/v1, Kind={KIND}, got {shown}, Kind={kind}"
            ));
        }
        if response.is_null() {
            return Err("no response provided".to_owned());
        }
        let uid = text(&response["uid"]);
        if is_checked && uid != self.uid {
            let (expected, found) = (go_quote(&self.uid), go_quote(&uid));
            return Err(format!("expected response.uid={expected}, got {found}"));
        }
        let result = &response["result"];
        match (text(&result["status"]), text(&result["message"])) {
            (status, _) if status == "Success" => Ok(()),
            (status, message) if message.is_empty() => Err(format!(
                "response.result.status was '{status}', not 'Success'"
            )),
            (_, message) => Err(message),
        }
    }

    /// The converted object, with the metadata that no conversion changes.
    fn accept(&self, original: &Value, mut converted: Value) -> Result<Value, Fault> {
        let text = |object: &Value, member: &str| {
            let own = object[member].as_str().unwrap_or_default();
            own.to_owned()
        };
        let invalid = |why: String| Fault::Invalid(format!("invalid object at index 0: {why}"));
        let kind = text(&converted, "kind");
        let found = text(&converted, "apiVersion");
        if found != self.wanted {
            let wanted = self.wanted;
            return Err(invalid(format!(
                "invalid groupVersion (expected {wanted}, received {found})"
            )));
        }
        let expected = text(original, "kind");
        if kind != expected {
            return Err(invalid(format!(
                "invalid kind (expected {expected}, received {kind})"
            )));
        }
        metadata::check_identity(original, &converted)
            .map_err(|why| Fault::Invalid(format!("invalid object: {why}")))?;
        metadata::restore(original, &mut converted)
            .map_err(|why| Fault::Invalid(format!("invalid metadata: {why}")))?;
        Ok(converted)
    }
}

/// Refuses members of a response that are of another type than Go's.
fn check_types(response: &Value, version: &str) -> Result<(), String> {
    if response.is_null() {
        return Ok(());
    }
    if !response.is_object() {
        let wanted = format!("{version}.ConversionResponse");
        return Err(wrong_type(response, "ConversionReview.response", &wanted));
    }
    type IsOfType = fn(&Value) -> bool;
    let members: [(&str, &str, IsOfType); 3] = [
        ("uid", "types.UID", Value::is_string),
        (
            "convertedObjects",
            "[]runtime.RawExtension",
            Value::is_array,
        ),
        ("result", "v1.Status", Value::is_object),
    ];
    for (member, wanted, is_of_type) in members {
        let value = &response[member];
        if !value.is_null() && !is_of_type(value) {
            let field = format!("ConversionResponse.response.{member}");
            return Err(wrong_type(value, &field, wanted));
        }
    }
    check_status(&response["result"], "response.result")
}

/// Refuses what is no object, or does not say its kind. `sent` is its text, as it came.
fn check_object(converted: &Value, sent: impl FnOnce() -> String) -> Result<(), String> {
    if converted.is_null() {
        return Err("unexpected end of JSON input".to_owned());
    }
    if !converted.is_object() {
        let found = json_type(converted);
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        ));
    }
    match converted["kind"].as_str().unwrap_or_default() {
        "" => Err(format!("Object 'Kind' is missing in '{}'", sent())),
        _ => Ok(()),
    }
}

/// The text of a converted object in the body of an answer; if that is YAML, as JSON.
fn sent_text(body: &[u8], index: usize, converted: &Value) -> String {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        response: Response<'a>,
    }
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow, rename = "convertedObjects")]
        converted: Vec<&'a RawValue>,
    }
    match serde_json::from_slice::<Answer<'_>>(body) {
        Ok(answer) => answer.response.converted[index].get().to_owned(),
        Err(_) => converted.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(api_version: &str) -> Value {
        json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "a", "uid": "1"}})
    }

    fn outcome(version: &'static str, answer: &Value) -> Result<Vec<Value>, Fault> {
        let objects = [object("x/v1")];
        let review = Review {
            version,
            uid: "u".to_owned(),
            wanted: "x/v2",
            objects: &objects,
        };
        review.read(answer.to_string().as_bytes())
    }

    fn answer(response: Value) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response})
    }

    #[test]
    fn an_answer_is_refused_in_the_words_of_kubernetes() {
        let ok = json!({"status": "Success"});
        let with =
            |object: Value| answer(json!({"uid": "u", "result": ok, "convertedObjects": [object]}));
        for (answer, expected) in [
            (answer(Value::Null), "failed: no response provided"),
            (
                answer(json!({"uid": "v", "result": ok})),
                "failed: expected response.uid=\"u\", got \"v\"",
            ),
            (
                answer(json!({"uid": "u", "result": {"status": "success"}})),
                "failed: response.result.status was 'success', not 'Success'",
            ),
            (
                answer(json!({"uid": "u", "result": {"status": "Failure", "message": "no"}})),
                "failed: no",
            ),
            (
                answer(json!({"uid": "u", "result": ok})),
                "returned 0 objects, expected 1",
            ),
            (
                answer(json!({"uid": 1})),
                "failed: json: cannot unmarshal number into Go struct field ConversionResponse.response.uid of type types.UID",
            ),
            (with(Value::Null), "unexpected end of JSON input"),
            (
                with(json!("text")),
                "json: cannot unmarshal string into Go value of type map[string]interface {}",
            ),
            (
                with(json!({"apiVersion": "x/v2"})),
                "Object 'Kind' is missing in '{\"apiVersion\":\"x/v2\"}'",
            ),
            (
                answer(json!({"uid": "u", "result": {"code": 1.5}})),
                "failed: json: cannot unmarshal number 1.5 into Go struct field Status.response.result.code of type int32",
            ),
            (
                with(object("x/v1")),
                "returned invalid object at index 0: invalid groupVersion (expected x/v2, received x/v1)",
            ),
            (
                with(json!({"apiVersion": "x/v2", "kind": "Gadget"})),
                "returned invalid object at index 0: invalid kind (expected Widget, received Gadget)",
            ),
            (
                with(json!({"apiVersion": "x/v2", "kind": "Widget", "metadata": {"name": "b"}})),
                "returned invalid object: must have the same name: a != b",
            ),
            (
                json!({"response": {"uid": "u"}}),
                "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
            ),
        ] {
            assert_eq!(outcome("v1", &answer).unwrap_err().to_string(), expected);
        }
        let converted = outcome("v1", &with(object("x/v2"))).unwrap();
        assert_eq!(converted, [object("x/v2")]);
    }

    #[test]
    fn what_is_no_object_is_shown_as_it_was_sent() {
        let objects = [object("x/v1")];
        let review = Review {
            version: "v1",
            uid: "u".to_owned(),
            wanted: "x/v2",
            objects: &objects,
        };
        let head = r#""apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview""#;
        let body = format!(
            r#"{{{head}, "response": {{"uid": "u", "result": {{"status": "Success"}}, "convertedObjects": [ {{ "b": 1,  "a": 2.0 }} ]}}}}"#
        );
        let fault = review.read(body.as_bytes()).unwrap_err();
        let expected = r#"Object 'Kind' is missing in '{ "b": 1,  "a": 2.0 }'"#;
        assert_eq!(fault.to_string(), expected);
    }

    #[test]
    fn an_answer_in_yaml_is_read_too() {
        let objects = [object("x/v1")];
        let review = Review {
            version: "v1",
            uid: "u".to_owned(),
            wanted: "x/v2",
            objects: &objects,
        };
        let body = "apiVersion: apiextensions.k8s.io/v1\nkind: ConversionReview\nresponse:\n  uid: u\n  result: {status: Success}\n  \
                    convertedObjects:\n  - {apiVersion: x/v2, kind: Widget, metadata: {name: a, uid: '1'}}\n";
        assert_eq!(review.read(body.as_bytes()), Ok(vec![object("x/v2")]));
    }

    #[test]
    fn an_answer_of_the_older_version_needs_no_uid() {
        let answer = json!({"response": {"result": {"status": "Success"}, "convertedObjects": [object("x/v2")]}});
        assert!(outcome("v1", &answer).is_err());
        assert_eq!(outcome("v1beta1", &answer).unwrap(), [object("x/v2")]);
    }
}
