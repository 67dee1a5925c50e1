//! The form of rules in CEL; `expressions` compiles them.

use serde_json::Value;

use crate::field::{Error, Path};

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Checks `x-kubernetes-validations` of a schema.
pub(super) fn check(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let rules = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        check_rule(
            rule,
            schema,
            &path.child("x-kubernetes-validations").index(i),
            errors,
        );
    }
}

fn check_rule(rule: &Value, schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let has_line_breaks = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text("rule").trim(), text("message").trim());
    if expression.is_empty() {
        errors.push(Error::required(
            &path.child("rule"),
            "rule is not specified",
        ));
    } else if !text("message").is_empty() && message.is_empty() {
        let detail = "must be non-empty if specified";
        errors.push(Error::invalid(
            &path.child("message"),
            text("message"),
            detail,
        ));
    } else if has_line_breaks(message) {
        let detail = "must not contain line breaks";
        errors.push(Error::invalid(
            &path.child("message"),
            text("message"),
            detail,
        ));
    } else if has_line_breaks(expression) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(Error::required(&path.child("message"), detail));
    }
    let message_expression = text("messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(Error::required(&path.child("messageExpression"), detail));
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str)
        && !REASONS.contains(&reason)
    {
        errors.push(Error::not_supported(
            &path.child("reason"),
            reason,
            &REASONS,
        ));
    }
    let field_path = text("fieldPath");
    if field_path.is_empty() {
        return;
    }
    let at = path.child("fieldPath");
    if field_path.trim().is_empty() {
        errors.push(Error::invalid(
            &at,
            field_path,
            "must be non-empty if specified",
        ));
    }
    if has_line_breaks(field_path) {
        errors.push(Error::invalid(
            &at,
            field_path,
            "must not contain line breaks",
        ));
    }
    if !names_a_field(schema, field_path) {
        errors.push(Error::invalid(&at, field_path, "must be a valid path"));
    }
}

/// Whether a path like `.a['b'].c` leads through the schema to a field of it.
fn names_a_field(schema: &Value, path: &str) -> bool {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(bracket) = rest.strip_prefix("['") {
            let Some((quoted, after)) = bracket.split_once("']") else {
                return false;
            };
            (name, rest) = (quoted.replace("\\'", "'").replace("\\\\", "\\"), after);
        } else if let Some(dotted) = rest.strip_prefix('.') {
            let end = dotted.find(['.', '[']).unwrap_or(dotted.len());
            (name, rest) = (dotted[..end].to_owned(), &dotted[end..]);
        } else {
            return false;
        }
        let property = schema.get("properties").and_then(|p| p.get(&name));
        let additional = schema.get("additionalProperties").filter(|a| a.is_object());
        match property.or(additional) {
            Some(below) if !name.is_empty() => schema = below,
            _ => return false,
        }
    }
    true
}
