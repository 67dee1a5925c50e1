//! Compares pod templates, and hashes them for the names of ReplicaSets and ControllerRevisions.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/controller_utils.go`: `ComputeHash`
//! - `pkg/controller/deployment/sync.go`: `generateReplicaSetName`
//! - `pkg/controller/deployment/util/deployment_util.go`: `EqualIgnoreHash`

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// The label that tells the pods of a Deployment's ReplicaSets apart.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// The longest name an object may have.
const MAX_NAME: usize = 253;

/// The characters of a hash: without vowels, so that no words appear, and without characters that
/// are easily mistaken for others.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template, at most ten characters. Another collision count gives another hash of
/// the same template.
///
/// The form is that of Kubernetes: FNV-1a, with each decimal digit as a character of [`ALPHABET`].
/// The value is another one, because that of Kubernetes depends on how Go prints its types.
pub(crate) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let text = serde_json::to_vec(template).expect("a template is plain data");
    let mut hash = fnv1a(FNV_OFFSET, &text);
    if let Some(collisions) = collisions {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&collisions.to_le_bytes());
        hash = fnv1a(hash, &bytes);
    }
    safe_encode(&hash.to_string())
}

/// The text with each byte as a character of [`ALPHABET`].
pub(crate) fn safe_encode(text: &str) -> String {
    let encode = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    text.bytes().map(encode).collect()
}

const FNV_OFFSET: u32 = 0x811c_9dc5;

fn fnv1a(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// The name of the ReplicaSet of a template.
pub(crate) fn set_name(deployment: &str, hash: &str) -> String {
    let max_prefix = MAX_NAME - 1 - hash.len();
    let prefix = &deployment[..deployment.floor_char_boundary(max_prefix)];
    format!("{prefix}-{hash}")
}

/// Whether two templates are equal without the hash label.
pub(crate) fn are_equal(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    normalized(a) == normalized(b)
}

/// The template without the hash label and without empty fields.
fn normalized(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(metadata) = &mut template.metadata {
        if let Some(labels) = &mut metadata.labels {
            labels.remove(HASH_LABEL);
        }
        metadata.labels.take_if(|labels| labels.is_empty());
        metadata.annotations.take_if(|kept| kept.is_empty());
        metadata.creation_timestamp = None;
    }
    template
        .metadata
        .take_if(|metadata| *metadata == Default::default());
    template
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn template(labels: Value, image: &str) -> PodTemplateSpec {
        let template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": image}]},
        });
        serde_json::from_value(template).unwrap()
    }

    #[test]
    fn the_hash_is_that_of_fnv_1a() {
        assert_eq!(fnv1a(FNV_OFFSET, b""), 0x811c_9dc5);
        assert_eq!(fnv1a(FNV_OFFSET, b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_hash_is_short_and_of_safe_characters() {
        let hash = hash(&template(json!({"app": "web"}), "web:1"), None);
        assert!((1..=10).contains(&hash.len()), "{hash}");
        assert!(hash.bytes().all(|byte| ALPHABET.contains(&byte)), "{hash}");
    }

    #[test]
    fn each_template_and_collision_count_has_its_own_hash() {
        let one = template(json!({"app": "web"}), "web:1");
        let two = template(json!({"app": "web"}), "web:2");
        let hashes = [
            hash(&one, None),
            hash(&two, None),
            hash(&one, Some(1)),
            hash(&one, Some(2)),
        ];
        let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len(), "{hashes:?}");
        assert_eq!(hash(&one, None), hashes[0]);
    }

    #[test]
    fn the_hash_label_makes_no_difference() {
        let plain = template(json!({"app": "web"}), "web:1");
        let labelled = template(json!({"app": "web", HASH_LABEL: "bcd"}), "web:1");
        let other = template(json!({"app": "api"}), "web:1");
        assert!(are_equal(&plain, &labelled));
        assert!(!are_equal(&plain, &other));
    }

    #[test]
    fn a_long_name_is_cut_before_the_hash() {
        assert_eq!(set_name("web", "bcd"), "web-bcd");
        let name = set_name(&"a".repeat(253), "bcd");
        assert_eq!(name.len(), 253);
        assert!(name.ends_with("a-bcd"));
    }
}
