//! `/scale`: how many replicas an object has and is to have, whatever its kind.

use http::{Method, StatusCode};
use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::{GroupKind, GroupVersionKind, LabelSelector, Meta, Status};
use serde_json::{Map, Value, json};

use crate::answer::{self, Answer};
use crate::call::Call;
use crate::decode;
use crate::options::{Write, WriteOptions};
use crate::verbs::{patch, update};

/// Reads or writes the scale of the object that the path names.
pub(crate) async fn answer(call: &Call<'_>) -> Result<Answer, Status> {
    match call.request.method {
        Method::GET => {
            let entry = call.entry().await?;
            show(call, StatusCode::OK, &scale_of(&call.decode(&entry)))
        }
        Method::PATCH => {
            let options = WriteOptions::parse(&call.request.query, Write::Patch)?;
            let schema = call
                .server
                .types
                .kind("autoscaling/v1", "Scale")
                .expect("a built-in kind");
            write(call, &options, |old| {
                patch::apply(call, &options, old, schema)
            })
            .await
        }
        _ => {
            let options = WriteOptions::parse(&call.request.query, Write::Update)?;
            let expected = GroupVersionKind::new("autoscaling", "v1", "Scale");
            let scale = decode::body(call, &expected, &options)?;
            write(call, &options, |_| Ok(scale.clone())).await
        }
    }
}

/// Changes the object as a new scale says; `next` makes it of the old one.
async fn write(
    call: &Call<'_>,
    options: &WriteOptions,
    next: impl Fn(&Value) -> Result<Value, Status>,
) -> Result<Answer, Status> {
    let strategy = update::main_strategy(call);
    let stored = update::change(call, &strategy, options, |old| {
        let mut scale = next(&scale_of(old))?;
        decode::check_name(call, &scale)?;
        decode::place(call, &mut scale)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 {
            let path = Path::new("spec").child("replicas");
            let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
            return Err(Status::invalid(
                &GroupKind::new("autoscaling", "Scale"),
                call.name(),
                &[error],
            ));
        }
        let (wanted, found) = (Meta::of(&scale).uid(), Meta::of(old).uid());
        if !wanted.is_empty() && wanted != found {
            let why = format_args!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
            );
            return Err(Status::conflict(
                &call.resource.group_resource(),
                call.name(),
                why,
            ));
        }
        let mut new = old.clone();
        new["spec"]["replicas"] = replicas.into();
        let version = Meta::of(&scale).resource_version();
        if !version.is_empty() {
            new["metadata"]["resourceVersion"] = version.into();
        }
        Ok(new)
    })
    .await?;
    let object = crate::wire::decode(&stored.value, stored.at, &call.resource.stored);
    show(call, StatusCode::OK, &scale_of(&object))
}

fn show(call: &Call<'_>, code: StatusCode, scale: &Value) -> Result<Answer, Status> {
    if call.request.form.view != crate::negotiate::View::Whole {
        return crate::table::of_scale(call, code, scale);
    }
    Ok(Answer::Json(code, answer::to_bytes(scale)))
}

/// The scale of an object.
fn scale_of(object: &Value) -> Value {
    let meta = Meta::of(object);
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
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let mut spec = Map::new();
    let replicas = number(&object["spec"]["replicas"]);
    if replicas != 0 {
        spec.insert("replicas".to_owned(), replicas.into());
    }
    let mut status = Map::new();
    status.insert(
        "replicas".to_owned(),
        number(&object["status"]["replicas"]).into(),
    );
    let selector = selector(&object["spec"]["selector"]);
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
