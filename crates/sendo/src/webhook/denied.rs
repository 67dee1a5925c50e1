//! Why a request is refused, in the form that Kubernetes' own refusals have.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go`: `Error`, `ErrorBody`
//! - `staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go`: `NewInvalid`

use std::fmt;

use serde_json::{Value, json};

use crate::error::{Error, with_causes};

/// A refusal, with what the user is told.
///
/// ```
/// use sendo::webhook::Denied;
///
/// # fn check(name: &str, replicas: i32) -> Result<(), Denied> {
/// // bars.example.dev "a" is invalid: spec.deploymentName: Duplicate value: "web"
/// let taken = Denied::field("spec.deploymentName").duplicate(name);
/// // Several faults are told together.
/// let both = taken.and_field("spec.replicas").invalid(replicas, "must be odd");
/// // A refusal that is not about a field.
/// let never = Denied::because("deletions are suspended");
/// # Err(both)
/// # }
/// ```
///
/// Any error becomes one with `?`. That is not the user's fault but a failure of the webhook:
/// the API server is told that the call failed, and does what the failure policy says.
pub struct Denied {
    pub(super) kind: DeniedKind,
}

pub(super) enum DeniedKind {
    /// The object has faults: 422 with a cause for each.
    Fields(Vec<FieldFault>),
    /// Refused for another reason.
    Status {
        code: u16,
        reason: String,
        message: String,
    },
    /// The webhook could not decide.
    Failed(String),
}

/// A fault of one field.
pub(super) struct FieldFault {
    field: String,
    reason: &'static str,
    /// All but the field's path.
    text: String,
}

impl Denied {
    /// Begins the refusal of an object for one of its fields, named as in
    /// `spec.containers[0].image`.
    pub fn field(path: impl Into<String>) -> DeniedField {
        DeniedField {
            before: Vec::new(),
            path: path.into(),
        }
    }

    /// Adds another field. A refusal that is not about fields stays what it is.
    pub fn and_field(self, path: impl Into<String>) -> DeniedField {
        let before = match self.kind {
            DeniedKind::Fields(before) => before,
            DeniedKind::Status { message, .. } | DeniedKind::Failed(message) => vec![FieldFault {
                field: String::new(),
                reason: "FieldValueForbidden",
                text: format!("Forbidden: {message}"),
            }],
        };
        DeniedField {
            before,
            path: path.into(),
        }
    }

    /// Refuses the request with a message: 403, `Forbidden`.
    pub fn because(message: impl Into<String>) -> Self {
        Denied::with_status(403, "Forbidden", message)
    }

    /// Refuses the request with a status code and a reason of one's own.
    ///
    /// Kubernetes raises a code below 400 to 400.
    pub fn with_status(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Denied {
            kind: DeniedKind::Status {
                code,
                reason: reason.into(),
                message: message.into(),
            },
        }
    }

    /// All faults in one refusal; `Ok` if there are none.
    ///
    /// A refusal that is not about fields, the first one, takes the place of all others.
    pub fn all(refusals: impl IntoIterator<Item = Denied>) -> Result<(), Denied> {
        let mut faults = Vec::new();
        for Denied { kind } in refusals {
            match kind {
                DeniedKind::Fields(more) => faults.extend(more),
                kind => return Err(Denied { kind }),
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(Denied {
                kind: DeniedKind::Fields(faults),
            }),
        }
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Denied {
            kind: DeniedKind::Failed(message.into()),
        }
    }
}

/// The field of a refusal whose fault is still to be said; see [`Denied::field`].
#[must_use = "say what is wrong with the field"]
pub struct DeniedField {
    before: Vec<FieldFault>,
    path: String,
}

impl DeniedField {
    /// A value is missing.
    pub fn required(self, detail: impl AsRef<str>) -> Denied {
        self.fault(
            "FieldValueRequired",
            "Required value",
            None,
            detail.as_ref(),
        )
    }

    /// The value does not fit; `detail` says what would.
    pub fn invalid(self, value: impl Into<Value>, detail: impl AsRef<str>) -> Denied {
        self.fault(
            "FieldValueInvalid",
            "Invalid value",
            Some(value.into()),
            detail.as_ref(),
        )
    }

    /// The value cannot be changed; `value` is the new one.
    pub fn immutable(self, value: impl Into<Value>) -> Denied {
        self.invalid(value, "field is immutable")
    }

    /// The value is taken.
    pub fn duplicate(self, value: impl Into<Value>) -> Denied {
        self.fault(
            "FieldValueDuplicate",
            "Duplicate value",
            Some(value.into()),
            "",
        )
    }

    /// The value names something that is not there.
    pub fn not_found(self, value: impl Into<Value>) -> Denied {
        self.fault("FieldValueNotFound", "Not found", Some(value.into()), "")
    }

    /// The value is none of the supported ones.
    pub fn not_supported<S: AsRef<str>>(self, value: impl Into<Value>, supported: &[S]) -> Denied {
        let quoted = supported.iter().map(|one| quoted(one.as_ref()));
        let mut detail = quoted.collect::<Vec<_>>().join(", ");
        if !detail.is_empty() {
            detail = format!("supported values: {detail}");
        }
        self.fault(
            "FieldValueNotSupported",
            "Unsupported value",
            Some(value.into()),
            &detail,
        )
    }

    /// The value may not be set here, whatever it is.
    pub fn forbidden(self, detail: impl AsRef<str>) -> Denied {
        self.fault("FieldValueForbidden", "Forbidden", None, detail.as_ref())
    }

    /// The value has more than `bytes` bytes.
    pub fn too_long(self, bytes: usize) -> Denied {
        let unit = if bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {bytes} {unit}");
        self.fault("FieldValueTooLong", "Too long", None, &detail)
    }

