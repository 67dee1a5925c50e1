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

/// What a query parameter means, as a field of these options.
pub(super) fn parameter(name: &str, options: &str) -> Option<&'static str> {
    Some(match name {
        "fieldManager" if options == "PatchOptions" => {
            "Who owns the fields that change: up to 128 printable characters. An apply must say it."
        }
        "fieldManager" => {
            "Who owns the fields that change: up to 128 printable characters; by default the \
             first word of the user agent."
        }
        "fieldValidation" => {
            "What becomes of fields that are unknown or there twice. Ignore: they are dropped, the \
             last of several counts. Warn, the default: the same, with a warning for each. \
             Strict: the request is refused."
        }
        "force" => "Whether an apply takes over fields that others own and that it changes.",
        "pretty" => {
            "Whether JSON comes in lines; by default it does for the tools people type at a prompt."
        }
        _ => return None,
    })
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
