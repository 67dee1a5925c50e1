//! Validation of containers, init containers and ephemeral containers.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateContainers`, `validateInitContainers`,
//!   `validateEphemeralContainers`, `validateContainerCommon`, `validateContainerPorts`,
//!   `validatePullPolicy`, `validateResizePolicy`, `validateContainerRestartPolicy`,
//!   `checkHostPortConflicts`, `validateContainerOnlyForPod`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use super::{env, mounts, probes, security};
use crate::kinds::check::{self, Errors, PROTOCOLS};
use crate::kinds::resources;
use crate::kinds::value::{Read, is_zero};

const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const NO_SIDECAR: &str = "may not be set for init containers without restartPolicy=Always";
const EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// Fields that an ephemeral container may not have, in the order Kubernetes validates them.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// What the validation of a container needs to know about its pod.
pub(super) struct PodContext<'a> {
    pub(super) spec: &'a Value,
    /// The valid volumes.
    pub(super) volumes: &'a [&'a Value],
    /// The names of the pod's resource claims.
    pub(super) claims: Vec<&'a str>,
}

impl PodContext<'_> {
    fn grace_period(&self) -> Option<i64> {
        self.spec.number("terminationGracePeriodSeconds")
    }
}

pub(super) fn containers(errors: &mut Errors, path: &Path, pod: &PodContext<'_>) {
    let containers = pod.spec.items("containers");
    if containers.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        let path = &path.index(i);
        container_of_any_kind(errors, path, container, pod);
        unique_name(errors, path, &mut names, container.text("name"));
        probes::hooks_and_probes(errors, path, container, pod.grace_period());
        restart_policy(errors, path, container);
    }
    host_ports(errors, path, containers);
}

pub(super) fn init_containers(errors: &mut Errors, list: &Path, pod: &PodContext<'_>) {
    let mut names: Vec<&str> = pod
        .spec
        .items("containers")
        .iter()
        .map(|c| c.text("name"))
        .collect();
    for (i, container) in pod.spec.items("initContainers").iter().enumerate() {
        let path = &list.index(i);
        container_of_any_kind(errors, path, container, pod);
        if container.has("restartPolicy") {
            restart_policy(errors, path, container);
        } else if !container.items("restartPolicyRules").is_empty() {
            errors.push(Error::required(&path.child("restartPolicy"), RULES_ALONE));
        }
        let name = container.text("name");
        // A missing name is reported as missing only, never as a duplicate.
        if !name.is_empty() || names.contains(&name) {
            unique_name(errors, path, &mut names, name);
        }
        // Kubernetes reports each init container at index 0 here.
        host_ports(errors, list, std::slice::from_ref(container));
        let is_sidecar = container.text("restartPolicy") == "Always";
        if is_sidecar {
            probes::hooks_and_probes(errors, path, container, pod.grace_period());
            continue;
        }
        for key in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if container.has(key) {
                errors.push(Error::forbidden(&path.child(key), NO_SIDECAR));
            }
        }
        for (j, policy) in container.items("resizePolicy").iter().enumerate() {
            if policy.text("restartPolicy") == "RestartContainer" {
                let path = path.child("resizePolicy").index(j).child("restartPolicy");
                let fault = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(Error::invalid(&path, "RestartContainer", fault));
            }
        }
    }
}

pub(super) fn ephemeral_containers(errors: &mut Errors, path: &Path, pod: &PodContext<'_>) {
    let others = pod
        .spec
        .items("containers")
        .iter()
        .chain(pod.spec.items("initContainers"));
    let others: Vec<&str> = others.map(|container| container.text("name")).collect();
    let mut names = others.clone();
    for (i, container) in pod.spec.items("ephemeralContainers").iter().enumerate() {
        let path = &path.index(i);
        container_of_any_kind(errors, path, container, pod);
        padded_image(errors, path, container);
        unique_name(errors, path, &mut names, container.text("name"));
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            errors.push(Error::not_found(&path.child("targetContainerName"), target));
        }
        for key in NOT_EPHEMERAL {
            // An empty value counts as set for pointer fields, which Go can distinguish from
            // absent.
            let pointer = matches!(key, "lifecycle" | "restartPolicy") && container.has(key);
            if pointer || !is_zero(container.at(key)) {
                errors.push(Error::forbidden(&path.child(key), EPHEMERAL));
            }
        }
        for (j, mount) in container.items("volumeMounts").iter().enumerate() {
            for key in ["subPath", "subPathExpr"] {
                if !mount.text(key).is_empty() {
                    let path = path.child("volumeMounts").index(j).child(key);
                    errors.push(Error::forbidden(&path, EPHEMERAL));
                }
            }
        }
    }
}

