//! Encodes objects and lists in the form that the client requested.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use sendo_apimachinery::Status;
use sendo_apimachinery::status::Reason;
use sendo_store::Revision;
use serde_json::{Value, json};

use crate::catalog::Resource;
use crate::catalog::stored_form::{self, TypeMeta};
use crate::kinds::value::Write as _;
use crate::read::answer::ApiResponse;
use crate::request::negotiate::{MetaVersion, View};
use crate::state::Server;
use crate::state::call::Call;

pub(crate) use crate::catalog::stored_form::Stored;

/// A page of a collection.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) items: Vec<Stored>,
    pub(crate) at: Revision,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<u64>,
}

/// Answers with an object as it was stored, in the version of the request.
pub(crate) async fn saved(
    call: &Call<'_>,
    code: StatusCode,
    stored: Stored,
) -> Result<ApiResponse, Status> {
    object(call, code, &call.in_version(stored).await?)
}

/// Answers with one object, which is in the version of the request or is converted without a
/// webhook.
pub(crate) fn object(
    call: &Call<'_>,
    code: StatusCode,
    stored: &Stored,
) -> Result<ApiResponse, Status> {
    let mut out = Vec::new();
    match call.request.form.view {
        View::Whole => whole(
            &mut out,
            call.server,
            call.resource,
            Some(&call.resource.types),
            stored,
        ),
        View::Metadata(version) => metadata(&mut out, call.resource, version, stored),
        View::MetadataList(_) => return Err(one_as_list(call)),
        View::Table(version) => {
            let table = crate::read::table::of_object(call, version, stored)?;
            return Ok(ApiResponse::Json(
                code,
                crate::read::answer::to_bytes(&table),
            ));
        }
    }
    Ok(ApiResponse::Json(code, out.into()))
}

/// Answers with an object that is kept nowhere and has no rows: a review, a token.
///
/// `package` is what Go calls its group.
pub(crate) fn unkept(
    call: &Call<'_>,
    package: &str,
    object: &Value,
) -> Result<ApiResponse, Status> {
    let shown = match call.request.form.view {
        View::Whole | View::Table(_) => crate::read::answer::to_bytes(object),
        View::Metadata(version) => crate::read::answer::to_bytes(&json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": version.api_version(),
            "metadata": object["metadata"],
        })),
        View::MetadataList(_) => {
            let kind = object["kind"].as_str().unwrap_or_default();
            return Err(not_a_list(&format!("*{package}.{kind}")));
        }
    };
    Ok(ApiResponse::Json(StatusCode::CREATED, shown))
}

/// The refusal to show one object of a resource as a list.
fn one_as_list(call: &Call<'_>) -> Status {
    match call.resource.custom {
        // Kubernetes finds out that a custom object is no list only by its content.
        Some(_) => Status::unclassified("content is not a list"),
        None => not_a_list(&go_type(call.resource, &call.resource.facts.kind)),
    }
}

/// The refusal to show one object, of a type that Go calls so, as a list.
pub(crate) fn not_a_list(go_type: &str) -> Status {
    let message = format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({go_type})"
    );
    Status::new(406, Reason::NotAcceptable, message)
}

/// Writes a whole object in the version of `resource`.
pub(crate) fn whole(
    out: &mut Vec<u8>,
    server: &Server,
    resource: &Resource,
    types: Option<&TypeMeta>,
    stored: &Stored,
) {
    stored_form::write(out, types, stored.at, &in_version(server, resource, stored));
}

/// Writes the metadata of an object.
pub(crate) fn metadata(
    out: &mut Vec<u8>,
    resource: &Resource,
    version: MetaVersion,
    stored: &Stored,
) {
    let metadata = stored_form::metadata_of(&stored.value);
    let metadata = match resource.rules.field_annotation {
        Some(name) => without_annotation(metadata, resource, name),
        None => metadata,
    };
    stored_form::write(out, Some(&partial(version)), stored.at, &metadata);
}

/// The stored form of metadata without one of its annotations.
fn without_annotation(metadata: Vec<u8>, resource: &Resource, name: &str) -> Vec<u8> {
    let mut object = stored_form::decode(&metadata, Revision(0), &resource.stored);
    let annotations = object["metadata"]["annotations"].as_object_mut();
    match annotations.map(|annotations| (annotations.remove(name), annotations.is_empty())) {
        None | Some((None, _)) => return metadata,
        Some((_, false)) => {}
        Some((_, true)) => object["metadata"].remove("annotations"),
    }
    stored_form::encode(&object).into()
}

fn partial(version: MetaVersion) -> TypeMeta {
    TypeMeta::new("", version.api_version(), "PartialObjectMetadata")
}

