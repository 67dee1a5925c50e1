//! Warnings for deprecated or ineffective fields of pods and pod templates.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/api/pod/warnings.go`: `GetWarningsForPod`, `GetWarningsForPodTemplate`,
//!   `warningsForPodSpecAndMeta`

use std::collections::BTreeMap;

use sendo_apimachinery::field::Path;
use serde_json::Value;

use super::annotations::{APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, app_armor_field};
use super::overlaps;
use crate::kinds::check;
use crate::kinds::network::forms::ip_warnings;
use crate::kinds::node::{Values, deprecated_label, requirement_warnings};
use crate::kinds::storage::claim;
use crate::kinds::value::Read;
use crate::kinds::{resources, workloads};

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const APP_ARMOR_FIELD: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const SECCOMP_FIELD: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// Removed and deprecated volume sources, by their field.
const DEPRECATED_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Warnings for a new pod.
pub(super) fn of_pod(pod: &Value) -> Vec<String> {
    let name = pod.at("metadata").text("name");
    let mut warnings = workloads::name_warning(name, "the Pod's hostname");
    warnings.extend(app_armor_of_pod(pod));
    warnings.extend(of_template(&Path::root(), pod));
    warnings
}

/// Warnings for a pod template at `path`.
pub(crate) fn of_template(path: &Path, template: &Value) -> Vec<String> {
    let (spec, annotations) = (
        template.at("spec"),
        template.at("metadata").at("annotations"),
    );
    let spec_path = path.child("spec");
    let annotations_path = path.child("metadata").child("annotations");
    let mut warnings = Warnings(Vec::new());
    placement(&mut warnings, &spec_path, spec);
    for (key, why) in DEPRECATED_ANNOTATIONS {
        if annotations.has(key) {
            warnings.add(&annotations_path.key(key), why);
        }
    }
    volumes(&mut warnings, &spec_path.child("volumes"), spec);
    lists(&mut warnings, &spec_path, spec);
    for resource in ["memory", "ephemeral-storage"] {
        let amount = spec.at("overhead").at(resource);
        fraction(&mut warnings, amount, || {
            spec_path.child("overhead").key(resource)
        });
    }
    if !spec.at("securityContext").has("seccompProfile") && annotations.has(SECCOMP_POD) {
        warnings.add(&annotations_path.key(SECCOMP_POD), SECCOMP_FIELD);
    }
    let containers = containers(&spec_path, spec);
    for (container_path, container) in &containers {
        let name = container.text("name");
        let security = container.at("securityContext");
        let key = [SECCOMP_CONTAINER, name].concat();
        if !security.has("seccompProfile") && annotations.has(&key) {
            warnings.add(&annotations_path.key(&key), SECCOMP_FIELD);
        }
        let key = [APP_ARMOR, name].concat();
        if !path.is_root()
            && !security.has("appArmorProfile")
            && let Some(profile) = annotations.at(&key).as_str()
            && app_armor_field(profile).as_ref()
                != spec.at("securityContext").get("appArmorProfile")
        {
            warnings.add(&annotations_path.key(&key), APP_ARMOR_FIELD);
        }
        of_container(&mut warnings, container_path, container);
    }
    ports(&mut warnings, &containers);
    if spec.count("terminationGracePeriodSeconds") < 0 {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.add(&spec_path.child("terminationGracePeriodSeconds"), why);
    }
    pod_affinity(
        &mut warnings,
        &spec_path.child("affinity"),
        spec.at("affinity"),
    );
    addresses(&mut warnings, &spec_path, spec);
    warnings.0
}

struct Warnings(Vec<String>);

impl Warnings {
    fn add(&mut self, path: &Path, why: impl std::fmt::Display) {
        self.0.push(format!("{path}: {why}"));
    }
}

/// All containers of a pod with their paths, in the order Kubernetes visits them.
fn containers<'a>(path: &Path, spec: &'a Value) -> Vec<(Path, &'a Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|key| {
        let path = path.child(key);
        let list = spec.items(key).iter().enumerate();
        list.map(move |(i, container)| (path.index(i), container))
    });
    all.collect()
}

