//! The options of a deletion, as a body holds them.

use serde_json::Value;

use super::DecodeError;
use super::body::{Body, unregistered};
use crate::schema::Types;

/// What options without a version are of.
const META: &str = "meta.k8s.io/v1";
/// What is known in every version.
const UNVERSIONED: [&str; 7] = [
    "CreateOptions",
    "UpdateOptions",
    "Status",
    "APIVersions",
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
];
/// What else `meta.k8s.io/v1` knows, and that no deletion takes.
const VERSIONED: [&str; 8] = [
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "WatchEvent",
    "Table",
    "TableOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
];
/// Those of them that its beta knew by the same types.
const BETA: [&str; 3] = ["Table", "TableOptions", "PartialObjectMetadata"];

impl Body<'_> {
    /// Reads `DeleteOptions`. They are the same in every group and version, a body
    /// that names no kind is one, and unknown fields pass.
    pub fn delete_options(&self, types: &Types) -> Result<Value, DecodeError> {
        let (parsed, named) = self.parts().map_err(DecodeError)?;
        let version = named.version.to_string();
        if named.version.version.is_empty() && !named.version.group.is_empty() {
            let body = String::from_utf8_lossy(self.bytes);
            let why = format!("Object 'apiVersion' is missing in '{body}'");
            return Err(DecodeError(why));
        }
        check_delete_options(&version, &named.kind)?;
        let schema = types
            .kind("v1", "DeleteOptions")
            .expect("a kind of every group");
        let decoded = parsed.typed(schema).map_err(DecodeError)?;
        Ok(decoded.value)
    }
}

/// Refuses a body of another kind than `DeleteOptions`; what is left empty is as expected.
pub fn check_delete_options(api_version: &str, kind: &str) -> Result<(), DecodeError> {
    let version = match api_version {
        "" => META,
        own => own,
    };
    let known = UNVERSIONED.contains(&kind)
        || version == META && VERSIONED.contains(&kind)
        || version == "meta.k8s.io/v1beta1" && BETA.contains(&kind);
    match kind {
        "" | "DeleteOptions" => Ok(()),
        _ if known => Err(DecodeError(format!(
            "converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion"
        ))),
        _ => Err(DecodeError(unregistered(version, kind))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Format;

    fn read(body: &str) -> Result<Value, String> {
        let body = Body {
            bytes: body.as_bytes(),
            format: Format::Json,
            validation: Default::default(),
        };
        let options = body.delete_options(&Types::builtin());
        options.map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_taken_in_any_version_and_without_one() {
        for head in [
            "",
            r#""kind": "DeleteOptions","#,
            r#""apiVersion": "apps/v1","#,
            r#""kind": "DeleteOptions", "apiVersion": "example.dev/v3","#,
        ] {
            let options = read(&format!(r#"{{{head} "gracePeriodSeconds": 5, "odd": 1}}"#));
            assert_eq!(options.unwrap()["gracePeriodSeconds"], 5, "{head}");
        }
    }

    #[test]
    fn other_kinds_are_refused_by_what_is_known_of_them() {
        let refused = |body: &str| read(body).unwrap_err();
        assert_eq!(
            refused(r#"{"kind": "Pod"}"#),
            r#"no kind "Pod" is registered for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111""#
        );
        assert_eq!(
            refused(r#"{"kind": "ListOptions", "apiVersion": "v1"}"#),
            r#"no kind "ListOptions" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#
        );
        for (kind, version) in [
            ("ListOptions", META),
            ("Status", "apps/v1"),
            ("Table", "meta.k8s.io/v1beta1"),
        ] {
            assert_eq!(
                refused(&format!(
                    r#"{{"kind": "{kind}", "apiVersion": "{version}"}}"#
                )),
                format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
            );
        }
        assert_eq!(
            refused(r#"{"apiVersion": "example.dev/"}"#),
            r#"Object 'apiVersion' is missing in '{"apiVersion": "example.dev/"}'"#
        );
        assert!(refused("[]").starts_with("couldn't get version/kind; json parse error: json: "));
    }
}
