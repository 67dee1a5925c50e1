//! Access reviews: SubjectAccessReview, SelfSubjectAccessReview and LocalSubjectAccessReview.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go`:
//!   `ValidateLabelSelectorRequirement`, `ValidateFieldSelectorRequirement`
//! - `pkg/apis/authorization/validation/validation.go`
//! - `pkg/registry/authorization/util/helpers.go`
//! - `pkg/registry/authorization/localsubjectaccessreview/rest.go`: `Create`
//! - `pkg/registry/authorization/selfsubjectaccessreview/rest.go`: `Create`
//! - `pkg/registry/authorization/subjectaccessreview/rest.go`: `Create`

use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::meta;
use sendo_apimachinery::selector::{FieldOperator, FieldRequirement, Operator, Requirement};
use sendo_apimachinery::{
    FieldSelector, GroupKind, LabelSelector, Status, go_json, go_quote, names,
};
use serde_json::{Value, json};

use crate::access::authorise::{self, Attributes, Requested, ResourceAttributes};
use crate::request::user::User;
use crate::state::call::Call;

/// The status of an access review of this kind.
pub(super) async fn status(call: &Call<'_>, review: &Value, kind: &str) -> Result<Value, Status> {
    let errors = faults(call, review, kind);
    if !errors.is_empty() {
        let kind = GroupKind::new("authorization.k8s.io", "");
        return Err(Status::invalid(&kind, "", &errors));
    }
    let user = match kind {
        "SelfSubjectAccessReview" => call.request.user.clone(),
        _ => subject(&review["spec"]),
    };
    let (fields, field_fault) = fields(&review["spec"]["resourceAttributes"]["fieldSelector"]);
    let label_fault = labels(&review["spec"]["resourceAttributes"]["labelSelector"]);
    let requested = attributes(&user, &review["spec"], fields);
    let decision = authorise::decide(&call.server.access, &requested).await?;
    let mut status = json!({"allowed": decision.is_allowed()});
    let reason = decision.reason();
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    let faults = [
        ("fieldSelector", field_fault),
        ("labelSelector", label_fault),
    ];
    let faults: Vec<String> = faults
        .into_iter()
        .filter_map(|(selector, fault)| {
            let ignored = match fault? {
                Ignored::Wholly => "ignored",
                Ignored::Partially => "partially ignored",
            };
            Some(format!(
                "spec.resourceAttributes.{selector} {ignored} due to parse error"
            ))
        })
        .collect();
    if !faults.is_empty() {
        status["evaluationError"] = faults.join("; ").into();
    }
    Ok(status)
}

/// The user that a review is about.
fn subject(spec: &Value) -> User {
    let list = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
    User {
        name: text(&spec["user"]).to_owned(),
        groups: list(&spec["groups"]),
        uid: text(&spec["uid"]).to_owned(),
        extra: serde_json::from_value(spec["extra"].clone()).unwrap_or_default(),
    }
}

