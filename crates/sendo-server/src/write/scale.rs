//! `/scale`: how many replicas an object has and is to have, whatever its kind.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/apps/deployment/storage/storage.go`: `ScaleREST`, `scaleUpdatedObjectInfo`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`:
//!   `ScaleREST`, `scaleUpdatedObjectInfo`

use http::StatusCode;
use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::{
    GroupKind, GroupVersionKind, LabelSelector, Meta, MetaMut, Status, go_quote,
};
use serde_json::{Map, Value, json};

use super::field_managers::{self, ScaleWrite};
use super::patch::PatchType;
use super::{Change, Presence, Strategy, Writer, apply, patch, preconditions};
use crate::catalog::custom::ScalePaths;
use crate::read::answer::{self, ApiResponse};
use crate::read::table;
use crate::read::view;
use crate::request::negotiate::View;
use crate::request::options::{Write, WriteOptions};
use crate::request::path::Verb;
use crate::state::call::Call;
use crate::state::decode;

/// Reads or writes the scale of the object that the path names.
pub(crate) async fn answer(call: &Call<'_>, verb: Verb) -> Result<ApiResponse, Status> {
    match verb {
        Verb::Get => {
            let entry = call.entry().await?;
            show(
                call,
                StatusCode::OK,
                &readable(call, &call.read(&entry).await?)?,
            )
        }
        Verb::Patch => {
            let write_kind = match PatchType::from_request(call.request) {
                Some(PatchType::Apply) => Write::Apply,
                _ => Write::Patch,
            };
            let options = WriteOptions::parse(&call.request.query, write_kind)?;
            let schema = call
                .server
                .types
                .kind("autoscaling/v1", "Scale")
                .expect("a built-in kind");
            if write_kind == Write::Apply {
                return apply_scale(call, &options).await;
            }
            write(call, &options, |object, old| {
                let new = patch::patched(call, &options, &old, schema)?;
                field_managers::scale(call, object, old, ScaleWrite::Update(new))
            })
            .await
        }
        Verb::Update => {
            let options = WriteOptions::parse(&call.request.query, Write::Update)?;
            let expected = GroupVersionKind::new("autoscaling", "v1", "Scale");
            let scale = decode::body(call, &expected, &options)?;
            decode::check_name(call, &scale)?;
            write(call, &options, |object, old| {
                field_managers::scale(call, object, old, ScaleWrite::Update(scale.clone()))
            })
            .await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Applies the configuration of a Scale.
async fn apply_scale(call: &Call<'_>, options: &WriteOptions) -> Result<ApiResponse, Status> {
    let body = apply::read(call)?;
    write(call, options, |object, old| {
        let write = ScaleWrite::Apply {
            config: &body.value,
            force: options.force,
        };
        let applied = field_managers::scale(call, object, old, write)?;
        apply::report(call, options, &body)?;
        Ok(applied)
    })
    .await
}

/// Changes the object as a new scale says; `next` makes that of the object and its old scale.
async fn write(
    call: &Call<'_>,
    options: &WriteOptions,
    next: impl Fn(&Value, Value) -> Result<Value, Status>,
) -> Result<ApiResponse, Status> {
    let change = Change {
        strategy: Strategy::Scale,
        presence: Presence::Present,
        writer: Writer::Client,
        options,
    };
    let saved = super::save(call, change, |old| {
        let old = old.ok_or_else(|| call.not_found(call.name()))?;
        let mut scale = next(old, of_object(call, old))?;
        decode::check_name(call, &scale)?;
        decode::set_namespace(call, &mut scale)?;
        Ok(scale.into())
    })
    .await?;
    let stored = call.in_version(saved.stored).await?;
    let object = call.resource.decode(&stored.value, stored.at);
    show(call, StatusCode::OK, &of_object(call, &object))
}

/// The object that has the number of replicas that a Scale of it says.
pub(super) fn merge(call: &Call<'_>, scale: &Value, old: &Value) -> Result<Value, Status> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 && call.resource.custom.is_none() {
        let path = Path::new("spec").child("replicas");
        let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
        let kind = GroupKind::new("autoscaling", "Scale");
        return Err(Status::invalid(&kind, call.name(), &[error]));
    }
    let (wanted, found) = (Meta::new(scale).uid(), Meta::new(old).uid());
    if !wanted.is_empty() && wanted != found {
        return Err(preconditions::wrong_uid(call, wanted, found));
    }
    let managers = field_managers::of_scaled(call, old, scale)?;
    let mut new = old.clone();
    match paths(call) {
        Some(paths) => paths.spec_replicas.write(&mut new, replicas),
        None => new["spec"]["replicas"] = replicas.into(),
    }
    let version = Meta::new(scale).resource_version();
    if !version.is_empty() {
        new["metadata"]["resourceVersion"] = version.into();
    }
    let mut meta = MetaMut::new(&mut new);
    match managers {
        Some(managers) => meta.set("managedFields", managers),
        None => {
            meta.remove("managedFields");
        }
    }
    Ok(new)
}

fn show(call: &Call<'_>, code: StatusCode, scale: &Value) -> Result<ApiResponse, Status> {
    let shown = match call.request.form.view {
        View::Whole => scale.clone(),
        View::Metadata(version) => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": version.api_version(),
            "metadata": scale["metadata"],
        }),
        View::MetadataList(_) => {
            let package = match call.resource.custom {
                Some(_) => "v1",
                None => "autoscaling",
            };
            return Err(view::not_a_list(&format!("*{package}.Scale")));
        }
        View::Table(version) => table::of_scale(call, version, scale)?,
    };
    Ok(ApiResponse::Json(code, answer::to_bytes(&shown)))
}

