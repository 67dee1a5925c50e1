//! PodSecurity: pods meet the level that the labels of their namespace ask for.
//!
//! Pods that violate what is enforced are refused. What violates the levels for
//! warnings and for the audit log passes, workloads with a template always.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/pod-security-admission/admission/admission.go`: `ValidateNamespace`,
//!   `ValidatePod`, `ValidatePodController`, `EvaluatePod`, `isSignificantPodUpdate`,
//!   `exemptNamespaceWarning`
//! - `plugin/pkg/admission/security/podsecurity/admission.go`: `Validate`

mod checks;
mod existing_pods;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use sendo_apimachinery::field::Error;
use sendo_apimachinery::{Meta, Status, go_quote};
use serde_json::Value;

use super::{Attributes, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::value::Read;
use crate::state::pod_security::{Level, LevelVersion, PREFIX, PodSecurity, Policy};
use checks::{Pod, Violations};

pub(super) const POD_SECURITY: Plugin = Plugin {
    name: "PodSecurity",
    handles: |attributes| {
        matches!(attributes.operation, Operation::Create | Operation::Update)
            && Subject::new(attributes).is_some()
    },
    mutate: None,
    validate: Some(|attributes, object, _| Box::pin(validate(attributes, object))),
};

/// What a request is about, if that concerns pod security.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Namespace,
    Pod,
    Workload,
}

impl Subject {
    fn new(attributes: &Attributes<'_>) -> Option<Subject> {
        if attributes.call.resource.custom.is_some() {
            return None;
        }
        let facts = &attributes.call.resource.facts;
        let subresource = attributes.subresource();
        match (facts.group.as_str(), facts.plural.as_str()) {
            ("", "pods") => {
                // Others, such as `resize`, show the whole pod.
                const IGNORED: [&str; 8] = [
                    "exec",
                    "attach",
                    "binding",
                    "eviction",
                    "log",
                    "portforward",
                    "proxy",
                    "status",
                ];
                (!IGNORED.contains(&subresource)).then_some(Subject::Pod)
            }
            ("", "namespaces") if subresource.is_empty() => Some(Subject::Namespace),
            ("", "replicationcontrollers" | "podtemplates")
            | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
            | ("batch", "jobs" | "cronjobs")
                if subresource.is_empty() =>
            {
                Some(Subject::Workload)
            }
            _ => None,
        }
    }
}

async fn validate(attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    match Subject::new(attributes) {
        Some(Subject::Namespace) => validate_namespace(attributes, object).await,
        Some(Subject::Pod) => validate_pod(attributes, object).await,
        Some(Subject::Workload) => validate_workload(attributes, object).await,
        None => Ok(()),
    }
}

fn configuration<'a>(attributes: &Attributes<'a>) -> &'a PodSecurity {
    &attributes.call.server.pod_security
}

/// Notes something for the audit event of the request.
fn annotate(attributes: &Attributes<'_>, key: &str, value: impl Into<String>) {
    attributes
        .call
        .request
        .annotate(format!("{PREFIX}{key}"), value);
}

/// Whether `name` is among those that are exempt; an absent one is not.
fn is_exempt(exempt: &[String], name: &str) -> bool {
    !name.is_empty() && exempt.iter().any(|exempt| exempt == name)
}

/// Refuses labels that cannot be read, and warns if pods that are there violate what
/// is enforced from now on.
async fn validate_namespace(attributes: &Attributes<'_>, namespace: &Value) -> Result<(), Status> {
    let configuration = configuration(attributes);
    let (policy, faults) = Policy::from_namespace(namespace, &configuration.defaults);
    let name = attributes.name(namespace);
    let invalid = || {
        let kind = attributes.call.resource.group_kind();
        Err(Status::invalid(
            &kind,
            attributes.requested_name(namespace),
            &faults,
        ))
    };
    let Some(old) = attributes.old else {
        if !faults.is_empty() {
            return invalid();
        }
        if is_exempt(&configuration.exempt_namespaces, name) {
            warn_of_exemption(attributes, namespace, &policy);
        }
        return Ok(());
    };
    let (before, old_faults) = Policy::from_namespace(old, &configuration.defaults);
    if !faults.is_empty() && faults != old_faults {
        return invalid();
    }
    let (new, old) = (policy.enforce, before.enforce);
    let is_relaxed = new.version == old.version && new.level <= old.level;
    if new == old || new.level == Level::Privileged || is_relaxed {
        return Ok(());
    }
    if is_exempt(&configuration.exempt_namespaces, name) {
        warn_of_exemption(attributes, namespace, &policy);
        return Ok(());
    }
    for warning in existing_pods::check(attributes, name, new).await? {
        attributes.call.request.warn(warning);
    }
    Ok(())
}

