//! Aggregated discovery, whose types no resource has and so no facts describe.

use serde_json::Value;

use super::encode;
use super::wire::Writer;
use crate::schema::Types;

/// The version in which aggregated discovery is written.
pub(super) const API_VERSION: &str = "apidiscovery.k8s.io/v2";

/// Writes an `APIGroupDiscoveryList`.
pub(super) fn list(types: &Types, list: &Value, out: &mut Writer) -> Option<()> {
    let meta = |name: &str| types.named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"));
    let (of_object, of_list) = (meta("ObjectMeta")?, meta("ListMeta")?);
    out.message(1, |out| encode::message(out, of_list, &list["metadata"]));
    out.messages(2, &list["items"], |out, group| {
        out.message(1, |out| encode::message(out, of_object, &group["metadata"]));
        out.messages(2, &group["versions"], version);
    });
    Some(())
}

fn version(out: &mut Writer, version: &Value) {
    text(out, 1, &version["version"]);
    out.messages(2, &version["resources"], resource);
    text(out, 3, &version["freshness"]);
}

fn resource(out: &mut Writer, resource: &Value) {
    text(out, 1, &resource["resource"]);
    response_kind(out, 2, &resource["responseKind"]);
    text(out, 3, &resource["scope"]);
    text(out, 4, &resource["singularResource"]);
    texts(out, 5, &resource["verbs"]);
    texts(out, 6, &resource["shortNames"]);
    texts(out, 7, &resource["categories"]);
    out.messages(8, &resource["subresources"], subresource);
}

fn subresource(out: &mut Writer, subresource: &Value) {
    text(out, 1, &subresource["subresource"]);
    response_kind(out, 2, &subresource["responseKind"]);
    texts(out, 4, &subresource["verbs"]);
}

fn response_kind(out: &mut Writer, number: u32, kind: &Value) {
    if kind.is_object() {
        out.message(number, |out| {
            text(out, 1, &kind["group"]);
            text(out, 2, &kind["version"]);
            text(out, 3, &kind["kind"]);
        });
    }
}

/// Written though it be empty, as Go writes a field that is no pointer.
fn text(out: &mut Writer, number: u32, value: &Value) {
    out.bytes(number, value.as_str().unwrap_or_default().as_bytes());
}

fn texts(out: &mut Writer, number: u32, list: &Value) {
    let texts = list.as_array().into_iter().flatten();
    texts.for_each(|item| text(out, number, item));
}
