//! What documents say of operations, parameters and lists.
//!
//! Types and their fields are described by whoever has their sentences; these
//! follow from names alone, or belong to every resource.

const WATCH_WITH_A_LIST: &str =
    "deprecated: use the 'watch' parameter with a list operation instead";

/// What an action does with a kind, or with a subresource of it.
pub(super) fn action(action: &str, kind: &str, of: Option<&str>) -> String {
    let specified = |does: &str| match of {
        Some(part) => format!("{does} {part} of the specified {kind}"),
        None => format!("{does} the specified {kind}"),
    };
    match action {
        "get" => specified("read"),
        "put" => specified("replace"),
        "patch" => specified("partially update"),
        "post" => match of {
            Some(part) => format!("create {part} of {}", with_article(kind)),
            None => format!("create {}", with_article(kind)),
        },
        "delete" => format!("delete {}", with_article(kind)),
        "deletecollection" => format!("delete collection of {kind}"),
        "watch" => format!(
            "watch changes to an object of kind {kind}. {WATCH_WITH_A_LIST}, \
             filtered to a single item with the 'fieldSelector' parameter."
        ),
        "watchlist" => {
            format!("watch individual changes to a list of {kind}. {WATCH_WITH_A_LIST}.")
        }
        other => format!("{other} objects of kind {kind}"),
    }
}

/// Plurals have no article; a class is none.
fn with_article(noun: &str) -> String {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return noun.to_owned();
    }
    let is_vowel = noun.starts_with(['A', 'E', 'I', 'O', 'U']);
    format!("{} {noun}", if is_vowel { "an" } else { "a" })
}

const MANAGER: &str = "fieldManager is a name associated with the actor or entity that is making \
     these changes. The value must be less than or 128 characters long, and only contain printable \
     characters, as defined by https://golang.org/pkg/unicode/#IsPrint.";

/// What a query parameter means, as a field of these options.
pub(super) fn parameter(name: &str, options: &str) -> Option<String> {
    let text = match name {
        "fieldManager" if options == "PatchOptions" => {
            return Some(format!(
                "{MANAGER} This field is required for apply requests (application/apply-patch) \
                 but optional for non-apply patch types (JsonPatch, MergePatch, \
                 StrategicMergePatch)."
            ));
        }
        "fieldManager" => MANAGER,
        "fieldValidation" => {
            "fieldValidation instructs the server on how to handle objects in the request \
             (POST/PUT/PATCH) containing unknown or duplicate fields. Valid values are: - Ignore: \
             This will ignore any unknown fields that are silently dropped from the object, and \
             will ignore all but the last duplicate field that the decoder encounters. This is \
             the default behavior prior to v1.23. - Warn: This will send a warning via the \
             standard warning response header for each unknown field that is dropped from the \
             object, and for each duplicate field that is encountered. The request will still \
             succeed if there are no other errors, and will only persist the last of any \
             duplicate fields. This is the default in v1.23+ - Strict: This will fail the request \
             with a BadRequest error if any unknown fields would be dropped from the object, or \
             if any duplicate fields are present. The error returned from the server will contain \
             all unknown and duplicate fields encountered."
        }
        "force" => {
            "Force is going to \"force\" Apply requests. It means user will re-acquire \
             conflicting fields owned by other people. Force flag must be unset for non-apply \
             patch requests."
        }
        "pretty" => {
            "If 'true', then the output is pretty printed. Defaults to 'false' unless the \
             user-agent indicates a browser or command-line HTTP tool (curl and wget)."
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// What a list of a kind is, or what one of its fields holds.
pub(super) fn list(kind: &str, field: Option<&str>) -> Option<String> {
    Some(match field {
        None => format!("{kind}List is a list of {kind}s."),
        Some("items") => format!("Items is the list of {kind}s."),
        Some("metadata") => "Standard list metadata.".to_owned(),
        Some(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_says_what_it_does_with_what() {
        assert_eq!(action("get", "Pod", None), "read the specified Pod");
        assert_eq!(
            action("patch", "Deployment", Some("scale")),
            "partially update scale of the specified Deployment"
        );
        assert_eq!(
            action("post", "Pod", Some("eviction")),
            "create eviction of a Pod"
        );
        assert_eq!(action("delete", "Event", None), "delete an Event");
        assert_eq!(action("post", "Endpoints", None), "create Endpoints");
        assert_eq!(
            action("delete", "StorageClass", None),
            "delete a StorageClass"
        );
        assert_eq!(
            action("list or watch", "Pod", None),
            "list or watch objects of kind Pod"
        );
    }
}
