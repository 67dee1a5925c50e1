//! Rules of CertificateSigningRequests.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/certificates/certificates/strategy.go`
//! - `pkg/apis/certificates/v1/conversion.go`

mod validate;

use serde_json::{Value, json};

use super::value::{Read, Write};
use super::{Cx, Rules, UnknownFields, Update};
use crate::request::user::User;
use validate::Endpoint;

pub(super) const RULES: Rules = Rules {
    prepare_for_create: |cx, request| {
        name_sender(cx.user, request.object("spec"));
        request.set("status", json!({}));
    },
    prepare_for_update: |_, new, old| {
        new.copy_from("spec", old);
        new.copy_from("status", old);
    },
    prepare_for_status_update: |cx, new, old| {
        new.copy_from("spec", old);
        for kind in ["Approved", "Denied"] {
            keep_conditions(new, old, kind);
        }
        stamp_conditions(cx, new, old);
    },
    validate: |_, request| validate::create(request),
    validate_update: |_, new, old| validate::update(new, old, Endpoint::Main),
    validate_status_update: |_, new, old| validate::update(new, old, Endpoint::Status),
    subresources: &[("approval", APPROVAL)],
    selectable_fields: &[("spec.signerName", |request| {
        request.at("spec").text("signerName").to_owned()
    })],
    unknown_fields: UnknownFields::NotSupported,
    ..Rules::NEUTRAL
};

/// Who asks for a certificate is who sent the request, whatever that says.
fn name_sender(user: &User, spec: &mut Value) {
    spec.set("username", user.name.as_str());
    spec.set("uid", user.uid.as_str());
    spec.set("groups", user.groups.clone());
    match user.extra.is_empty() {
        true => spec.remove("extra"),
        false => spec.set("extra", json!(user.extra)),
    }
}

/// An update through `/approval` changes only conditions.
const APPROVAL: Update = Update {
    prepare: |cx, new, old| {
        stamp_conditions(cx, new, old);
        let conditions = new.at("status").clone();
        new.copy_from("spec", old);
        new.copy_from("status", old);
        new.object("status").copy_from("conditions", &conditions);
    },
    validate: |_, new, old| validate::update(new, old, Endpoint::Approval),
};

/// Restores the conditions of type `kind` from `old`. If their number differs they are kept for
/// validation to refuse.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let of_kind = |request: &Value| -> Vec<Value> {
        let conditions = request.at("status").items("conditions").iter();
        conditions
            .filter(|condition| condition.text("type") == kind)
            .cloned()
            .collect()
    };
    let kept = of_kind(old);
    if kept.len() != of_kind(new).len() {
        return;
    }
    let conditions = new.object("status").items_mut("conditions").iter_mut();
    for (condition, kept) in conditions
        .filter(|condition| condition.text("type") == kind)
        .zip(kept)
    {
        *condition = kept;
    }
}

/// Sets the times that new conditions leave out.
fn stamp_conditions(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    for condition in new.object("status").items_mut("conditions") {
        condition.default_to("lastUpdateTime", cx.time());
        let mut before = old.at("status").items("conditions").iter();
        let same = before.find(|old| {
            old.at("type") == condition.at("type")
                && old.at("status") == condition.at("status")
                && old.has("lastTransitionTime")
        });
        let since = same.map_or(cx.time().into(), |old| old.at("lastTransitionTime").clone());
        condition.default_to("lastTransitionTime", since);
    }
}
