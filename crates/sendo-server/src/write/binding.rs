//! `/binding`: binding a pod to a node.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/pod/storage/storage.go`: `BindingREST`, `LegacyBindingREST`

use http::StatusCode;
use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::{GroupResource, GroupVersionKind, Meta, MetaMut, Status};
use serde_json::{Value, json};

use super::admission::{self, Attributes, webhooks};
use super::{Change, Presence, Strategy, Writer, field_managers, preconditions};
use crate::catalog::storage::time_text;
use crate::kinds::pod;
use crate::read::answer::{self, ApiResponse};
use crate::request::options::{Write, WriteOptions};
use crate::request::path::ResourcePath;
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::decode;

/// `POST pods/<name>/binding`.
pub(crate) async fn bind(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let mut binding = read(call, &options).await?;
    let attributes = Attributes::of_creation(call, &options);
    admission::mutate(&attributes, &mut binding).await?;
    if Meta::new(&binding).name() != call.name() {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    check_target(&binding)?;
    admission::validate(&attributes, &binding, &mut Claims::default()).await?;
    assign(call, &binding, &options).await
}

/// `POST bindings`: binds the pod of the binding's name.
pub(crate) async fn bind_by_collection(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let mut binding = read(call, &options).await?;
    // What is created has no uid yet: here none can be asked for.
    MetaMut::new(&mut binding).remove("uid");
    let attributes = Attributes::of_creation(call, &options);
    admission::mutate(&attributes, &mut binding).await?;
    check_target(&binding)?;
    admission::validate(&attributes, &binding, &mut Claims::default()).await?;
    let catalog = call.server.catalog();
    let pods = catalog
        .find("", "v1", "pods")
        .ok_or_else(Status::no_such_resource)?;
    let name = Some(Meta::new(&binding).name().to_owned()).filter(|name| !name.is_empty());
    if name.is_none() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let path = ResourcePath {
        resource: "pods".to_owned(),
        name,
        ..call.path.clone()
    };
    let on_pod = Call {
        path: &path,
        resource: pods,
        ..*call
    };
    assign(&on_pod, &binding, &options).await
}

async fn read(call: &Call<'_>, options: &WriteOptions) -> Result<Value, Status> {
    let kind = GroupVersionKind::new("", "v1", "Binding");
    let mut binding = decode::body(call, &kind, options)?;
    decode::set_namespace(call, &mut binding)?;
    if webhooks::are_configured(call).await? {
        // A binding is not kept: nobody else could see who owns its fields.
        MetaMut::new(&mut binding).remove("managedFields");
        field_managers::create_below(call, &mut binding, kind);
    }
    Ok(binding)
}

/// A pod is bound to a node, which need not exist.
fn check_target(binding: &Value) -> Result<(), Status> {
    let target = Path::new("target");
    let mut errors = Vec::new();
    let kind = binding["target"]["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported(
            &target.child("kind"),
            kind,
            &["Node", "<empty>"],
        ));
    }
    if binding["target"]["name"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        errors.push(FieldError::required(&target.child("name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let texts = errors.iter().map(FieldError::to_string);
    Err(Status::unclassified(sendo_apimachinery::status::aggregate(
        texts,
    )))
}

/// Sets the node of the pod that the path names, once.
async fn assign(
    call: &Call<'_>,
    binding: &Value,
    options: &WriteOptions,
) -> Result<ApiResponse, Status> {
    let now = time_text(call.now());
    let change = Change {
        strategy: Strategy::Internal,
        presence: Presence::Present,
        writer: Writer::Server,
        options,
    };
    super::save(call, change, |pod| {
        let pod = pod.ok_or_else(|| call.not_found(call.name()))?;
        Ok(bound(call, pod, binding, &now)?.into())
    })
    .await?;
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(ApiResponse::Json(
        StatusCode::CREATED,
        answer::to_bytes(&done),
    ))
}

/// The pod with its node.
fn bound(call: &Call<'_>, pod: &Value, binding: &Value, now: &str) -> Result<Value, Status> {
    let (wanted, found) = (Meta::new(binding), Meta::new(pod));
    for (name, wanted, found) in [
        ("UID", wanted.uid(), found.uid()),
        (
            "ResourceVersion",
            wanted.resource_version(),
            found.resource_version(),
        ),
    ] {
        if !wanted.is_empty() && wanted != found {
            return Err(preconditions::failed(call, name, wanted, found));
        }
    }
    let name = call.name();
    let refuse = |why: String| Status::conflict(&GroupResource::new("", "pods/binding"), name, why);
    if found.deletion_timestamp().is_some() {
        return Err(refuse(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    if let Some(node) = pod["spec"]["nodeName"]
        .as_str()
        .filter(|node| !node.is_empty())
    {
        return Err(refuse(format!(
            "pod {name} is already assigned to node \"{node}\""
        )));
    }
    if pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        return Err(refuse(format!(
            "pod {name} has non-empty .spec.schedulingGates"
        )));
    }
    let mut new = pod.clone();
    new["spec"]["nodeName"] = binding["target"]["name"].clone();
    let mut meta = MetaMut::new(&mut new);
    for (key, value) in wanted.annotations() {
        meta.set_annotation(key, value);
    }
    for (key, value) in wanted.labels() {
        meta.set_label(key, value);
    }
    pod::set_condition(
        &mut new,
        json!({"type": "PodScheduled", "status": "True"}),
        now,
    );
    Ok(new)
}