fn attributes<'a>(user: &'a User, spec: &'a Value, fields: FieldSelector) -> Attributes<'a> {
    let resource = &spec["resourceAttributes"];
    if !resource.is_object() {
        let path = &spec["nonResourceAttributes"];
        return Attributes {
            user,
            verb: text(&path["verb"]),
            requested: Requested::NonResource(text(&path["path"])),
        };
    }
    Attributes {
        user,
        verb: text(&resource["verb"]),
        requested: Requested::Resource(ResourceAttributes {
            group: text(&resource["group"]),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
            fields,
        }),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Validates a review.
fn faults(call: &Call<'_>, review: &Value, kind: &str) -> Vec<Error> {
    let spec = Path::new("spec");
    let own = &review["spec"];
    let (resource, path) = (&own["resourceAttributes"], &own["nonResourceAttributes"]);
    let of_path = spec.child("nonResourceAttributes");
    let mut errors = Vec::new();
    if resource.is_object() && path.is_object() {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(Error::invalid(&of_path, shown_path(path), why));
    }
    if !resource.is_object() && !path.is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let attributes = spec.child("resourceAttributes");
        errors.push(Error::invalid(&attributes, Value::Null, why));
    }
    if kind != "SelfSubjectAccessReview"
        && text(&own["user"]).is_empty()
        && items(&own["groups"]).is_empty()
    {
        let why = "at least one of user or group must be specified";
        errors.push(Error::invalid(&spec.child("user"), "", why));
    }
    for (selector, of) in [
        ("fieldSelector", Selector::Field),
        ("labelSelector", Selector::Label),
    ] {
        let path = spec.child("resourceAttributes").child(selector);
        selector_faults(&mut errors, &path, &resource[selector], of);
    }
    let local = kind == "LocalSubjectAccessReview";
    if !is_empty(&review["metadata"], local) {
        let why = match local {
            true => "must be empty except for namespace",
            false => "must be empty",
        };
        let shown = BadValue::Raw(metadata_text(&review["metadata"]));
        errors.push(Error::invalid(&Path::new("metadata"), shown, why));
    }
    if local {
        let namespace = text(&resource["namespace"]);
        if resource.is_object() && Some(namespace) != call.namespace() {
            let path = spec.child("resourceAttributes").child("namespace");
            errors.push(Error::invalid(
                &path,
                namespace,
                "must match metadata.namespace",
            ));
        }
        if path.is_object() {
            let why = "disallowed on this kind of request";
            errors.push(Error::invalid(&of_path, shown_path(path), why));
        }
    }
    errors
}

/// The path attributes as Go marshals their struct.
fn shown_path(path: &Value) -> BadValue {
    BadValue::Raw(format!(
        "{{\"Path\":{},\"Verb\":{}}}",
        go_quote(text(&path["path"])),
        go_quote(text(&path["verb"]))
    ))
}

/// Metadata with its fields and those of its managers in Go's declaration order.
fn metadata_text(metadata: &Value) -> String {
    const MANAGER: [&str; 7] = [
        "manager",
        "operation",
        "apiVersion",
        "time",
        "fieldsType",
        "fieldsV1",
        "subresource",
    ];
    let members = |object: &Value, order: &[&str]| -> Vec<String> {
        let given = order.iter().filter_map(|key| Some((key, object.get(key)?)));
        given
            .map(|(key, value)| format!("{}:{}", go_quote(key), go_json(value)))
            .collect()
    };
    let mut shown = members(metadata, &meta::MEMBERS);
    let managers = items(&metadata["managedFields"]).iter();
    let managers: Vec<String> = managers
        .map(|manager| format!("{{{}}}", members(manager, &MANAGER).join(",")))
        .collect();
    if !managers.is_empty() {
        shown.push(format!("\"managedFields\":[{}]", managers.join(",")));
    }
    format!("{{{}}}", shown.join(","))
}

/// Whether metadata is empty, except for the namespace of a local review.
fn is_empty(metadata: &Value, local: bool) -> bool {
    let mut members = metadata.as_object().into_iter().flatten();
    members.all(|(key, value)| {
        let tolerated = key == "managedFields" || (local && key == "namespace");
        tolerated || value.is_null() || *value == "" || *value == json!({})
    })
}

/// Whether a selector of a review selects by fields or labels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selector {
    Field,
    Label,
}

