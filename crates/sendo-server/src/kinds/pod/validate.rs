//! Validation of pods and pod templates.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodCreate`, `validatePodMetadataAndSpec`,
//!   `ValidatePodSpec`, `ValidatePodTemplateSpec`, `validatePodDNSConfig`, `ValidateHostAliases`,
//!   `validatePodResourceClaims`, `validateSchedulingGates`

use sendo_apimachinery::addresses::{Form, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::containers::{self, PodContext};
use super::sources::VolumeContext;
use super::{affinity, annotations, env, mounts, security, windows};
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::resources;
use crate::kinds::value::Read;

const HOST_PORT: &str = "must match `containerPort` when `hostNetwork` is true";

/// Validates a new pod.
pub(super) fn create(pod: &Value) -> Errors {
    let mut errors = metadata_and_spec(pod);
    let (spec, path) = (pod.at("spec"), Path::new("spec"));
    if !spec.items("ephemeralContainers").is_empty() {
        errors.push(Error::forbidden(
            &path.child("ephemeralContainers"),
            "cannot be set on create",
        ));
    }
    if !spec.text("nodeName").is_empty() && !spec.items("schedulingGates").is_empty() {
        let fault = "cannot be set until all schedulingGates have been cleared";
        errors.push(Error::forbidden(&path.child("nodeName"), fault));
    }
    annotations::match_fields(&mut errors, &path, pod);
    errors
}

/// Validates the metadata and spec of a pod, on create and update.
pub(super) fn metadata_and_spec(pod: &Value) -> Errors {
    let mut errors = metadata(pod);
    errors.extend(pod_spec(pod));
    errors
}

/// Validates the metadata of a pod, on create and update.
pub(super) fn metadata(pod: &Value) -> Errors {
    let mut errors = check::new_metadata(pod, Scope::Namespaced, names::dns1123_subdomain);
    let annotations = pod.at("metadata").at("annotations");
    let path = Path::new("metadata").child("annotations");
    annotations::validate(&mut errors, &path, annotations, pod.at("spec"));
    errors
}

/// Validates the spec of a pod, on create and update.
pub(super) fn pod_spec(pod: &Value) -> Errors {
    let mut errors = Errors::new();
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    let path = Path::new("spec");
    let context = VolumeContext {
        pod: metadata.text("name"),
        is_pod: true,
    };
    self::spec(&mut errors, &path, spec, metadata, &context);
    if spec.text("serviceAccountName").is_empty() {
        tokens_without_account(&mut errors, &path, spec);
    }
    for key in ["containers", "initContainers"] {
        for (i, container) in spec.items(key).iter().enumerate() {
            containers::padded_image(&mut errors, &path.child(key).index(i), container);
        }
    }
    errors
}

fn tokens_without_account(errors: &mut Errors, path: &Path, spec: &Value) {
    for (i, volume) in spec.items("volumes").iter().enumerate() {
        for (j, source) in volume.at("projected").items("sources").iter().enumerate() {
            if source.has("serviceAccountToken") {
                let path = path
                    .child("volumes")
                    .index(i)
                    .child("projected")
                    .child("sources")
                    .index(j);
                let fault = "must not be specified when serviceAccountName is not set";
                errors.push(Error::forbidden(&path.child("serviceAccountToken"), fault));
            }
        }
    }
}

/// Validates the pod template at `path`.
pub(crate) fn template(errors: &mut Errors, path: &Path, template: &Value) {
    template_metadata(errors, path, template);
    let (spec, spec_path) = (template.at("spec"), path.child("spec"));
    let context = VolumeContext {
        pod: "",
        is_pod: false,
    };
    self::spec(errors, &spec_path, spec, &Value::Null, &context);
    annotations::match_fields(errors, &spec_path, template);
    if !spec.items("ephemeralContainers").is_empty() {
        let fault = "ephemeral containers not allowed in pod template";
        errors.push(Error::forbidden(
            &spec_path.child("ephemeralContainers"),
            fault,
        ));
    }
}

/// Validates labels and annotations of a template. Kubernetes reports them at `labels` and
/// `annotations` without `metadata`.
pub(crate) fn template_metadata(errors: &mut Errors, path: &Path, template: &Value) {
    let metadata = template.at("metadata");
    check::labels(errors, &path.child("labels"), metadata.at("labels"));
    let path = path.child("annotations");
    check::annotations(errors, &path, metadata.at("annotations"));
    annotations::validate(
        errors,
        &path,
        metadata.at("annotations"),
        template.at("spec"),
    );
}

/// Validates the spec of a pod or template.
fn spec(
    errors: &mut Errors,
    path: &Path,
    spec: &Value,
    metadata: &Value,
    context: &VolumeContext<'_>,
) {
    if !spec.has("terminationGracePeriodSeconds") {
        errors.push(Error::required(
            &path.child("terminationGracePeriodSeconds"),
            "",
        ));
    }
    let volumes = mounts::volumes(
        errors,
        &path.child("volumes"),
        spec.items("volumes"),
        context,
    );
    let claims = spec.items("resourceClaims");
    resource_claims(errors, &path.child("resourceClaims"), claims, metadata);
    let names = claims
        .iter()
        .map(|claim| claim.text("name"))
        .filter(|name| !name.is_empty());
    let pod = PodContext {
        spec,
        volumes: &volumes,
        claims: names.collect(),
    };
    containers::containers(errors, &path.child("containers"), &pod);
    containers::init_containers(errors, &path.child("initContainers"), &pod);
    containers::ephemeral_containers(errors, &path.child("ephemeralContainers"), &pod);
    resources::pod_level::validate(errors, &path.child("resources"), spec, &pod.claims);
    host_network(errors, path, spec, context);
    let policies = ["Always", "OnFailure", "Never"];
    check::required_one_of(
        errors,
        &path.child("restartPolicy"),
        spec.text("restartPolicy"),
        &policies,
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check::required_one_of(
        errors,
        &path.child("dnsPolicy"),
        spec.text("dnsPolicy"),
        &policies,
    );
    check::labels(errors, &path.child("nodeSelector"), spec.at("nodeSelector"));
    security::pod(errors, &path.child("securityContext"), spec);
    affinity::affinity(errors, &path.child("affinity"), spec.at("affinity"));
    dns(errors, &path.child("dnsConfig"), spec);
    for (i, gate) in spec.items("readinessGates").iter().enumerate() {
        let path = path.child("readinessGates").index(i).child("conditionType");
        check::label_name(errors, &path, gate.text("conditionType"));
    }
    scheduling_gates(
        errors,
        &path.child("schedulingGates"),
        spec.items("schedulingGates"),
    );
    let constraints = spec.items("topologySpreadConstraints");
    affinity::spread(
        errors,
        &path.child("topologySpreadConstraints"),
        constraints,
    );
    windows::host_processes(errors, path, spec);
    security::user_namespace(errors, path, spec);
    host_name_override(errors, &path.child("hostnameOverride"), spec);
    named_parts(errors, path, spec);
    windows::operating_system(errors, path, spec);
    env::file_volumes(errors, path, spec);
}

/// Validates the fields of a spec that are names, and its remaining numbers and lists.
fn named_parts(errors: &mut Errors, path: &Path, spec: &Value) {
    let mut name = |key: &str, check: names::Check| {
        let name = spec.text(key);
        if !name.is_empty() {
            check::faults(errors, &path.child(key), name, check(name));
        }
    };
    name("serviceAccountName", names::dns1123_subdomain);
    name("nodeName", names::dns1123_subdomain);
    if let Some(seconds) = spec.number("activeDeadlineSeconds") {
        let faults = names::in_range(seconds, 1, i64::from(i32::MAX));
        check::number_faults(
            errors,
            &path.child("activeDeadlineSeconds"),
            seconds,
            faults,
        );
    }
    let mut name = |key: &str, check: names::Check| {
        let name = spec.text(key);
        if !name.is_empty() {
            check::faults(errors, &path.child(key), name, check(name));
        }
    };
    name("hostname", names::dns1123_label);
    name("subdomain", names::dns1123_label);
    affinity::tolerations(
        errors,
        &path.child("tolerations"),
        spec.items("tolerations"),
    );
    host_aliases(
        errors,
        &path.child("hostAliases"),
        spec.items("hostAliases"),
    );
    let class = spec.text("priorityClassName");
    if !class.is_empty() {
        check::faults(
            errors,
            &path.child("priorityClassName"),
            class,
            names::dns1123_subdomain(class),
        );
    }
    if let Some(class) = spec.at("runtimeClassName").as_str() {
        check::faults(
            errors,
            &path.child("runtimeClassName"),
            class,
            names::dns1123_subdomain(class),
        );
    }
    if let Some(policy) = spec.at("preemptionPolicy").as_str() {
        let policies = ["PreemptLowerPriority", "Never"];
        check::required_one_of(errors, &path.child("preemptionPolicy"), policy, &policies);
    }
    if spec.has("overhead") {
        resources::overhead(errors, &path.child("overhead"), spec.at("overhead"));
    }
}

fn host_aliases(errors: &mut Errors, path: &Path, aliases: &[Value]) {
    for (i, alias) in aliases.iter().enumerate() {
        let path = path.index(i);
        errors.extend(validate_ip(
            &path.child("ip"),
            alias.text("ip"),
            Form::Strict,
        ));
        for (j, name) in check::texts(alias, "hostnames").enumerate() {
            check::faults(
                errors,
                &path.child("hostnames").index(j),
                name,
                names::dns1123_subdomain(name),
            );
        }
    }
}

fn resource_claims(errors: &mut Errors, path: &Path, claims: &[Value], metadata: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, claim) in claims.iter().enumerate() {
        if metadata.at("annotations").has(annotations::MIRROR) {
            let fault = "static pods do not support resource claims";
            errors.push(Error::forbidden(&Path::new(""), fault));
            continue;
        }
        let path = path.index(i);
        let name = claim.text("name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        } else {
            check::faults(
                errors,
                &path.child("name"),
                name,
                names::dns1123_label(name),
            );
            seen.push(name);
        }
        let fault = match (
            claim.has("resourceClaimName"),
            claim.has("resourceClaimTemplateName"),
        ) {
            (true, true) => Some(
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => {
                Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            let shown = Ordered::new()
                .text("Name", name)
                .with("ResourceClaimName", claim.at("resourceClaimName"))
                .with(
                    "ResourceClaimTemplateName",
                    claim.at("resourceClaimTemplateName"),
                );
            errors.push(Error::invalid(&path, shown.bad_value(), fault));
        }
        for key in ["resourceClaimName", "resourceClaimTemplateName"] {
            if let Some(name) = claim.at(key).as_str() {
                check::faults(
                    errors,
                    &path.child(key),
                    name,
                    names::dns1123_subdomain(name),
                );
            }
        }
    }
}

fn host_network(errors: &mut Errors, path: &Path, spec: &Value, context: &VolumeContext<'_>) {
    if !spec.is_set("hostNetwork") {
        return;
    }
    for (i, container) in spec.items("containers").iter().enumerate() {
        for (j, port) in container.items("ports").iter().enumerate() {
            let (host, own) = (port.count("hostPort"), port.count("containerPort"));
            if (context.is_pod || host != 0) && host != own {
                let path = path
                    .child("containers")
                    .index(i)
                    .child("ports")
                    .index(j)
                    .child("hostPort");
                errors.push(Error::invalid(&path, host, HOST_PORT));
            }
        }
    }
}

fn dns(errors: &mut Errors, path: &Path, spec: &Value) {
    let config = spec.at("dnsConfig");
    let servers = config.items("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            errors.push(Error::required(
                path,
                "must provide `dnsConfig` when `dnsPolicy` is None",
            ));
            return;
        }
        if servers.is_empty() {
            let fault = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(Error::required(&path.child("nameservers"), fault));
            return;
        }
    }
    if servers.len() > 3 {
        let path = path.child("nameservers");
        errors.push(Error::invalid(
            &path,
            servers.to_vec(),
            "must not have more than 3 nameservers",
        ));
    }
    for (i, server) in check::texts(config, "nameservers").enumerate() {
        errors.extend(validate_ip(
            &path.child("nameservers").index(i),
            server,
            Form::Strict,
        ));
    }
    let searches = config.items("searches");
    let searches_path = path.child("searches");
    if searches.len() > 32 {
        let fault = "must not have more than 32 search paths";
        errors.push(Error::invalid(&searches_path, searches.to_vec(), fault));
    }
    let length: usize = check::texts(config, "searches")
        .map(|search| search.len() + 1)
        .sum();
    if length > 2049 {
        let fault = "must not have more than 2048 characters (including spaces) in the search list";
        errors.push(Error::invalid(&searches_path, searches.to_vec(), fault));
    }
    for (i, search) in check::texts(config, "searches")
        .enumerate()
        .filter(|(_, search)| *search != ".")
    {
        let search = search.strip_suffix('.').unwrap_or(search);
        let faults = names::dns1123_subdomain_with_underscore(search);
        check::faults(errors, &searches_path.index(i), search, faults);
    }
    for (i, option) in config.items("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.push(Error::required(
                &path.child("options").index(i),
                "must not be empty",
            ));
        }
    }
}

fn scheduling_gates(errors: &mut Errors, path: &Path, gates: &[Value]) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, gate) in gates.iter().enumerate() {
        let name = gate.text("name");
        check::label_name(errors, &path.index(i), name);
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.index(i), name));
        }
        seen.push(name);
    }
}

fn host_name_override(errors: &mut Errors, path: &Path, spec: &Value) {
    let Some(name) = spec.at("hostnameOverride").as_str() else {
        return;
    };
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.is_set(key) {
            errors.push(Error::forbidden(
                path,
                format!("may not be specified when {key} is true"),
            ));
        }
    }
    if name.len() > 64 {
        errors.push(Error::too_long(path, 64));
    }
    check::faults(errors, path, name, names::dns1123_subdomain(name));
}
