//! The checks of the baseline: a pod cannot easily get rights of its node.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/pod-security-admission/policy/check_appArmorProfile.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_capabilities_baseline.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_hostNamespaces.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_hostPathVolumes.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_hostPorts.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_hostProbesAndhostLifecycle.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_privileged.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_procMount_baseline.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_seLinuxOptions.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_baseline.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_sysctls.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_windowsHostProcess.go`

use std::collections::BTreeSet;

use sendo_apimachinery::go_quote;
use serde_json::Value;

use super::{Pod, Violation, context, named_containers, plural, quoted, setters};
use crate::kinds::value::Read;

/// Profiles of AppArmor are the runtime's own or files of the node.
pub(super) fn app_armor_profile(pod: Pod<'_>) -> Option<Violation> {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &Value| {
        let profile = context.at("appArmorProfile");
        let bad =
            !profile.is_null() && !["RuntimeDefault", "Localhost"].contains(&profile.text("type"));
        if bad {
            values.insert(profile.text("type").to_owned());
        }
        bad
    };
    let pod_sets = is_bad(pod.context());
    let containers = pod.containers_that(|container| is_bad(context(container)));
    let is_allowed =
        |value: &str| ["", "runtime/default"].contains(&value) || value.starts_with("localhost/");
    let annotations: BTreeSet<String> = pod
        .annotations()
        .filter(|(key, value)| key.starts_with(ANNOTATION) && !is_allowed(value))
        .map(|(key, value)| format!("{key}={}", go_quote(value)))
        .collect();
    let annotated = match annotations.len() {
        0 => None,
        count => Some(plural(count, "annotation", "annotations").to_owned()),
    };
    let setters: Vec<String> = setters(pod_sets, &containers)
        .into_iter()
        .chain(annotated)
        .collect();
    if setters.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    Some(Violation::new(
        plural(
            values.len(),
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
        ),
        format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quoted(&values)
        ),
    ))
}

/// Containers get no capability that they do not have by default.
pub(super) fn capabilities(pod: Pod<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let mut values = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let added = context(container).at("capabilities").items("add");
        let added = added.iter().filter_map(Value::as_str);
        let bad: Vec<&str> = added.filter(|name| !ALLOWED.contains(name)).collect();
        values.extend(bad.iter().copied());
        !bad.is_empty()
    });
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        named_containers(&containers),
        quoted(values)
    );
    (!containers.is_empty()).then(|| Violation::new("non-default capabilities", detail))
}

/// A pod has namespaces of its own.
pub(super) fn host_namespaces(pod: Pod<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|name| pod.spec.is_set(name))
        .map(|name| format!("{name}=true"))
        .collect();
    (!shared.is_empty()).then(|| Violation::new("host namespaces", shared.join(", ")))
}

/// A pod mounts no folder of its node.
pub(super) fn host_path_volumes(pod: Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.items("volumes").iter();
    let bad: Vec<&str> = volumes
        .filter(|volume| volume.has("hostPath"))
        .map(|volume| volume.text("name"))
        .collect();
    let detail = format!(
        "{} {}",
        plural(bad.len(), "volume", "volumes"),
        quoted(&bad)
    );
    (!bad.is_empty()).then(|| Violation::new("hostPath volumes", detail))
}

/// Containers take no ports of their node.
pub(super) fn host_ports(pod: Pod<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let taken = container.items("ports").iter();
        let taken = taken.map(|port| port.count("hostPort"));
        let bad: Vec<i64> = taken.filter(|port| *port != 0).collect();
        ports.extend(bad.iter().map(i64::to_string));
        !bad.is_empty()
    });
    if containers.is_empty() {
        return None;
    }
    let noun = plural(ports.len(), "hostPort", "hostPorts");
    let ports: Vec<String> = ports.into_iter().collect();
    let detail = format!(
        "{} {} {noun} {}",
        named_containers(&containers),
        plural(containers.len(), "uses", "use"),
        ports.join(", ")
    );
    Some(Violation::new("hostPort", detail))
}

/// Probes and lifecycle handlers connect to the pod, not to other hosts.
pub(super) fn host_probes_and_lifecycle(pod: Pod<'_>) -> Option<Violation> {
    let mut hosts: BTreeSet<&str> = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let lifecycle = container.at("lifecycle");
        let handlers = [
            container.at("livenessProbe"),
            container.at("readinessProbe"),
            container.at("startupProbe"),
            lifecycle.at("postStart"),
            lifecycle.at("preStop"),
        ];
        let named: Vec<&str> = handlers
            .into_iter()
            .flat_map(|handler| [handler.at("httpGet"), handler.at("tcpSocket")])
            .map(|action| action.text("host"))
            .filter(|host| !host.is_empty())
            .collect();
        hosts.extend(&named);
        !named.is_empty()
    });
    let containers: BTreeSet<&str> = containers.into_iter().collect();
    let containers: Vec<&str> = containers.into_iter().collect();
    if containers.is_empty() {
        return None;
    }
    let noun = plural(
        hosts.len(),
        "probe or lifecycle host",
        "probe or lifecycle hosts",
    );
    let detail = format!(
        "{} {} {noun} {}",
        named_containers(&containers),
        plural(containers.len(), "uses", "use"),
        quoted(hosts)
    );
    Some(Violation::new("probe or lifecycle host", detail))
}

