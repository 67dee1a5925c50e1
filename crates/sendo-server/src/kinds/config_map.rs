//! Rules of ConfigMaps.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateConfigMap`, `ValidateConfigMapUpdate`
//! - `pkg/registry/core/configmap/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::Rules;
use super::check::{self, Errors};
use super::secret::{MAX_SIZE, decoded_length, immutable_members};
use super::value::Read;

pub(super) const RULES: Rules = Rules {
    validate: |_, config_map| validate(config_map),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        immutable_members(&mut errors, new, old, &["data", "binaryData"]);
        errors.extend(validate(new));
        errors
    },
    ..Rules::NEUTRAL
};

fn validate(config_map: &Value) -> Errors {
    let mut errors = check::new_metadata(config_map, Scope::Namespaced, names::dns1123_subdomain);
    let mut size = 0;
    for (key, value) in config_map.entries("data") {
        let path = Path::new("data").key(key);
        check::faults(&mut errors, &path, key, names::config_map_key(key));
        if config_map.at("binaryData").get(key).is_some() {
            errors.push(Error::invalid(
                &path,
                key,
                "duplicate of key present in binaryData",
            ));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in config_map.entries("binaryData") {
        let path = Path::new("binaryData").key(key);
        check::faults(&mut errors, &path, key, names::config_map_key(key));
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        errors.push(Error::too_long(&Path::new(""), MAX_SIZE));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_file_names_and_occur_once() {
        let map = json!({
            "metadata": {"name": "c", "namespace": "n"},
            "data": {"a b": "", "k": ""},
            "binaryData": {"k": ""},
        });
        let fields: Vec<String> = validate(&map)
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(fields, ["data[a b]", "data[k]"]);
    }

    #[test]
    fn values_have_a_mebibyte_together() {
        let map = |length: usize| json!({"metadata": {"name": "c", "namespace": "n"}, "data": {"k": "x".repeat(length)}});
        assert_eq!(validate(&map(MAX_SIZE)), []);
        assert_eq!(
            validate(&map(MAX_SIZE + 1))[0].to_string(),
            "[]: Too long: may not be more than 1048576 bytes"
        );
    }
}