/// Validates that the image of a pod has no leading or trailing space. Templates may have it.
pub(super) fn padded_image(errors: &mut Errors, path: &Path, container: &Value) {
    let image = container.text("image");
    if image.trim() != image {
        let fault = "must not have leading or trailing whitespace";
        errors.push(Error::invalid(&path.child("image"), image, fault));
    }
}

fn unique_name<'a>(errors: &mut Errors, path: &Path, names: &mut Vec<&'a str>, name: &'a str) {
    if names.contains(&name) {
        errors.push(Error::duplicate(&path.child("name"), name));
    } else {
        names.push(name);
    }
}

fn container_of_any_kind(
    errors: &mut Errors,
    path: &Path,
    container: &Value,
    pod: &PodContext<'_>,
) {
    check::required_name(
        errors,
        &path.child("name"),
        container.text("name"),
        names::dns1123_label,
    );
    check::required(errors, &path.child("image"), container.text("image"));
    check::required_one_of(
        errors,
        &path.child("terminationMessagePolicy"),
        container.text("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports(errors, &path.child("ports"), container.items("ports"));
    env::variables(errors, &path.child("env"), container.items("env"));
    env::env_from(errors, &path.child("envFrom"), container.items("envFrom"));
    mounts::mounts(errors, &path.child("volumeMounts"), container, pod.volumes);
    mounts::devices(errors, &path.child("volumeDevices"), container, pod.volumes);
    pull_policy(
        errors,
        &path.child("imagePullPolicy"),
        container.text("imagePullPolicy"),
    );
    resources::of_container(
        errors,
        &path.child("resources"),
        container.at("resources"),
        &pod.claims,
    );
    let policies = container.items("resizePolicy");
    resize_policies(
        errors,
        &path.child("resizePolicy"),
        policies,
        pod.spec.text("restartPolicy"),
    );
    let context = container.at("securityContext");
    security::container(
        errors,
        &path.child("securityContext"),
        context,
        security::host_users(pod.spec),
    );
}

fn ports(errors: &mut Errors, path: &Path, ports: &[Value]) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.text("name");
        if !name.is_empty() {
            let faults = names::port_name(name);
            if !faults.is_empty() {
                check::faults(errors, &path.child("name"), name, faults);
            } else if seen.contains(&name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            } else {
                seen.push(name);
            }
        }
        match port.count("containerPort") {
            0 => errors.push(Error::required(&path.child("containerPort"), "")),
            number => {
                let faults = names::port_number(number);
                check::number_faults(errors, &path.child("containerPort"), number, faults);
            }
        }
        let host_port = port.count("hostPort");
        if host_port != 0 {
            check::number_faults(
                errors,
                &path.child("hostPort"),
                host_port,
                names::port_number(host_port),
            );
        }
        check::required_one_of(
            errors,
            &path.child("protocol"),
            port.text("protocol"),
            &PROTOCOLS,
        );
    }
}

/// Reports host ports that two containers use.
fn host_ports(errors: &mut Errors, path: &Path, containers: &[Value]) {
    let mut seen: Vec<String> = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in container.items("ports").iter().enumerate() {
            let number = port.count("hostPort");
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
            if seen.contains(&key) {
                let path = path.index(i).child("ports").index(j).child("hostPort");
                errors.push(Error::duplicate(&path, key));
            } else {
                seen.push(key);
            }
        }
    }
}