/// The stored form in the version of `resource`: the stored bytes themselves, unless a conversion is needed.
pub(crate) fn in_version<'a>(
    server: &Server,
    resource: &Resource,
    stored: &'a Stored,
) -> Cow<'a, [u8]> {
    if resource.shows_stored(&stored.value, stored.at) {
        return Cow::Borrowed(&stored.value);
    }
    let object = resource.decode(&stored.value, stored.at);
    Cow::Owned(stored_form::encode(&server.convert(resource, &object)).into())
}

/// About how much of a list is written at a time.
const PIECE: usize = 256 * 1024;

/// The JSON of a list, written as it is sent: piece by piece.
pub(crate) struct ListStream {
    server: Arc<Server>,
    resource: Arc<Resource>,
    items: std::vec::IntoIter<Stored>,
    /// What goes before the next item; `None` after the end.
    before: Option<Vec<u8>>,
}

impl ListStream {
    fn new(call: &Call<'_>, list: List) -> Self {
        let resource = call.resource;
        let mut head = Vec::new();
        list_head(
            &mut head,
            &resource.list_kind,
            &resource.types.api_version,
            &list,
            resource.typed_items,
        );
        ListStream {
            server: Arc::clone(call.server),
            resource: Arc::clone(resource),
            items: list.items.into_iter(),
            before: Some(head),
        }
    }

    /// Whether one piece is all.
    pub(crate) fn is_one(&self) -> bool {
        let mut size = 0;
        let mut items = self.items.as_slice().iter();
        items.all(|item| {
            size += item.value.len();
            size < PIECE
        })
    }
}

impl Iterator for ListStream {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let resource = &self.resource;
        let types = Some(&resource.types).filter(|_| resource.typed_items);
        let mut out = self.before.take()?;
        let next = self.items.as_slice().iter().take(64);
        out.reserve(next.map(|item| item.value.len() + 64).sum());
        while let Some(item) = self.items.next() {
            whole(&mut out, &self.server, resource, types, &item);
            if self.items.as_slice().is_empty() {
                break;
            }
            out.push(b',');
            if out.len() >= PIECE {
                self.before = Some(Vec::new());
                return Some(out.into());
            }
        }
        out.extend_from_slice(b"]}");
        Some(out.into())
    }
}

impl std::fmt::Debug for ListStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListStream").finish_non_exhaustive()
    }
}

/// Answers with a page of a collection.
pub(crate) fn list(call: &Call<'_>, list: List) -> Result<ApiResponse, Status> {
    let resource = call.resource;
    let mut out = Vec::new();
    match call.request.form.view {
        View::Whole => return Ok(ApiResponse::List(ListStream::new(call, list))),
        View::MetadataList(version) => {
            list_head(
                &mut out,
                "PartialObjectMetadataList",
                version.api_version(),
                &list,
                false,
            );
            for (at, item) in list.items.iter().enumerate() {
                separate(&mut out, at);
                metadata(&mut out, resource, version, item);
            }
            out.extend_from_slice(b"]}");
            if list.items.is_empty() {
                // The metadata of nothing is null, as Kubernetes writes it.
                out.truncate(out.len() - "[]}".len());
                out.extend_from_slice(b"null}");
            }
        }
        View::Metadata(_) => {
            return Err(Status::new(
                406,
                Reason::NotAcceptable,
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({})",
                    go_type(resource, &resource.list_kind)
                ),
            ));
        }
        View::Table(version) => {
            let table = crate::read::table::of_list(call, version, &list)?;
            out = crate::read::answer::to_bytes(&table).into();
        }
    }
    Ok(ApiResponse::Json(StatusCode::OK, out.into()))
}

/// What Kubernetes calls a kind's type in its own language, as some refusals do.
fn go_type(resource: &Resource, kind: &str) -> String {
    if resource.custom.is_some() {
        let list = if kind == resource.list_kind {
            "List"
        } else {
            ""
        };
        return format!("*unstructured.Unstructured{list}");
    }
    let package = match resource.facts.group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    format!("*{package}.{kind}")
}

fn separate(out: &mut Vec<u8>, at: usize) {
    if at > 0 {
        out.push(b',');
    }
}

fn list_head(out: &mut Vec<u8>, kind: &str, api_version: &str, list: &List, always_continue: bool) {
    let write = |out: &mut Vec<u8>, text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("memory takes every write");
    };
    write(
        out,
        format_args!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":\"{}\"",
            list.at
        ),
    );
    if always_continue || !list.continue_token.is_empty() {
        write(
            out,
            format_args!(",\"continue\":\"{}\"", list.continue_token),
        );
    }
    if let Some(remaining) = list.remaining {
        write(out, format_args!(",\"remainingItemCount\":{remaining}"));
    }
    out.extend_from_slice(b"},\"items\":[");
}