/// Warnings for node selectors, affinity and topology spread constraints.
fn placement(warnings: &mut Warnings, path: &Path, spec: &Value) {
    for (label, _) in spec.entries("nodeSelector") {
        if let Some(why) = deprecated_label(label) {
            warnings.add(&path.child("nodeSelector").key(label), why);
        }
    }
    let affinity = spec.at("affinity").at("nodeAffinity");
    let affinity_path = path.child("affinity").child("nodeAffinity");
    let mut requirements = |path: &Path, term: &Value, values: Values| {
        let path = path.child("matchExpressions");
        let expressions = term.items("matchExpressions");
        warnings
            .0
            .extend(requirement_warnings(&path, expressions, values));
    };
    let key = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = affinity.at(key).items("nodeSelectorTerms");
    for (i, term) in terms.iter().enumerate() {
        let path = affinity_path.child(key).child("nodeSelectorTerms").index(i);
        requirements(&path, term, Values::Ignored);
    }
    let key = "preferredDuringSchedulingIgnoredDuringExecution";
    for (i, term) in affinity.items(key).iter().enumerate() {
        let path = affinity_path.child(key).index(i).child("preference");
        requirements(&path, term.at("preference"), Values::Validated);
    }
    let constraints = spec.items("topologySpreadConstraints");
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.child("topologySpreadConstraints").index(i);
        let key = constraint.text("topologyKey");
        if let Some(why) = deprecated_label(key) {
            warnings.add(&path.child("topologyKey"), format_args!("{key} is {why}"));
        }
        if !constraint.has("labelSelector") {
            warnings.add(&path.child("labelSelector"), NO_SELECTOR);
        }
    }
}

fn volumes(warnings: &mut Warnings, path: &Path, spec: &Value) {
    for (i, volume) in spec.items("volumes").iter().enumerate() {
        let path = path.index(i);
        let present = volume.present();
        for (key, shown, why) in DEPRECATED_VOLUMES {
            if present.contains(&key) {
                warnings.add(&path.child(shown), why);
            }
        }
        let template = volume.at("ephemeral").at("volumeClaimTemplate");
        if !template.is_null() {
            let path = path.child("ephemeral").child("volumeClaimTemplate");
            let found = claim::spec_warnings(&path.child("spec"), template.at("spec"));
            warnings.0.extend(found);
        }
    }
    for volume in spec.items("volumes") {
        warnings.0.extend(overlaps::warnings(volume));
    }
}

/// Warnings for duplicate entries of lists.
fn lists(warnings: &mut Warnings, path: &Path, spec: &Value) {
    for (list, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen: Vec<&str> = Vec::new();
        for (i, item) in spec.items(list).iter().enumerate() {
            let value = item.text(key);
            if seen.contains(&value) {
                let path = path.child(list).index(i).child(key);
                warnings.add(&path, format_args!("duplicate {key} {value:?}"));
            }
            seen.push(value);
        }
    }
    for (i, secret) in spec.items("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            let path = path.child("imagePullSecrets").index(i).child("name");
            warnings.add(&path, "invalid empty name \"\"");
        }
    }
}

/// Adds a warning for a fractional number of bytes.
fn fraction(warnings: &mut Warnings, amount: &Value, path: impl FnOnce() -> Path) {
    if let Some(text) = resources::fractional(amount) {
        let why = format_args!("fractional byte value {text:?} is invalid, must be an integer");
        warnings.add(&path(), why);
    }
}

fn of_container(warnings: &mut Warnings, path: &Path, container: &Value) {
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let amount = container.at("resources").at(list).at(resource);
            fraction(warnings, amount, || {
                path.child("resources").child(list).key(resource)
            });
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, variable) in container.items("env").iter().enumerate() {
        let name = variable.text("name");
        if seen.contains(&name) && !builds_on_itself(variable) {
            let why = format_args!(
                "hides previous definition of {name:?}, which may be dropped when using apply"
            );
            warnings.add(&path.child("env").index(i), why);
        }
        seen.push(name);
    }
}

/// Whether the value of a variable refers to the variable's own previous value.
fn builds_on_itself(variable: &Value) -> bool {
    let value = variable.text("value");
    let reference = format!("$({})", variable.text("name"));
    !variable.has("valueFrom") && value != reference && value.contains(&reference)
}

fn ports(warnings: &mut Warnings, containers: &[(Path, &Value)]) {
    let all = || {
        containers.iter().flat_map(|(path, container)| {
            let ports = container.items("ports").iter().enumerate();
            ports.map(move |(i, port)| (path.child("ports").index(i), port))
        })
    };
    let mut seen: BTreeMap<(i64, &str), Vec<(Path, &Value)>> = BTreeMap::new();
    for (path, port) in all() {
        let (ip, host_port) = (port.text("hostIP"), port.count("hostPort"));
        if !ip.is_empty() && host_port == 0 {
            let shown = format_args!(
                "hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                port.text("name"),
                port.count("containerPort"),
                port.text("protocol"),
            );
            warnings.add(&path, shown);
        }
        let key = (port.count("containerPort"), port.text("protocol"));
        let others = seen.entry(key).or_default();
        for (other_path, other) in others.iter() {
            let (other_ip, other_port) = (other.text("hostIP"), other.count("hostPort"));
            let how = if (ip, host_port) == (other_ip, other_port) {
                "duplicate"
            } else if host_port == 0 || other_port == 0 {
                "overlapping"
            } else if host_port == other_port && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            let why = format_args!("{how} port definition with {other_path}");
            warnings.add(&path, why);
        }
        others.push((path, port));
    }
    let mut names: BTreeMap<&str, Path> = BTreeMap::new();
    for (path, port) in all() {
        let name = port.text("name");
        match names.get(name) {
            _ if name.is_empty() => {}
            Some(first) => {
                let why = format_args!(
                    "duplicate port name {name:?} with {first}, services and probes that select ports by name \
                     will use {first}"
                );
                warnings.add(&path, why);
            }
            None => {
                names.insert(name, path);
            }
        }
    }
}

