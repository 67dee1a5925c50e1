//! The interface of admission: what a step is, what it is given, and how the steps
//! are run. The steps themselves are in [`crate::write::admission`].
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/interfaces.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/chain.go`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/admission.go`: `NewManagedFieldsValidatingAdmissionController`

mod attributes;
mod claims;
pub(crate) mod expressions;
pub(crate) mod hooks;
pub(crate) mod policies;
mod reinvocation;

use futures::future::BoxFuture;
use sendo_apimachinery::managed_fields::validate_managers;
use sendo_apimachinery::{Meta, MetaMut, Status};
use sendo_world::Moment;
use serde_json::Value;

pub(crate) use attributes::{Attributes, Operation};
pub(crate) use claims::Claims;
pub(crate) use reinvocation::Reinvocation;

use crate::metrics::admission as metrics;

/// A step of admission.
pub(crate) struct Plugin {
    /// What Kubernetes calls it.
    pub(crate) name: &'static str,
    /// Whether a request concerns it at all.
    pub(crate) handles: fn(&Attributes<'_>) -> bool,
    /// Completes the object, or refuses the request.
    pub(crate) mutate: Option<Mutate>,
    /// Refuses the request, or lets it pass.
    pub(crate) validate: Option<Validate>,
}

/// How a step changes an object. The object is null in a deletion, and the options
/// of the request for a connection.
pub(crate) enum Mutate {
    /// By what the request says.
    Now(fn(&Attributes<'_>, &mut Value) -> Result<(), Status>),
    /// By what else the cluster holds.
    Later(for<'a> fn(&'a Attributes<'a>, &'a mut Value) -> AdmissionResult<'a>),
}

/// How a step validates an object (see [`Mutate`]), and what it claims for it.
pub(crate) type Validate =
    for<'a> fn(&'a Attributes<'a>, &'a Value, &'a mut Claims) -> AdmissionResult<'a>;

/// Whether a step lets a request pass.
pub(crate) type AdmissionResult<'a> = BoxFuture<'a, Result<(), Status>>;

/// Has every step that mutates complete the object, and all of them once more if a policy or a
/// webhook changed it.
///
/// A list of field managers that is left in a form that cannot be read is put back.
pub(crate) async fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let reinvocation = Reinvocation::default();
    let attributes = Attributes {
        reinvocation: Some(&reinvocation),
        ..*attributes
    };
    mutate_once(&attributes, object).await?;
    if reinvocation.begin_second() {
        mutate_once(&attributes, object).await?;
    }
    if let Some(managers) = reinvocation.take_managers() {
        restore_managers(&attributes, object, managers);
    }
    Ok(())
}

/// Puts the field managers back that were there before policies and webhooks were called, if those
/// that are there now cannot be read. The other steps leave them alone.
fn restore_managers(attributes: &Attributes<'_>, object: &mut Value, before: Option<Value>) {
    let now = Meta::new(object).get("managedFields");
    if now == before.as_ref() {
        return;
    }
    let Err(fault) = validate_managers(now) else {
        return;
    };
    attributes.call.request.warn(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
         mutating admission controller; please fix your requests: {fault}"
    ));
    let mut meta = MetaMut::new(object);
    match before {
        Some(before) => meta.set("managedFields", before),
        None => drop(meta.remove("managedFields")),
    }
}

async fn mutate_once(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let mut timer = Timer::new(attributes, metrics::ADMIT);
    for plugin in attributes.call.server.admission {
        let Some(mutate) = &plugin.mutate else {
            continue;
        };
        if !(plugin.handles)(attributes) {
            continue;
        }
        let result = match mutate {
            Mutate::Now(mutate) => mutate(attributes, object),
            Mutate::Later(mutate) => mutate(attributes, object).await,
        };
        timer.step(plugin, &result);
        result.inspect_err(|status| log_refusal(plugin, attributes, status))?;
    }
    timer.end(false);
    Ok(())
}

/// Counts what a phase of admission and each of its steps took. What one step ends with the
/// next begins with, so that each costs one look at the clock.
struct Timer<'a> {
    attributes: &'a Attributes<'a>,
    phase: &'static str,
    began: Moment,
    step_began: Moment,
}

impl<'a> Timer<'a> {
    fn new(attributes: &'a Attributes<'a>, phase: &'static str) -> Self {
        let now = attributes.call.server.world.clock().now();
        Timer {
            attributes,
            phase,
            began: now,
            step_began: now,
        }
    }

    /// A step has ended.
    fn step(&mut self, plugin: &Plugin, result: &Result<(), Status>) {
        let server = self.attributes.call.server;
        let (now, refuses) = (server.world.clock().now(), result.is_err());
        let operation = self.attributes.operation.as_str();
        let took = now - self.step_began;
        let counted = &server.metrics.admission;
        counted.controller(plugin.name, self.phase, operation, refuses, took);
        self.step_began = now;
        if refuses {
            self.end(true);
        }
    }

    /// The phase has ended.
    fn end(&self, rejected: bool) {
        let counted = &self.attributes.call.server.metrics.admission;
        let operation = self.attributes.operation.as_str();
        let took = self.step_began - self.began;
        counted.step(self.phase, operation, rejected, took);
    }
}

/// Has every step that validates check the object.
pub(crate) async fn validate(
    attributes: &Attributes<'_>,
    object: &Value,
    claims: &mut Claims,
) -> Result<(), Status> {
    let mut timer = Timer::new(attributes, metrics::VALIDATE);
    for plugin in attributes.call.server.admission {
        if let Some(validate) = plugin.validate
            && (plugin.handles)(attributes)
        {
            let result = validate(attributes, object, claims).await;
            timer.step(plugin, &result);
            result.inspect_err(|status| log_refusal(plugin, attributes, status))?;
        }
    }
    timer.end(false);
    Ok(())
}

/// Logs which step refused a request: the answer need not name it.
fn log_refusal(plugin: &Plugin, attributes: &Attributes<'_>, status: &Status) {
    tracing::debug!(
        plugin = plugin.name,
        operation = ?attributes.operation,
        path = attributes.call.request.path,
        dry_run = attributes.is_dry_run(),
        code = status.code,
        message = status.message,
        "admission refused a request"
    );
}
