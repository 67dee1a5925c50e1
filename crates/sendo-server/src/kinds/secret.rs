//! Rules of Secrets.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateSecret`, `ValidateSecretUpdate`
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_Secret`
//! - `pkg/apis/core/v1/conversion.go`: `Convert_v1_Secret_To_core_Secret`,
//!   `AddFieldLabelConversionsForSecret`
//! - `pkg/registry/core/secret/strategy.go`
//! - `$GOROOT/src/encoding/json/decode.go`: `Unmarshal`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sendo_apimachinery::decode::{Format, untyped};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::check::{self, Errors};
use super::value::{Read, Write};
use super::{NAMESPACE, Rules, UnknownFields, key_pair};

/// The maximum size of the data of a Secret or ConfigMap, in bytes.
pub(super) const MAX_SIZE: usize = 1024 * 1024;

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_update: |_, new, old| new.default_if_zero("type", old.at("type").clone()),
    validate: |_, secret| validate(secret),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        check::immutable(
            &mut errors,
            &Path::new("type"),
            new.at("type"),
            old.at("type"),
        );
        immutable_members(&mut errors, new, old, &["data"]);
        errors.extend(validate(new));
        errors
    },
    warnings_on_create: warnings,
    warnings_on_update: |new, _| warnings(new),
    selectable_fields: &[NAMESPACE, ("type", |secret| secret.text("type").to_owned())],
    unknown_fields: UnknownFields::NotSupported,
    ..Rules::NEUTRAL
};

/// Sets the default type and moves `stringData`, which is write-only, into `data`.
fn default(secret: &mut Value) {
    secret.default_if_zero("type", "Opaque");
    let texts: Vec<(String, String)> = secret
        .entries("stringData")
        .map(|(key, text)| {
            (
                key.to_owned(),
                STANDARD.encode(text.as_str().unwrap_or_default()),
            )
        })
        .collect();
    for (key, encoded) in texts {
        secret.object("data").set(&key, encoded);
    }
    secret.remove("stringData");
    if let Some(data) = secret.existing("data").and_then(Value::as_object_mut) {
        for value in data.values_mut().filter(|value| value.is_null()) {
            *value = "".into();
        }
    }
}

fn validate(secret: &Value) -> Errors {
    let mut errors = check::new_metadata(secret, Scope::Namespaced, names::dns1123_subdomain);
    let path = Path::new("data");
    let mut size = 0;
    for (key, value) in secret.entries("data") {
        check::faults(&mut errors, &path.key(key), key, names::config_map_key(key));
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        errors.push(Error::too_long(&path, MAX_SIZE));
    }
    content(&mut errors, &path, secret);
    errors
}

/// Validates the keys and values that the type of the Secret requires.
fn content(errors: &mut Errors, path: &Path, secret: &Value) {
    let data = secret.at("data");
    let mut require = |key: &str| {
        if data.get(key).is_none() {
            errors.push(Error::required(&path.key(key), ""));
        }
    };
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            let path = Path::new("metadata").child("annotations").key(NAME);
            check::required(
                errors,
                &path,
                secret.at("metadata").at("annotations").text(NAME),
            );
        }
        "kubernetes.io/dockercfg" => {
            docker_config(errors, &path.key(".dockercfg"), data.get(".dockercfg"))
        }
        "kubernetes.io/dockerconfigjson" => {
            let key = ".dockerconfigjson";
            docker_config(errors, &path.key(key), data.get(key));
        }
        "kubernetes.io/basic-auth"
            if data.get("username").is_none() && data.get("password").is_none() =>
        {
            ["username", "password"].into_iter().for_each(require);
        }
        "kubernetes.io/ssh-auth" => {
            check::required(
                errors,
                &path.key("ssh-privatekey"),
                data.text("ssh-privatekey"),
            );
        }
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().for_each(&mut require),
        _ => {}
    }
}

/// Validates registry credentials, which must be a JSON object.
fn docker_config(errors: &mut Errors, path: &Path, value: Option<&Value>) {
    let Some(value) = value else {
        errors.push(Error::required(path, ""));
        return;
    };
    let bytes = STANDARD
        .decode(value.as_str().unwrap_or_default())
        .unwrap_or_default();
    if let Some(fault) = json_object_fault(&bytes) {
        errors.push(Error::invalid(path, "<secret contents redacted>", fault));
    }
}

/// Go's error message if the bytes are not a JSON object.
fn json_object_fault(bytes: &[u8]) -> Option<String> {
    let found = match untyped(bytes, Format::Json) {
        Ok(decoded) => decoded.value,
        Err(error) => return Some(error.to_string()),
    };
    let what = match found {
        Value::Object(_) | Value::Null => return None,
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    Some(format!(
        "json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
    ))
}

/// Warnings for a TLS Secret whose certificate and key are not a pair, which is accepted.
fn warnings(secret: &Value) -> Vec<String> {
    if secret.text("type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let decoded = |key: &str| {
        STANDARD
            .decode(secret.at("data").text(key))
            .unwrap_or_default()
    };
    let fault = key_pair::fault(&decoded("tls.crt"), &decoded("tls.key"));
    fault.into_iter().collect()
}

/// The number of bytes that a base64 value of `data` decodes to.
pub(super) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Validates that an object marked `immutable` changes neither these fields nor the mark.
pub(super) fn immutable_members(errors: &mut Errors, new: &Value, old: &Value, members: &[&str]) {
    const IMMUTABLE: &str = "field is immutable when `immutable` is set";
    if !old.is_set("immutable") {
        return;
    }
    if !new.is_set("immutable") {
        errors.push(Error::forbidden(&Path::new("immutable"), IMMUTABLE));
    }
    for member in members {
        if !new.entries(member).eq(old.entries(member)) {
            errors.push(Error::forbidden(&Path::new(member), IMMUTABLE));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_text_wins_over_encoded_data() {
        let mut secret = json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"a": "z"}});
        default(&mut secret);
        assert_eq!(
            secret,
            json!({"data": {"a": "eg==", "b": "eQ=="}, "type": "Opaque"})
        );
    }

    #[test]
    fn each_type_requires_its_keys() {
        let secret = |kind: &str, data: Value| json!({"metadata": {"name": "s", "namespace": "n"}, "type": kind, "data": data});
        let encoded = |text: &str| STANDARD.encode(text);
        let cases = [
            (secret("Opaque", json!({})), vec![]),
            (
                secret("kubernetes.io/tls", json!({"tls.crt": ""})),
                vec!["data[tls.key]: Required value"],
            ),
            (
                secret("kubernetes.io/basic-auth", json!({})),
                vec![
                    "data[username]: Required value",
                    "data[password]: Required value",
                ],
            ),
            (
                secret("kubernetes.io/basic-auth", json!({"password": "eA=="})),
                vec![],
            ),
            (
                secret(
                    "kubernetes.io/dockerconfigjson",
                    json!({".dockerconfigjson": encoded("{}")}),
                ),
                vec![],
            ),
            (
                secret(
                    "kubernetes.io/dockerconfigjson",
                    json!({".dockerconfigjson": encoded("nope")}),
                ),
                vec![
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": \
                     invalid character 'o' in literal null (expecting 'u')",
                ],
            ),
        ];
        for (secret, expected) in cases {
            let found: Vec<String> = validate(&secret).iter().map(Error::to_string).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn encoded_bytes_are_counted_without_padding() {
        for length in 0..10 {
            let encoded = STANDARD.encode("x".repeat(length));
            assert_eq!(decoded_length(&encoded.into()), length);
        }
    }
}