/// Containers are not privileged.
pub(super) fn privileged(pod: Pod<'_>) -> Option<Violation> {
    let containers = pod.containers_that(|container| context(container).is_set("privileged"));
    let detail = format!(
        "{} must not set securityContext.privileged=true",
        named_containers(&containers)
    );
    (!containers.is_empty()).then(|| Violation::new("privileged", detail))
}

/// What `/proc` masks stays masked.
pub(super) fn proc_mount(pod: Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let containers = pod.containers_that(|container| {
        let kind = context(container).at("procMount").as_str();
        let bad = kind.filter(|kind| *kind != "Default");
        values.extend(bad);
        bad.is_some()
    });
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        named_containers(&containers),
        quoted(values)
    );
    (!containers.is_empty()).then(|| Violation::new("procMount", detail))
}

/// The same, but for pods in a user namespace.
pub(super) fn proc_mount_without_user_namespace(pod: Pod<'_>) -> Option<Violation> {
    super::unless(pod.has_user_namespace(), pod, proc_mount)
}

const SE_LINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// SELinux types are those of containers, without a user or role.
pub(super) fn se_linux_options(pod: Pod<'_>) -> Option<Violation> {
    se_linux(pod, &SE_LINUX_TYPES[..4])
}

/// The same with the type of container engines.
pub(super) fn se_linux_options_with_engine(pod: Pod<'_>) -> Option<Violation> {
    se_linux(pod, &SE_LINUX_TYPES)
}

fn se_linux(pod: Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let (mut sets_user, mut sets_role) = (false, false);
    let mut is_bad = |context: &Value| {
        let options = context.at("seLinuxOptions");
        let kind = options.text("type");
        let bad_type = !allowed.contains(&kind);
        if bad_type {
            types.insert(kind.to_owned());
        }
        let (user, role) = (
            !options.text("user").is_empty(),
            !options.text("role").is_empty(),
        );
        sets_user |= user;
        sets_role |= role;
        bad_type || user || role
    };
    let pod_sets = is_bad(pod.context());
    let containers = pod.containers_that(|container| is_bad(context(container)));
    let setters = setters(pod_sets, &containers)?;
    let mut faults = Vec::new();
    if !types.is_empty() {
        let noun = plural(types.len(), "type", "types");
        faults.push(format!("{noun} {}", quoted(types)));
    }
    if sets_user {
        faults.push("user may not be set".to_owned());
    }
    if sets_role {
        faults.push("role may not be set".to_owned());
    }
    let faults = faults.join("; ");
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {faults}");
    Some(Violation::new("seLinuxOptions", detail))
}

/// Seccomp profiles in annotations, from before there were fields.
pub(super) fn seccomp_annotations(pod: Pod<'_>) -> Option<Violation> {
    const OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let is_allowed = |value: &str| {
        ["runtime/default", "docker/default"].contains(&value) || value.starts_with("localhost/")
    };
    let names: BTreeSet<String> = pod
        .containers()
        .map(|container| format!("{OF_CONTAINER}{}", container.text("name")))
        .collect();
    let forbidden: BTreeSet<String> = pod
        .annotations()
        .filter(|(key, _)| *key == OF_POD || names.contains(*key))
        .filter(|(_, value)| !is_allowed(value))
        .map(|(key, value)| format!("{key}={}", go_quote(value)))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let noun = plural(forbidden.len(), "annotation", "annotations");
    let forbidden: Vec<String> = forbidden.into_iter().collect();
    let detail = format!("forbidden {noun} {}", forbidden.join(", "));
    Some(Violation::new("seccompProfile", detail))
}

/// Whether a profile of seccomp is the runtime's own or a file of the node.
pub(super) fn is_seccomp_allowed(profile: &Value) -> bool {
    ["RuntimeDefault", "Localhost"].contains(&profile.text("type"))
}

/// Seccomp is not switched off.
pub(super) fn seccomp_profile(pod: Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut is_bad = |context: &Value| {
        let profile = context.at("seccompProfile");
        let bad = !profile.is_null() && !is_seccomp_allowed(profile);
        if bad {
            values.insert(profile.text("type").to_owned());
        }
        bad
    };
    let pod_sets = is_bad(pod.context());
    let containers = pod.containers_that(|container| is_bad(context(container)));
    let setters = setters(pod_sets, &containers)?;
    let values = quoted(values);
    let detail = format!("{setters} must not set securityContext.seccompProfile.type to {values}");
    Some(Violation::new("seccompProfile", detail))
}

/// Parameters of the kernel that are safe to set, in the order they became so.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Only the first `safe` parameters of the kernel in [`SYSCTLS`] are set.
pub(super) fn sysctls(pod: Pod<'_>, safe: usize) -> Option<Violation> {
    let set = pod.context().items("sysctls").iter();
    let forbidden: Vec<&str> = set
        .map(|sysctl| sysctl.text("name"))
        .filter(|name| !SYSCTLS[..safe].contains(name))
        .collect();
    (!forbidden.is_empty()).then(|| Violation::new("forbidden sysctls", forbidden.join(", ")))
}

/// Containers are no processes of a Windows node.
pub(super) fn windows_host_process(pod: Pod<'_>) -> Option<Violation> {
    let is_bad = |context: &Value| context.at("windowsOptions").is_set("hostProcess");
    let containers = pod.containers_that(|container| is_bad(context(container)));
    let setters = setters(is_bad(pod.context()), &containers)?;
    let detail = format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation::new("hostProcess", detail))
}