    /// The list has `actual` items, and may have `most`.
    pub fn too_many(self, actual: usize, most: usize) -> Denied {
        let unit = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {unit}");
        self.fault(
            "FieldValueTooMany",
            "Too many",
            Some(actual.into()),
            &detail,
        )
    }

    fn fault(
        self,
        reason: &'static str,
        title: &str,
        value: Option<Value>,
        detail: &str,
    ) -> Denied {
        let mut text = title.to_owned();
        if let Some(value) = value {
            text = match value {
                Value::String(value) => format!("{text}: {}", quoted(&value)),
                value => format!("{text}: {value}"),
            };
        }
        if !detail.is_empty() {
            text = format!("{text}: {detail}");
        }
        let mut faults = self.before;
        faults.push(FieldFault {
            field: self.path,
            reason,
            text,
        });
        Denied {
            kind: DeniedKind::Fields(faults),
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.is_empty() {
            true => f.write_str(&self.text),
            false => write!(f, "{}: {}", self.field, self.text),
        }
    }
}

/// The object that is refused.
pub(super) struct Refused<'a> {
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
}

impl Denied {
    /// The Status of an answer that refuses, or what the call failed with.
    pub(super) fn into_status(self, refused: &Refused<'_>) -> Result<Value, String> {
        match self.kind {
            DeniedKind::Fields(faults) => Ok(invalid(&faults, refused)),
            DeniedKind::Status {
                code,
                reason,
                message,
            } => Ok(json!({
                "status": "Failure", "code": code, "reason": reason, "message": message,
            })),
            DeniedKind::Failed(message) => Err(message),
        }
    }
}

fn invalid(faults: &[FieldFault], Refused { group, kind, name }: &Refused<'_>) -> Value {
    let mut texts: Vec<String> = Vec::new();
    for text in faults.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let texts = match &texts[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let qualified = match group.is_empty() {
        true => (*kind).to_owned(),
        false => format!("{kind}.{group}"),
    };
    let cause = |fault: &FieldFault| json!({"reason": fault.reason, "message": fault.text, "field": fault.field});
    let causes: Vec<Value> = faults.iter().map(cause).collect();
    json!({
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": format!("{qualified} {} is invalid: {texts}", quoted(name)),
        "details": {"name": name, "group": group, "kind": kind, "causes": causes},
    })
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DeniedKind::Fields(faults) => {
                let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(", "))
            }
            DeniedKind::Status { message, .. } | DeniedKind::Failed(message) => {
                f.write_str(message)
            }
        }
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for DeniedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeniedField").field(&self.path).finish()
    }
}

/// The webhook failed; see [`Denied`]. As with [`Error`], `Denied` itself is no error.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Denied {
    fn from(error: E) -> Self {
        Denied::failed(with_causes(&error))
    }
}

impl From<Error> for Denied {
    fn from(error: Error) -> Self {
        Denied::failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAR: Refused<'static> = Refused {
        group: "example.dev",
        kind: "Bar",
        name: "a",
    };

    #[test]
    fn a_refusal_of_fields_has_the_form_of_kubernetes() {
        let denied = Denied::field("spec.name")
            .duplicate("web")
            .and_field("spec.size")
            .invalid(3, "must be even");
        let status = denied.into_status(&BAR).unwrap();
        let expected = json!({
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "Bar.example.dev \"a\" is invalid: [spec.name: Duplicate value: \"web\", spec.size: Invalid value: 3: must be even]",
            "details": {
                "name": "a", "group": "example.dev", "kind": "Bar",
                "causes": [
                    {"reason": "FieldValueDuplicate", "message": "Duplicate value: \"web\"", "field": "spec.name"},
                    {"reason": "FieldValueInvalid", "message": "Invalid value: 3: must be even", "field": "spec.size"},
                ],
            },
        });
        assert_eq!(status, expected);
    }

    #[test]
    fn every_class_of_fault_has_the_words_of_kubernetes() {
        let field = || Denied::field("f");
        let cases = [
            (field().required(""), "f: Required value"),
            (
                field().required("one of a, b"),
                "f: Required value: one of a, b",
            ),
            (field().not_found("x"), "f: Not found: \"x\""),
            (
                field().not_supported("x", &["a", "b"]),
                "f: Unsupported value: \"x\": supported values: \"a\", \"b\"",
            ),
            (field().forbidden("not here"), "f: Forbidden: not here"),
            (
                field().too_long(1),
                "f: Too long: may not be more than 1 byte",
            ),
            (
                field().too_many(3, 2),
                "f: Too many: 3: must have at most 2 items",
            ),
            (
                field().immutable("x"),
                "f: Invalid value: \"x\": field is immutable",
            ),
        ];
        for (denied, text) in cases {
            assert_eq!(denied.to_string(), text);
        }
    }

    #[test]
    fn faults_are_told_together_and_none_is_no_refusal() {
        assert!(Denied::all([]).is_ok());
        let two = [
            Denied::field("a").required(""),
            Denied::field("b").required(""),
        ];
        let denied = Denied::all(two).unwrap_err();
        assert_eq!(denied.to_string(), "a: Required value, b: Required value");
        let other = [
            Denied::field("a").required(""),
            Denied::because("not today"),
        ];
        assert_eq!(Denied::all(other).unwrap_err().to_string(), "not today");
    }

    #[test]
    fn an_error_of_the_webhook_is_a_failed_call_and_no_refusal() {
        fn read() -> Result<(), Denied> {
            Ok("many".parse::<u32>().map(drop)?)
        }
        let failure = read().unwrap_err().into_status(&BAR).unwrap_err();
        assert!(failure.contains("invalid digit"), "{failure}");
    }
}