fn selector_faults(errors: &mut Vec<Error>, path: &Path, selector: &Value, of: Selector) {
    if !selector.is_object() {
        return;
    }
    let raw = text(&selector["rawSelector"]);
    let requirements = items(&selector["requirements"]);
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(Error::invalid(&path.child("rawSelector"), raw, why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(Error::required(&path.child("requirements"), why));
    }
    for (i, requirement) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(i);
        let values = items(&requirement["values"]);
        let (key, key_path) = (text(&requirement["key"]), path.child("key"));
        if of == Selector::Field && key.is_empty() {
            errors.push(Error::required(&key_path, "must be specified"));
        }
        match text(&requirement["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(Error::required(&path.child("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&path.child("values"), why));
            }
            // Unknown operators are accepted, since newer clients may send them.
            _ => {}
        }
        if of == Selector::Label {
            let refused = |path: &Path, value: &str, faults: Vec<String>| {
                let faults = faults.into_iter();
                faults
                    .map(|fault| Error::invalid(path, value, fault))
                    .collect::<Vec<_>>()
            };
            errors.extend(refused(&key_path, key, names::qualified_name(key)));
            for (i, value) in values.iter().enumerate() {
                let path = path.child("values").index(i);
                let value = text(value);
                errors.extend(refused(&path, value, names::label_value(value)));
            }
        }
    }
}

/// How much of a selector could not be parsed.
enum Ignored {
    Wholly,
    Partially,
}

fn ignored(read: usize) -> Ignored {
    match read {
        0 => Ignored::Wholly,
        _ => Ignored::Partially,
    }
}

/// The field selector of a review. Requirements that cannot be parsed are dropped, so that the
/// review asks for more, which is the safe direction.
fn fields(selector: &Value) -> (FieldSelector, Option<Ignored>) {
    let requirements = items(&selector["requirements"]);
    if requirements.is_empty() {
        return match FieldSelector::parse(text(&selector["rawSelector"])) {
            Ok(fields) => (fields, None),
            Err(_) => (FieldSelector::default(), Some(Ignored::Wholly)),
        };
    }
    let read: Vec<FieldRequirement> = requirements
        .iter()
        .filter_map(|requirement| {
            let operator = match text(&requirement["operator"]) {
                "In" => FieldOperator::Equals,
                "NotIn" => FieldOperator::NotEquals,
                _ => return None,
            };
            let [value] = items(&requirement["values"]) else {
                return None;
            };
            Some(FieldRequirement {
                field: text(&requirement["key"]).to_owned(),
                operator,
                value: text(value).to_owned(),
            })
        })
        .collect();
    let fault = (read.len() < requirements.len()).then(|| ignored(read.len()));
    (FieldSelector::new(read), fault)
}

/// Checks whether the label selector of a review can be parsed. RBAC does not use it.
fn labels(selector: &Value) -> Option<Ignored> {
    let requirements = items(&selector["requirements"]);
    if requirements.is_empty() {
        let parsed = LabelSelector::parse(text(&selector["rawSelector"]));
        return parsed.is_err().then_some(Ignored::Wholly);
    }
    let read = requirements.iter().filter(|requirement| {
        let operator = match text(&requirement["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return false,
        };
        let values = items(&requirement["values"]).iter().map(text);
        Requirement::new(text(&requirement["key"]), operator, values).is_ok()
    });
    let read = read.count();
    (read < requirements.len()).then(|| ignored(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_metadata_is_shown_in_the_order_of_go() {
        let manager = json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "m", "operation": "Update"});
        assert_eq!(
            metadata_text(
                &json!({"labels": {"a": "b"}, "managedFields": [manager], "name": "x", "namespace": "n"})
            ),
            r#"{"name":"x","namespace":"n","labels":{"a":"b"},"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1"}]}"#
        );
    }

    #[test]
    fn unparsable_parts_of_a_selector_are_reported() {
        let (fields, fault) = fields(&json!({"requirements": [
            {"key": "spec.nodeName", "operator": "In", "values": ["a"]},
            {"key": "x", "operator": "Exists"},
        ]}));
        assert_eq!(fields.exact("spec.nodeName"), Some("a"));
        assert!(matches!(fault, Some(Ignored::Partially)));
        assert!(matches!(
            labels(&json!({"rawSelector": "a in ("})),
            Some(Ignored::Wholly)
        ));
        assert!(labels(&Value::Null).is_none());
    }
}