fn pod_affinity(warnings: &mut Warnings, path: &Path, affinity: &Value) {
    for key in ["podAffinity", "podAntiAffinity"] {
        let (affinity, path) = (affinity.at(key), path.child(key));
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in affinity.items(required).iter().enumerate() {
            if !term.has("labelSelector") {
                let path = path.child(required).index(i);
                warnings.add(&path.child("labelSelector"), NO_SELECTOR);
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in affinity.items(preferred).iter().enumerate() {
            if !term.at("podAffinityTerm").has("labelSelector") {
                let path = path.child(preferred).index(i).child("podAffinityTerm");
                warnings.add(&path.child("labelSelector"), NO_SELECTOR);
            }
        }
    }
}

fn addresses(warnings: &mut Warnings, path: &Path, spec: &Value) {
    let servers = check::texts(spec.at("dnsConfig"), "nameservers");
    for (i, server) in servers.enumerate() {
        let path = path.child("dnsConfig").child("nameservers").index(i);
        warnings.0.extend(ip_warnings(&path, server));
    }
    for (i, alias) in spec.items("hostAliases").iter().enumerate() {
        let path = path.child("hostAliases").index(i).child("ip");
        warnings.0.extend(ip_warnings(&path, alias.text("ip")));
    }
}

/// Warnings for AppArmor annotations, whose fields were set from them.
fn app_armor_of_pod(pod: &Value) -> Vec<String> {
    let (annotations, path) = (
        pod.at("metadata").at("annotations"),
        Path::new("metadata").child("annotations"),
    );
    let mut warnings = Warnings(Vec::new());
    // Most pods have no annotations: skip the visit of all containers.
    if annotations.is_null() {
        return Vec::new();
    }
    for (_, container) in containers(&Path::root(), pod.at("spec")) {
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        let field = container.at("securityContext").at("appArmorProfile");
        if let Some(profile) = annotations.at(&key).as_str()
            && app_armor_field(profile).as_ref().unwrap_or(&Value::Null) == field
        {
            warnings.add(&path.key(&key), APP_ARMOR_FIELD);
        }
    }
    warnings.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warnings_of(spec: Value) -> Vec<String> {
        of_pod(&json!({"metadata": {"name": "p"}, "spec": spec}))
    }

    #[test]
    fn a_plain_pod_brings_none() {
        let spec =
            json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]});
        assert_eq!(warnings_of(spec), Vec::<String>::new());
    }

    #[test]
    fn a_variable_may_build_on_the_one_before() {
        let with =
            |second: Value| json!({"containers": [{"env": [{"name": "A", "value": "1"}, second]}]});
        assert_eq!(
            warnings_of(with(json!({"name": "A", "value": "$(A)2"}))),
            Vec::<String>::new()
        );
        assert_eq!(
            warnings_of(with(json!({"name": "A", "value": "2"}))),
            [
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"
            ]
        );
    }

    #[test]
    fn duplicate_ports_of_a_pod_are_warned_of() {
        let ports = |first: Value, second: Value| json!({"containers": [{"ports": [first]}, {"ports": [second]}]});
        let port = |more: Value| {
            let mut port = json!({"containerPort": 80, "protocol": "TCP"});
            port.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            port
        };
        let at = "spec.containers[1].ports[0]";
        let other = "port definition with spec.containers[0].ports[0]";
        for (first, second, how) in [
            (json!({}), json!({}), "duplicate"),
            (json!({"hostPort": 8080}), json!({}), "overlapping"),
            (
                json!({"hostPort": 8080}),
                json!({"hostPort": 8080, "hostIP": "192.0.2.1"}),
                "dangerously ambiguous",
            ),
        ] {
            assert_eq!(
                warnings_of(ports(port(first), port(second))),
                [format!("{at}: {how} {other}")]
            );
        }
    }

    #[test]
    fn bytes_are_whole() {
        let spec =
            json!({"containers": [{"resources": {"limits": {"memory": "1500m", "cpu": "1500m"}}}]});
        assert_eq!(
            warnings_of(spec),
            [
                "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer"
            ]
        );
    }

    #[test]
    fn a_template_says_where_it_stands() {
        let template = json!({"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}});
        let path = Path::new("spec").child("template");
        assert_eq!(
            of_template(&path, &template),
            [
                "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"
            ]
        );
    }
}