/// Warns who labels a namespace that is not checked.
fn warn_of_exemption(attributes: &Attributes<'_>, namespace: &Value, policy: &Policy) {
    let defaults = &configuration(attributes).defaults;
    if policy.is_privileged() || policy.is_equivalent(defaults) {
        return;
    }
    let meta = Meta::new(namespace);
    let has = |label: &str| meta.label(&format!("{PREFIX}{label}")).is_some();
    let modes: Vec<String> = [
        ("enforce", policy.enforce),
        ("audit", policy.audit),
        ("warn", policy.warn),
    ]
    .into_iter()
    .filter(|(name, mode)| {
        mode.level != Level::Privileged && (has(name) || has(&format!("{name}-version")))
    })
    .map(|(name, mode)| format!("{name}={mode}"))
    .collect();
    attributes.call.request.warn(format!(
        "namespace {} is exempt from Pod Security, and the policy ({}) will be ignored",
        go_quote(meta.name()),
        modes.join(", ")
    ));
}

/// Refuses a pod that violates what is enforced.
async fn validate_pod(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    if is_request_exempt(attributes) {
        return Ok(());
    }
    let namespace = attributes.call.namespace().unwrap_or_default();
    let Some(found) = namespace_of(attributes).await? else {
        let why = format!("failed to lookup namespace {}", go_quote(namespace));
        let status = Status::internal_error(why);
        let cause = format!(
            "{}: namespace {} not found",
            status.message,
            go_quote(namespace)
        );
        annotate(attributes, "error", cause);
        return Err(status);
    };
    let (policy, faults) = Policy::from_namespace(&found, &configuration(attributes).defaults);
    if faults.is_empty() && policy.is_privileged() {
        annotate(attributes, "enforce-policy", "privileged:latest");
        return Ok(());
    }
    if let Some(old) = attributes.old
        && !is_significant(pod, old)
    {
        return Ok(());
    }
    let evaluation = Evaluation {
        attributes,
        object: pod,
        pod: Pod::new(pod),
        policy,
        faults,
    };
    evaluation.run(Some(policy.enforce))
}

/// Warns of a workload whose pods would violate what is asked.
async fn validate_workload(attributes: &Attributes<'_>, workload: &Value) -> Result<(), Status> {
    if is_request_exempt(attributes) {
        return Ok(());
    }
    let namespace = attributes.call.namespace().unwrap_or_default();
    let Some(found) = namespace_of(attributes).await? else {
        let name = go_quote(namespace);
        let why = format!("failed to lookup namespace {name}: namespace {name} not found");
        annotate(attributes, "error", why);
        return Ok(());
    };
    let (policy, faults) = Policy::from_namespace(&found, &configuration(attributes).defaults);
    let asks = [policy.warn, policy.audit]
        .iter()
        .any(|mode| mode.level != Level::Privileged);
    if faults.is_empty() && !asks {
        return Ok(());
    }
    let Some(template) = template_of(attributes, workload) else {
        return Ok(());
    };
    let evaluation = Evaluation {
        attributes,
        object: workload,
        pod: Pod::new(template),
        policy,
        faults,
    };
    evaluation.run(None)
}

/// Whether the namespace or the user of a request is not checked.
fn is_request_exempt(attributes: &Attributes<'_>) -> bool {
    let configuration = configuration(attributes);
    let namespace = attributes.call.namespace().unwrap_or_default();
    let reason = if is_exempt(&configuration.exempt_namespaces, namespace) {
        "namespace"
    } else if is_exempt(&configuration.exempt_users, &attributes.user().name) {
        "user"
    } else {
        return false;
    };
    annotate(attributes, "exempt", reason);
    true
}

