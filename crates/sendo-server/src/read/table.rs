//! Shows objects as a Table: rows and columns.

use jiff::Timestamp;
use sendo_apimachinery::Status;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::resources::Column;
use serde_json::{Map, Value, json};

use crate::catalog::Resource;
use crate::printers;
use crate::read::view::{self, List, Stored};
use crate::request::negotiate::MetaVersion;
use crate::state::Server;
use crate::state::call::Call;

/// How much of an object its row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads `includeObject`.
    pub(crate) fn from_request(call: &Call<'_>) -> Result<Self, Status> {
        match call.request.query.text("includeObject") {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => {
                let why = "must be 'Metadata', 'Object', 'None', or empty";
                let error = Error::invalid(&Path::new("includeObject"), other, why);
                Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: {error}"
                )))
            }
        }
    }
}

/// A Table of one object.
pub(crate) fn of_object(
    call: &Call<'_>,
    version: MetaVersion,
    stored: &Stored,
) -> Result<Value, Status> {
    let include = IncludeObject::from_request(call)?;
    let mut metadata = Map::new();
    if stored.at.0 > 0 {
        metadata.insert("resourceVersion".to_owned(), stored.at.to_string().into());
    }
    Ok(table(
        version,
        metadata,
        columns(call.resource),
        vec![row(
            call.server,
            call.resource,
            call.now(),
            version,
            include,
            stored,
        )],
    ))
}

/// A Table of a page of objects.
pub(crate) fn of_list(call: &Call<'_>, version: MetaVersion, list: &List) -> Result<Value, Status> {
    let include = IncludeObject::from_request(call)?;
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), list.at.to_string().into());
    if !list.continue_token.is_empty() {
        metadata.insert("continue".to_owned(), list.continue_token.as_str().into());
    }
    if let Some(remaining) = list.remaining {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    let rows = list
        .items
        .iter()
        .map(|item| {
            row(
                call.server,
                call.resource,
                call.now(),
                version,
                include,
                item,
            )
        })
        .collect();
    Ok(table(version, metadata, columns(call.resource), rows))
}

/// A Table document.
pub(crate) fn table(
    version: MetaVersion,
    metadata: Map<String, Value>,
    columns: Value,
    rows: Vec<Value>,
) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// The columns of a resource.
pub(crate) fn columns(resource: &Resource) -> Value {
    let column = |(at, column): (usize, &Column)| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": describe(resource, at, &column.name),
            "priority": column.priority,
        })
    };
    resource
        .facts
        .columns
        .iter()
        .enumerate()
        .map(column)
        .collect()
}

/// What a column shows, in a sentence.
fn describe(resource: &Resource, at: usize, name: &str) -> String {
    let custom = resource
        .custom
        .as_ref()
        .and_then(|custom| custom.descriptions.get(at));
    match (custom, name) {
        (Some(own), _) if !own.is_empty() => own.clone(),
        (_, "Name") => "The name that tells the object apart from others of its kind.".to_owned(),
        (_, "Age") => "How long ago the object was created.".to_owned(),
        (_, "Created At") => "When the object was created.".to_owned(),
        (_, name) => format!("{name} of the {}.", resource.facts.kind),
    }
}

/// The row of an object.
pub(crate) fn row(
    server: &Server,
    resource: &Resource,
    now: Timestamp,
    version: MetaVersion,
    include: IncludeObject,
    stored: &Stored,
) -> Value {
    let facts = &resource.facts;
    let object = resource.decode(&stored.value, stored.at);
    let mut row = Map::new();
    let cells = match &resource.custom {
        Some(custom) => custom.cells(&facts.columns, &object, now),
        None => printers::row(&facts.group, &facts.kind, &object, now),
    };
    row.insert("cells".to_owned(), cells.into());
    let conditions = printers::conditions(&facts.group, &facts.kind, &object);
    if !conditions.is_empty() {
        row.insert("conditions".to_owned(), conditions.into());
    }
    let mut shown = Vec::new();
    match include {
        IncludeObject::None => shown.extend_from_slice(b"null"),
        IncludeObject::Metadata => view::metadata(&mut shown, resource, version, stored),
        IncludeObject::Object => {
            view::whole(&mut shown, server, resource, Some(&resource.types), stored)
        }
    }
    let shown = serde_json::from_slice(&shown).expect("wire forms are JSON of ours");
    row.insert("object".to_owned(), shown);
    Value::Object(row)
}

/// A Table of a Scale, which has columns of its own.
pub(crate) fn of_scale(
    call: &Call<'_>,
    version: MetaVersion,
    scale: &Value,
) -> Result<Value, Status> {
    let include = IncludeObject::from_request(call)?;
    let column = |name: &str, kind: &str| json!({"name": name, "type": kind, "format": "", "description": format!("{name} of the Scale."), "priority": 0});
    let columns = json!([
        column("Name", "string"),
        column("Desired", "integer"),
        column("Available", "integer"),
        column("Age", "string"),
    ]);
    let metadata = &scale["metadata"];
    let created = metadata["creationTimestamp"]
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    let age = created.map_or("<unknown>".to_owned(), |created| {
        printers::human_duration(call.now().duration_since(created))
    });
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let object = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Object => scale.clone(),
        IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": version.api_version(),
            "metadata": metadata,
        }),
    };
    let row = json!({
        "cells": [metadata["name"], number(&scale["spec"]["replicas"]), number(&scale["status"]["replicas"]), age],
        "object": object,
    });
    let mut head = Map::new();
    if let Some(at) = metadata.get("resourceVersion") {
        head.insert("resourceVersion".to_owned(), at.clone());
    }
    Ok(table(version, head, columns, vec![row]))
}
