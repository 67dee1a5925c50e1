//! Accepts the names of a definition, each of which must be unused in its group.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go`

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{text, texts};

/// The accepted names of the other definitions of a group.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    /// Adds the accepted names of a definition.
    pub(crate) fn add(&mut self, definition: &Value) {
        let names = &definition["status"]["acceptedNames"];
        for name in ["plural", "singular"] {
            self.resources.insert(text(&names[name]).to_owned());
        }
        self.resources.extend(texts(&names["shortNames"]));
        for name in ["kind", "listKind"] {
            self.kinds.insert(text(&names[name]).to_owned());
        }
    }
}

/// The status of a definition with its accepted names and the conditions `NamesAccepted` and
/// `Established`.
pub(crate) fn status(definition: &Value, taken: &Taken, now: &str) -> Value {
    let wanted = &definition["spec"]["names"];
    let mut status = definition["status"].clone();
    let mut accepted = status["acceptedNames"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let mut conflict: Option<(&str, String)> = None;
    for (name, reason, used) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let refused = if name == "shortNames" {
            short_names(&wanted[name], accepted.get(name), used)
        } else {
            let name = text(&wanted[name]);
            let own = accepted.iter().any(|(_, value)| value == name);
            (!own && used.contains(name)).then(|| format!("\"{name}\" is already in use"))
        };
        match refused {
            Some(message) => conflict = Some((reason, message)),
            None => put(&mut accepted, name, &wanted[name]),
        }
    }
    put(&mut accepted, "categories", &wanted["categories"]);
    for required in ["plural", "kind"] {
        accepted.entry(required).or_insert_with(|| "".into());
    }
    status["acceptedNames"] = Value::Object(accepted);

    let names = match &conflict {
        Some((reason, message)) => ("NamesAccepted", "False", *reason, message.as_str()),
        None => ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
    };
    set_condition(&mut status, names, now);
    let established = find(&status, "Established").is_some_and(|own| own["status"] == "True");
    if !established {
        let condition = if conflict.is_none() {
            (
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            )
        } else {
            (
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
            )
        };
        set_condition(&mut status, condition, now);
    }
    status
}

fn short_names(
    wanted: &Value,
    accepted: Option<&Value>,
    used: &BTreeSet<String>,
) -> Option<String> {
    let own = accepted.map(texts).unwrap_or_default();
    let refused: Vec<String> = texts(wanted)
        .into_iter()
        .filter(|name| !own.contains(name) && used.contains(name))
        .map(|name| format!("\"{name}\" is already in use"))
        .collect();
    (!refused.is_empty()).then(|| sendo_apimachinery::status::aggregate(refused))
}

fn put(names: &mut Map<String, Value>, name: &str, value: &Value) {
    if value.is_null() {
        names.remove(name);
    } else {
        names.insert(name.to_owned(), value.clone());
    }
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"]
        .as_array()?
        .iter()
        .find(|own| own["type"] == kind)
}

/// Whether a definition is established, and so is served.
pub(crate) fn is_established(definition: &Value) -> bool {
    find(&definition["status"], "Established").is_some_and(|own| own["status"] == "True")
}

/// Sets a condition (type, status, reason, message). `lastTransitionTime` changes only with the
/// status.
pub(crate) fn set_condition(status: &mut Value, condition: (&str, &str, &str, &str), now: &str) {
    let (kind, state, reason, message) = condition;
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let conditions = status["conditions"]
        .as_array_mut()
        .expect("it was made one above");
    let mut new = json!({
        "type": kind,
        "status": state,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|own| own["type"] == kind) {
        Some(own) => {
            if own["status"] == state {
                new["lastTransitionTime"] = own["lastTransitionTime"].clone();
            }
            *own = new;
        }
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({
            "spec": {"names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                "listKind": format!("{kind}List"), "shortNames": short,
            }},
            "status": {"acceptedNames": {"plural": "", "kind": ""}, "conditions": null},
        })
    }

    fn reasons(status: &Value) -> Vec<&str> {
        status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| text(&own["reason"]))
            .collect()
    }

    #[test]
    fn free_names_are_accepted_and_establish() {
        let status = status(
            &definition("widgets", "Widget", &["w"]),
            &Taken::default(),
            "t",
        );
        assert_eq!(reasons(&status), ["NoConflicts", "InitialNamesAccepted"]);
        assert_eq!(status["acceptedNames"]["shortNames"], json!(["w"]));
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let mut taken = Taken::default();
        let mut other = definition("gadgets", "Gadget", &["w"]);
        other["status"] = status(&other, &Taken::default(), "t");
        taken.add(&other);
        let status = status(&definition("widgets", "Widget", &["w", "x"]), &taken, "t");
        assert_eq!(reasons(&status), ["ShortNamesConflict", "NotAccepted"]);
        assert_eq!(
            status["conditions"][0]["message"],
            "\"w\" is already in use"
        );
        assert_eq!(status["acceptedNames"].get("shortNames"), None);
        assert_eq!(status["acceptedNames"]["plural"], "widgets");
    }

    #[test]
    fn a_kind_that_is_taken_clashes_in_its_list_last() {
        let mut taken = Taken::default();
        let mut other = definition("widgets", "Widget", &[]);
        other["status"] = status(&other, &Taken::default(), "t");
        taken.add(&other);
        let status = status(&definition("gizmos", "Widget", &[]), &taken, "t");
        assert_eq!(reasons(&status), ["ListKindConflict", "NotAccepted"]);
    }
}
