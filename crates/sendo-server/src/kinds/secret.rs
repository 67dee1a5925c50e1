//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::value::{Read, Write};
use super::{NAMESPACE, Rules, UnknownFields};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_update: |_, new, old| new.default_if_zero("type", old.at("type").clone()),
    selectable_fields: &[NAMESPACE, ("type", |secret| secret.text("type").to_owned())],
    unknown_fields: UnknownFields::NotSupported,
    ..Rules::NEUTRAL
};

/// `stringData` is a way to write `data` without encoding it, and is never kept.
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
}
