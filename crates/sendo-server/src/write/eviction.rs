//! `/eviction`: deleting a pod if its disruption budgets allow that.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/pod/storage/eviction.go`: `EvictionREST`

use http::StatusCode;
use sendo_apimachinery::status::Cause;
use sendo_apimachinery::{GroupVersionKind, LabelSelector, Meta, Status};
use sendo_store::{At, Error, KeyRange, Transaction};
use serde_json::{Value, json};

use super::admission::{self, Attributes};
use super::{Change, Presence, Strategy, Writer, preconditions};
use crate::catalog::storage::{backend, time_text};
use crate::catalog::stored_form;
use crate::kinds::pod;
use crate::read::answer::{self, ApiResponse};
use crate::request::delete_options::DeleteOptions;
use crate::request::options::{Write, WriteOptions};
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::decode;

/// `POST pods/<name>/eviction`.
pub(crate) async fn evict(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let version = match call.resource.facts.subresource("eviction") {
        Some(own) => GroupVersionKind::new(&own.group, &own.version, &own.kind),
        None => return Err(Status::no_such_resource()),
    };
    let mut eviction = decode::body(call, &version, &options)?;
    decode::set_namespace(call, &mut eviction)?;
    let attributes = Attributes::of_creation(call, &options);
    admission::mutate(&attributes, &mut eviction).await?;
    if Meta::new(&eviction).name() != call.name() {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut deletion: DeleteOptions = match eviction.get("deleteOptions") {
        Some(options) if !options.is_null() => serde_json::from_value(options.clone())
            .map_err(|error| Status::bad_request(error.to_string()))?,
        _ => DeleteOptions::default(),
    };
    if options.dry_run {
        let asked: Vec<String> = call
            .request
            .query
            .all("dryRun")
            .map(str::to_owned)
            .collect();
        if deletion.dry_run.is_empty() {
            deletion.dry_run = asked;
        } else if deletion.dry_run != asked {
            return Err(Status::unclassified(format!(
                "Non-matching dry-run options in request and content: [{}] and [{}]",
                asked.join(" "),
                deletion.dry_run.join(" ")
            )));
        }
    }
    deletion.check()?;
    let pod = call.decode(&*call.entry().await?);
    admission::validate(&attributes, &eviction, &mut Claims::default()).await?;
    if is_guarded(&pod) {
        claim(call, &pod, deletion.is_dry_run()).await?;
    }
    if !deletion.is_dry_run() {
        mark(call, &options, &mut deletion).await?;
    }
    super::remove(call, call.name(), &deletion, Writer::Server).await?;
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(ApiResponse::Json(
        StatusCode::CREATED,
        answer::to_bytes(&done),
    ))
}

/// Tells in the pod's status why it goes, before it does.
async fn mark(
    call: &Call<'_>,
    options: &WriteOptions,
    deletion: &mut DeleteOptions,
) -> Result<(), Status> {
    let now = time_text(call.now());
    let change = Change {
        strategy: Strategy::Status,
        presence: Presence::Present,
        writer: Writer::Server,
        options,
    };
    let marked = super::save(call, change, |pod| {
        let pod = pod.ok_or_else(|| call.not_found(call.name()))?;
        preconditions::check(call, call.name(), pod, deletion)?;
        let mut pod = pod.clone();
        pod::set_condition(
            &mut pod,
            json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }),
            &now,
        );
        Ok(pod.into())
    })
    .await?;
    let wanted = deletion.preconditions.as_mut();
    if let Some(version) = wanted.and_then(|wanted| wanted.resource_version.as_mut()) {
        // The version that was asked for has been met; this one is our own doing.
        *version = marked.stored.at.to_string();
    }
    Ok(())
}

/// Budgets guard pods that serve: not those that have ended, wait for a node, or are going.
fn is_guarded(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    !matches!(phase, "Succeeded" | "Failed" | "Pending")
        && Meta::new(pod).deletion_timestamp().is_none()
}

/// Takes one disruption from the budget that selects the pod, if one does.
async fn claim(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let catalog = call.server.catalog();
    let budgets = catalog
        .find("policy", "v1", "poddisruptionbudgets")
        .ok_or_else(Status::no_such_resource)?;
    let prefix = budgets.keys.collection(Some(Meta::new(pod).namespace()));
    loop {
        let page = call
            .server
            .store
            .range(KeyRange::prefix(&prefix), At::Latest, None)
            .await
            .map_err(backend)?;
        let mut guarding = Vec::new();
        for entry in &page.entries {
            let budget = stored_form::decode(&entry.value, entry.modified, &budgets.stored);
            let selector = LabelSelector::from_object(budget["spec"].get("selector"));
            if selector.is_ok_and(|selector| selector.matches(&Meta::new(pod))) {
                guarding.push((entry, budget));
            }
        }
        let (entry, mut budget) = match guarding.len() {
            0 => return Ok(()),
            1 => guarding.remove(0),
            _ => {
                return Err(Status::unclassified(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        if is_ready(pod) || budget["spec"]["unhealthyPodEvictionPolicy"] != "AlwaysAllow" {
            take_disruption(&mut budget, pod, &time_text(call.now()))?;
        }
        if dry_run {
            return Ok(());
        }
        let put = Transaction::new()
            .unchanged(entry.key.clone(), entry.modified)
            .put(entry.key.clone(), call.server.encode(budgets, &mut budget));
        match call.server.store.commit(put).await {
            Ok(_) => return Ok(()),
            Err(Error::Conflict { .. }) => {}
            Err(other) => return Err(backend(other)),
        }
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .any(|own| own["type"] == "Ready" && own["status"] == "True")
}

/// Counts the pod as disrupted, or refuses what the budget does not allow.
fn take_disruption(budget: &mut Value, pod: &Value, now: &str) -> Result<(), Status> {
    let number = |path: &str| budget["status"][path].as_i64().unwrap_or(0);
    let name = Meta::new(budget).name().to_owned();
    let refuse = |message: String, retry: u32| {
        let why = "Cannot evict pod as it would violate the pod's disruption budget.";
        let status = Status::too_many_requests(why, retry);
        Err(status.with_cause(Cause {
            reason: "DisruptionBudget".to_owned(),
            message,
            field: String::new(),
        }))
    };
    if number("observedGeneration") < Meta::new(budget).generation() {
        return refuse(
            format!("The disruption budget {name} is still being processed by the server."),
            10,
        );
    }
    // A pod that is not ready counts for no healthy one.
    if !is_ready(pod)
        && number("currentHealthy") >= number("desiredHealthy")
        && number("desiredHealthy") > 0
    {
        return Ok(());
    }
    let allowed = number("disruptionsAllowed");
    if allowed <= 0 {
        let message = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        );
        return refuse(message, 0);
    }
    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    budget["status"]["disruptedPods"][Meta::new(pod).name()] = now.into();
    Ok(())
}