async fn namespace_of(
    attributes: &Attributes<'_>,
) -> Result<Option<std::sync::Arc<Value>>, Status> {
    let keys = Keys::new("", "namespaces", false);
    let name = attributes.call.namespace().unwrap_or_default();
    lookup::get(attributes.call, &keys, None, name).await
}

/// The template of the pods of a workload. Only a ReplicationController may have none.
fn template_of<'a>(attributes: &Attributes<'_>, workload: &'a Value) -> Option<&'a Value> {
    let spec = workload.at("spec");
    let template = match attributes.call.resource.facts.plural.as_str() {
        "podtemplates" => workload.at("template"),
        "cronjobs" => spec.at("jobTemplate").at("spec").at("template"),
        _ => spec.at("template"),
    };
    (!template.is_null()).then_some(template)
}

/// Whether an update of a pod changes what is checked: images, and which containers there are.
fn is_significant(new: &Value, old: &Value) -> bool {
    let (new, old) = (new.at("spec"), old.at("spec"));
    let changed = |list: &str| {
        let (new, old) = (new.items(list), old.items(list));
        new.len() != old.len()
            || new
                .iter()
                .zip(old)
                .any(|(new, old)| new.text("image") != old.text("image"))
    };
    let ephemeral = |container: &Value| {
        let name = container.text("name");
        let mut old = old.items("ephemeralContainers").iter();
        let old = old.find(|old| old.text("name") == name);
        old.is_none_or(|old| old.text("image") != container.text("image"))
    };
    changed("containers")
        || changed("initContainers")
        || new.items("ephemeralContainers").iter().any(ephemeral)
}

/// The check of one pod, or of one template.
struct Evaluation<'a> {
    attributes: &'a Attributes<'a>,
    /// What the request writes.
    object: &'a Value,
    pod: Pod<'a>,
    policy: Policy,
    /// What is wrong with the labels of the namespace.
    faults: Vec<Error>,
}

impl Evaluation<'_> {
    /// Refuses what violates `enforced`, notes and warns of the rest.
    fn run(&self, enforced: Option<LevelVersion>) -> Result<(), Status> {
        let exempt = &configuration(self.attributes).exempt_runtime_classes;
        if is_exempt(exempt, self.pod.spec.text("runtimeClassName")) {
            annotate(self.attributes, "exempt", "runtimeClass");
            return Ok(());
        }
        if !self.faults.is_empty() {
            let why = format!("Failed to parse policy: {}", aggregate(&self.faults));
            annotate(self.attributes, "error", why);
        }
        let verdict = match enforced {
            Some(level) => self.enforce(level),
            None => Ok(()),
        };
        self.note(self.policy.audit);
        // Who is refused anyway need not be warned.
        if verdict.is_ok() {
            self.warn(self.policy.warn);
        }
        verdict
    }

    fn enforce(&self, level: LevelVersion) -> Result<(), Status> {
        annotate(self.attributes, "enforce-policy", level.to_string());
        let Some(why) = self.violated(level) else {
            return Ok(());
        };
        let resource = self.attributes.call.resource.group_resource();
        let name = self.attributes.requested_name(self.object);
        Err(Status::forbidden(
            &resource,
            name,
            format!("violates {why}"),
        ))
    }

    fn note(&self, level: LevelVersion) {
        if let Some(why) = self.violated(level) {
            annotate(
                self.attributes,
                "audit-violations",
                format!("would violate {why}"),
            );
        }
    }

    fn warn(&self, level: LevelVersion) {
        if let Some(why) = self.violated(level) {
            let request = self.attributes.call.request;
            request.warn(format!("would violate {why}"));
        }
    }

    /// Which level is violated, and in what.
    fn violated(&self, level: LevelVersion) -> Option<String> {
        let violations = Violations::new(self.pod, level);
        let quoted = go_quote(&level.to_string());
        (!violations.is_empty()).then(|| format!("PodSecurity {quoted}: {}", violations.details()))
    }
}

/// Several errors as one text, each once (`ErrorList.ToAggregate`).
fn aggregate(errors: &[Error]) -> String {
    let mut seen = BTreeSet::new();
    let texts = errors.iter().map(Error::to_string);
    let texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
