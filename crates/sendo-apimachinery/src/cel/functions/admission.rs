//! The functions of the authoriser, and those of JSON patches.

use super::Sig::{Bool, Named, Text};
use super::{
    AUTHORIZER, DECISION, Function, GROUP_CHECK, Overload, PATH_CHECK, RESOURCE_CHECK, Sig, call,
    global, member,
};
use crate::cel::cost::Price;
use crate::cel::library::{authorizer, json_patch};

const Z: Sig = Named(AUTHORIZER);
const P: Sig = Named(PATH_CHECK);
const G: Sig = Named(GROUP_CHECK);
const R: Sig = Named(RESOURCE_CHECK);
const D: Sig = Named(DECISION);

const NARROWS: &[Overload] = &[member(&[R, Text], R)];

pub(super) const AUTHORIZATION: &[Function] = &[
    call(
        "path",
        Price::Unit,
        authorizer::path,
        &[member(&[Z, Text], P)],
    ),
    call(
        "group",
        Price::Unit,
        authorizer::group,
        &[member(&[Z, Text], G)],
    ),
    call(
        "serviceAccount",
        Price::Unit,
        authorizer::service_account,
        &[member(&[Z, Text, Text], Z)],
    ),
    call(
        "resource",
        Price::Unit,
        authorizer::resource,
        &[member(&[G, Text], R)],
    ),
    call("subresource", Price::Unit, authorizer::subresource, NARROWS),
    call("namespace", Price::Unit, authorizer::namespace, NARROWS),
    call("name", Price::Unit, authorizer::name, NARROWS),
    call(
        "fieldSelector",
        Price::Selector,
        authorizer::field_selector,
        NARROWS,
    ),
    call(
        "labelSelector",
        Price::Selector,
        authorizer::label_selector,
        NARROWS,
    ),
    call(
        "check",
        Price::AuthorizationCheck,
        authorizer::check,
        &[member(&[P, Text], D), member(&[R, Text], D)],
    ),
    call(
        "allowed",
        Price::Unit,
        authorizer::allowed,
        &[member(&[D], Bool)],
    ),
    call(
        "reason",
        Price::Unit,
        authorizer::reason,
        &[member(&[D], Text)],
    ),
    call(
        "errored",
        Price::Unit,
        authorizer::errored,
        &[member(&[D], Bool)],
    ),
    call(
        "error",
        Price::Unit,
        authorizer::error,
        &[member(&[D], Text)],
    ),
];

/// Where patches are made only ([`Variables::with_patches`](crate::cel::Variables::with_patches)).
pub(super) const PATCHES: &[Function] = &[call(
    ESCAPE_KEY,
    Price::Rewrite,
    json_patch::escape_key,
    &[global(&[Text], Text)],
)];

pub(super) const ESCAPE_KEY: &str = "jsonpatch.escapeKey";