pub(super) fn pull_policy(errors: &mut Errors, path: &Path, policy: &str) {
    check::required_one_of(errors, path, policy, &["Always", "IfNotPresent", "Never"]);
}

fn resize_policies(errors: &mut Errors, path: &Path, policies: &[Value], pod_policy: &str) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, policy) in policies.iter().enumerate() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if seen.contains(&resource) {
            errors.push(Error::duplicate(&path.index(i), resource));
        }
        seen.push(resource);
        check::required_one_of(errors, path, resource, &["cpu", "memory"]);
        check::required_one_of(errors, path, restart, &["NotRequired", "RestartContainer"]);
        if pod_policy == "Never" && restart != "NotRequired" {
            let fault = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(Error::invalid(path, restart, fault));
        }
    }
}

const RULES_ALONE: &str = "must specify restartPolicy when restart rules are used";

/// Validates the restart policy of a container and its restart rules.
fn restart_policy(errors: &mut Errors, path: &Path, container: &Value) {
    let rules = container.items("restartPolicyRules");
    let policy_path = path.child("restartPolicy");
    match container.at("restartPolicy").as_str() {
        None if rules.is_empty() => return,
        None => errors.push(Error::required(&policy_path, RULES_ALONE)),
        Some(policy) => check::one_of(errors, &policy_path, policy, &POLICIES),
    }
    let rules_path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(Error::too_many(&rules_path, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = rules_path.index(i);
        check::one_of(
            errors,
            &path.child("action"),
            rule.text("action"),
            &["Restart", "RestartAllContainers"],
        );
        let codes = rule.at("exitCodes");
        if codes.is_null() {
            errors.push(Error::required(
                &path.child("exitCodes"),
                "must be specified",
            ));
            continue;
        }
        let path = path.child("exitCodes");
        check::one_of(
            errors,
            &path.child("operator"),
            codes.text("operator"),
            &["In", "NotIn"],
        );
        let values = codes.items("values").len();
        if values > 255 {
            errors.push(Error::too_many(&path.child("values"), values, 255));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors_of(
        validate: fn(&mut Errors, &Path, &PodContext<'_>),
        key: &str,
        spec: &Value,
    ) -> Vec<String> {
        let pod = PodContext {
            spec,
            volumes: &[],
            claims: Vec::new(),
        };
        let mut errors = Errors::new();
        validate(&mut errors, &Path::new(key), &pod);
        errors.iter().map(ToString::to_string).collect()
    }

    fn container(with: Value) -> Value {
        let mut container = json!({"name": "c", "image": "i", "imagePullPolicy": "Always",
            "terminationMessagePolicy": "File"});
        for (key, value) in with.as_object().into_iter().flatten() {
            container[key] = value.clone();
        }
        container
    }

    #[test]
    fn a_missing_name_of_an_init_container_is_required_and_no_duplicate() {
        let nameless = container(json!({"name": ""}));
        let spec = json!({"initContainers": [nameless, nameless]});
        assert_eq!(
            errors_of(init_containers, "c", &spec),
            ["c[0].name: Required value", "c[1].name: Required value"]
        );
        let named = container(json!({}));
        let spec = json!({"containers": [named], "initContainers": [named]});
        assert_eq!(
            errors_of(init_containers, "c", &spec),
            ["c[0].name: Duplicate value: \"c\""]
        );
    }

    #[test]
    fn rules_of_an_init_container_need_a_policy_before_they_are_read() {
        let spec = json!({"initContainers": [container(json!({"restartPolicyRules": [{}]}))]});
        assert_eq!(
            errors_of(init_containers, "c", &spec),
            [
                "c[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used"
            ]
        );
    }

    #[test]
    fn an_ephemeral_container_is_never_started_again() {
        let spec = json!({"ephemeralContainers": [container(json!({"restartPolicy": ""}))]});
        assert_eq!(
            errors_of(ephemeral_containers, "c", &spec),
            ["c[0].restartPolicy: Forbidden: cannot be set for an Ephemeral Container"]
        );
    }
}
