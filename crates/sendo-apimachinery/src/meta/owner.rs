//! Owner references.

use serde_json::Value;

use crate::go_text::go_json;

/// One of an object's owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The owner's group and version.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name.
    pub name: &'a str,
    /// The owner's uid: another object of the same name is no owner.
    pub uid: &'a str,
    /// Whether this owner controls the object; at most one does.
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for the object.
    pub block_owner_deletion: Option<bool>,
}

impl<'a> OwnerReference<'a> {
    /// Reads an item of `ownerReferences`; absent members are empty.
    pub fn from_value(value: &'a Value) -> Self {
        let text = |member| {
            value
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let flag = |member| value.get(member).and_then(Value::as_bool);
        OwnerReference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: flag("controller"),
            block_owner_deletion: flag("blockOwnerDeletion"),
        }
    }

    /// The JSON that messages show, its members in the order of Go's type.
    pub(super) fn go_text(&self) -> String {
        let quoted = |text: &str| go_json(&Value::from(text));
        let mut out = format!(
            "{{\"apiVersion\":{},\"kind\":{},\"name\":{},\"uid\":{}",
            quoted(self.api_version),
            quoted(self.kind),
            quoted(self.name),
            quoted(self.uid)
        );
        let flags = [
            ("controller", self.controller),
            ("blockOwnerDeletion", self.block_owner_deletion),
        ];
        for (name, flag) in flags {
            if let Some(flag) = flag {
                out.push_str(&format!(",\"{name}\":{flag}"));
            }
        }
        out.push('}');
        out
    }
}
