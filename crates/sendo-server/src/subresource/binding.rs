//! Binding a pod to a node.

use http::StatusCode;
use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::{GroupResource, GroupVersionKind, Meta, MetaMut, Status};
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::call::{Call, time_text};
use crate::decode;
use crate::kinds::Update;
use crate::options::{Write, WriteOptions};
use crate::path::ResourcePath;
use crate::strategy::Strategy;
use crate::verbs::update;

/// `POST pods/<name>/binding`.
pub(crate) async fn bind(call: &Call<'_>) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let binding = read(call, &options)?;
    if Meta::of(&binding).name() != call.name() {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    check_target(&binding)?;
    assign(call, &binding, &options).await
}

/// `POST bindings`: binds the pod of the binding's name.
pub(crate) async fn bind_by_collection(call: &Call<'_>) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let binding = read(call, &options)?;
    check_target(&binding)?;
    let catalog = call.server.catalog();
    let pods = catalog
        .find("", "v1", "pods")
        .ok_or_else(Status::no_such_resource)?;
    let name = Some(Meta::of(&binding).name().to_owned());
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

fn read(call: &Call<'_>, options: &WriteOptions) -> Result<Value, Status> {
    let mut binding = decode::body(call, &GroupVersionKind::new("", "v1", "Binding"), options)?;
    decode::place(call, &mut binding)?;
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
) -> Result<Answer, Status> {
    // What a binding sets is decided here, so the pod's own rules are not asked.
    let strategy = Strategy::Other(Update {
        prepare: |_, _, _| {},
        validate: |_, _, _| Vec::new(),
    });
    let now = time_text(call.now());
    update::change(call, strategy, options, |old| {
        bound(call, old, binding, &now)
    })
    .await?;
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::Json(StatusCode::CREATED, answer::to_bytes(&done)))
}

/// The pod with its node.
fn bound(call: &Call<'_>, pod: &Value, binding: &Value, now: &str) -> Result<Value, Status> {
    let (wanted, found) = (Meta::of(binding), Meta::of(pod));
    let resource = GroupResource::new("", "pods");
    for (name, wanted, found) in [
        ("UID", wanted.uid(), found.uid()),
        (
            "ResourceVersion",
            wanted.resource_version(),
            found.resource_version(),
        ),
    ] {
        if !wanted.is_empty() && wanted != found {
            let why = format_args!(
                "Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {found}"
            );
            return Err(Status::conflict(&resource, call.name(), why));
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
    let mut meta = MetaMut::of(&mut new);
    for (key, value) in wanted.annotations() {
        meta.set_annotation(key, value);
    }
    for (key, value) in wanted.labels() {
        meta.set_label(key, value);
    }
    schedule(&mut new, now);
    Ok(new)
}

/// Sets the condition that the pod has found its node.
fn schedule(pod: &mut Value, now: &str) {
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let conditions = pod["status"]["conditions"]
        .as_array_mut()
        .expect("it was made one above");
    match conditions
        .iter_mut()
        .find(|own| own["type"] == "PodScheduled")
    {
        Some(own) if own["status"] == "True" => {}
        Some(own) => *own = condition,
        None => conditions.push(condition),
    }
}