/// Where a custom resource keeps its numbers; built-in kinds have them at the same places all.
fn paths<'a>(call: &Call<'a>) -> Option<&'a ScalePaths> {
    call.resource.custom.as_ref()?.scale.as_ref()
}

/// The scale of an object that says how many replicas it wants.
fn readable(call: &Call<'_>, object: &Value) -> Result<Value, Status> {
    if let Some(path) = paths(call)
        .map(|paths| &paths.spec_replicas)
        .filter(|path| path.read(object).is_none())
    {
        let cause = format_args!(
            "the spec replicas field {} does not exist",
            go_quote(&path.text)
        );
        return Err(Status::internal_error(cause));
    }
    Ok(of_object(call, object))
}

/// The scale of an object.
pub(super) fn of_object(call: &Call<'_>, object: &Value) -> Value {
    let meta = Meta::new(object);
    let mut metadata = Map::new();
    for member in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = meta.get(member) {
            metadata.insert(member.to_owned(), value.clone());
        }
    }
    let (wanted, present, selector) = match paths(call) {
        Some(paths) => (
            paths.spec_replicas.read(object).unwrap_or(0),
            paths.status_replicas.read(object).unwrap_or(0),
            paths
                .selector
                .as_ref()
                .and_then(|path| path.first(object)?.as_str())
                .unwrap_or_default()
                .to_owned(),
        ),
        None => (
            object["spec"]["replicas"].as_i64().unwrap_or(0),
            object["status"]["replicas"].as_i64().unwrap_or(0),
            selector(&object["spec"]["selector"]),
        ),
    };
    let mut spec = Map::new();
    if wanted != 0 {
        spec.insert("replicas".to_owned(), wanted.into());
    }
    let mut status = Map::new();
    status.insert("replicas".to_owned(), present.into());
    if !selector.is_empty() {
        status.insert("selector".to_owned(), selector.into());
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// A selector as text; a plain map of labels is one too.
fn selector(selector: &Value) -> String {
    let structured = ["matchLabels", "matchExpressions"]
        .iter()
        .any(|member| selector.get(member).is_some());
    let parsed = if structured {
        LabelSelector::from_object(Some(selector))
    } else {
        LabelSelector::from_object(Some(&json!({"matchLabels": selector})))
    };
    parsed
        .map(|selector| selector.to_string())
        .unwrap_or_default()
}
