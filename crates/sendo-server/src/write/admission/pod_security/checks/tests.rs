//! The checks as a table: what is asked, what a pod sets, what is violated.

use serde_json::{Value, json};

use super::*;

fn at(text: &str) -> LevelVersion {
    let (level, version) = text.split_once(':').unwrap_or((text, "latest"));
    let level = match level {
        "privileged" => Level::Privileged,
        "baseline" => Level::Baseline,
        _ => Level::Restricted,
    };
    let version = match version.strip_prefix("v1.") {
        Some(minor) => Version::Minor(minor.parse().unwrap()),
        None => Version::Latest,
    };
    LevelVersion { level, version }
}

/// What a pod violates.
fn violated(level: &str, pod: &Value) -> String {
    Violations::new(Pod::new(pod), at(level)).details()
}

/// A pod that meets every level, with a container `a` and an initial one `i`.
fn good() -> Value {
    let context = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
    });
    json!({
        "metadata": {"annotations": {}},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "a", "securityContext": context.clone(), "ports": [{}]}],
            "initContainers": [{"name": "i", "securityContext": context}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    })
}

/// The good pod with other values at these places.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut pod = good();
    for (pointer, value) in changes {
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let parent = pod.pointer_mut(parent).expect(pointer);
        match parent {
            Value::Array(items) => items[member.parse::<usize>().unwrap()] = value.clone(),
            other => other[member.replace("~1", "/").as_str()] = value.clone(),
        }
    }
    pod
}

const POD: &str = "/spec/securityContext";
const A: &str = "/spec/containers/0/securityContext";
const I: &str = "/spec/initContainers/0/securityContext";

/// Changes of the good pod.
type Changes = Vec<(String, Value)>;

fn check(cases: Vec<(&str, Changes, &str)>) {
    for (levels, changes, expected) in cases {
        let changes: Vec<(&str, Value)> = changes
            .iter()
            .map(|(place, value)| (place.as_str(), value.clone()))
            .collect();
        let pod = with(&changes);
        for level in levels.split(' ') {
            assert_eq!(violated(level, &pod), expected, "{level} {changes:?}");
        }
    }
}

fn set(place: &str, member: &str, value: Value) -> (String, Value) {
    (format!("{place}/{member}"), value)
}

#[test]
fn a_good_pod_meets_every_level_at_every_version() {
    for minor in 0..40 {
        for level in ["privileged", "baseline", "restricted"] {
            assert_eq!(violated(&format!("{level}:v1.{minor}"), &good()), "");
        }
    }
    assert_eq!(violated("restricted:latest", &good()), "");
}

#[test]
fn the_checks_are_sorted_and_their_forms_follow_each_other() {
    for checks in [BASELINE, RESTRICTED] {
        assert!(checks.is_sorted_by(|a, b| a.id < b.id));
        for check in checks {
            assert!(
                check.forms.is_sorted_by(|a, b| a.since < b.since),
                "{}",
                check.id
            );
        }
    }
    let overridden = RESTRICTED.iter().flat_map(|check| check.forms);
    for id in overridden.filter_map(|form| form.overrides) {
        assert!(BASELINE.iter().any(|check| check.id == id), "{id}");
    }
}

#[test]
fn the_baseline_keeps_pods_from_their_node() {
    check(vec![
        (
            "baseline:v1.0 baseline restricted",
            vec![
                set("/spec", "hostNetwork", json!(true)),
                set("/spec", "hostIPC", json!(true)),
            ],
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            "baseline:v1.0 baseline restricted",
            vec![
                set(A, "privileged", json!(true)),
                set(I, "privileged", json!(true)),
            ],
            "privileged (containers \"i\", \"a\" must not set securityContext.privileged=true)",
        ),
        (
            "baseline",
            vec![(
                "/spec/volumes/0".to_owned(),
                json!({"name": "v", "hostPath": {"path": "/"}}),
            )],
            "hostPath volumes (volume \"v\")",
        ),
        (
            "baseline restricted",
            vec![(
                "/spec/containers/0/ports".to_owned(),
                json!([{"hostPort": 9090}, {"hostPort": 10}, {"hostPort": 0}]),
            )],
            "hostPort (container \"a\" uses hostPorts 10, 9090)",
        ),
        (
            "baseline",
            vec![(
                format!("{A}/capabilities"),
                json!({"add": ["SYS_TIME", "CHOWN", "NET_RAW"]}),
            )],
            "non-default capabilities (container \"a\" must not include \"NET_RAW\", \"SYS_TIME\" in securityContext.capabilities.add)",
        ),
        (
            "baseline restricted",
            vec![
                set(POD, "windowsOptions", json!({"hostProcess": true})),
                set(A, "windowsOptions", json!({"hostProcess": true})),
            ],
            "hostProcess (pod and container \"a\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ]);
}

#[test]
fn profiles_and_options_of_the_kernel_are_limited() {
    let apparmor = "container.apparmor.security.beta.kubernetes.io~1a";
    check(vec![
        (
            "baseline:v1.0 baseline restricted",
            vec![
                set(POD, "appArmorProfile", json!({"type": "Unconfined"})),
                set(A, "appArmorProfile", json!({"type": "Localhost"})),
                set("/metadata/annotations", apparmor, json!("unconfined")),
            ],
            "forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to \"Unconfined\", \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
        ),
        (
            "baseline:v1.30",
            vec![
                set(
                    POD,
                    "seLinuxOptions",
                    json!({"type": "container_engine_t", "user": "u"}),
                ),
                set(I, "seLinuxOptions", json!({"type": "other", "role": "r"})),
            ],
            "seLinuxOptions (pod and container \"i\" set forbidden securityContext.seLinuxOptions: types \"container_engine_t\", \"other\"; user may not be set; role may not be set)",
        ),
        (
            "baseline:v1.31 baseline",
            vec![set(
                POD,
                "seLinuxOptions",
                json!({"type": "container_engine_t"}),
            )],
            "",
        ),
        (
            "baseline:v1.19 baseline restricted:v1.19 restricted",
            vec![
                set(POD, "seccompProfile", json!({"type": "Unconfined"})),
                set(A, "seccompProfile", json!({"type": "Unconfined"})),
            ],
            "seccompProfile (pod and container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            "baseline:v1.18",
            vec![set(
                "/metadata/annotations",
                "seccomp.security.alpha.kubernetes.io~1pod",
                json!("unconfined"),
            )],
            "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")",
        ),
        (
            "baseline:v1.19",
            vec![set(
                "/metadata/annotations",
                "container.seccomp.security.alpha.kubernetes.io~1a",
                json!("unconfined"),
            )],
            "",
        ),
    ]);
}

#[test]
fn more_sysctls_are_safe_in_later_releases() {
    let sysctls = |names: &[&str]| {
        let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        vec![set(POD, "sysctls", json!(names))]
    };
    let (ports, alive, memory) = (
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
    );
    check(vec![
        (
            "baseline:v1.26 restricted:v1.26",
            sysctls(&[ports, "kernel.shm_rmid_forced", alive]),
            "forbidden sysctls (net.ipv4.ip_local_reserved_ports, net.ipv4.tcp_keepalive_time)",
        ),
        (
            "baseline:v1.27",
            sysctls(&[ports, alive]),
            "forbidden sysctls (net.ipv4.tcp_keepalive_time)",
        ),
        (
            "baseline:v1.31",
            sysctls(&[ports, alive, memory]),
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
        (
            "baseline:v1.32 baseline",
            sysctls(&[ports, alive, memory]),
            "",
        ),
    ]);
}

#[test]
fn hosts_of_probes_are_checked_since_1_34() {
    let probes = vec![
        set(
            "/spec/containers/0",
            "livenessProbe",
            json!({"httpGet": {"host": "b"}}),
        ),
        set(
            "/spec/containers/0",
            "lifecycle",
            json!({"preStop": {"tcpSocket": {"host": "a"}}}),
        ),
    ];
    check(vec![
        ("baseline:v1.33", probes.clone(), ""),
        (
            "baseline:v1.34 baseline restricted",
            probes,
            "probe or lifecycle host (container \"a\" uses probe or lifecycle hosts \"a\", \"b\")",
        ),
    ]);
}

#[test]
fn proc_may_be_unmasked_in_a_user_namespace() {
    let unmasked = |host_users: bool| {
        vec![
            set(A, "procMount", json!("Unmasked")),
            set("/spec", "hostUsers", json!(host_users)),
        ]
    };
    let refused =
        "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")";
    check(vec![
        (
            "baseline baseline:v1.34 restricted:v1.34",
            unmasked(true),
            refused,
        ),
        (
            "baseline:v1.34 restricted:v1.34 restricted:v1.35",
            unmasked(false),
            refused,
        ),
        ("baseline:v1.35 baseline", unmasked(false), ""),
    ]);
}

#[test]
fn the_restricted_level_asks_for_hardening() {
    check(vec![
        (
            "restricted:v1.8 restricted",
            vec![set(A, "allowPrivilegeEscalation", Value::Null)],
            "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false)",
        ),
        (
            "restricted:v1.7",
            vec![set(A, "allowPrivilegeEscalation", Value::Null)],
            "",
        ),
        (
            "restricted:v1.22 restricted",
            vec![
                set(
                    A,
                    "capabilities",
                    json!({"add": ["NET_BIND_SERVICE", "CHOWN"]}),
                ),
                set(I, "capabilities", Value::Null),
            ],
            "unrestricted capabilities (containers \"i\", \"a\" must set securityContext.capabilities.drop=[\"ALL\"]; container \"a\" must not include \"CHOWN\" in securityContext.capabilities.add)",
        ),
        (
            "restricted:v1.21",
            vec![set(A, "capabilities", json!({"add": ["NET_RAW"]}))],
            "non-default capabilities (container \"a\" must not include \"NET_RAW\" in securityContext.capabilities.add)",
        ),
        (
            "restricted:v1.0 restricted",
            vec![(
                "/spec/volumes".to_owned(),
                json!([
                    {"name": "v", "hostPath": {"path": "/"}},
                    {"name": "w", "nfs": {"server": "s"}},
                    {"name": "x", "csi": {}},
                ]),
            )],
            "restricted volume types (volumes \"v\", \"w\" use restricted volume types \"hostPath\", \"nfs\")",
        ),
    ]);
}

#[test]
fn users_other_than_root_are_asked_for() {
    let user_namespace = set("/spec", "hostUsers", json!(false));
    check(vec![
        (
            "restricted:v1.0 restricted",
            vec![
                set(POD, "runAsNonRoot", Value::Null),
                set(A, "runAsNonRoot", json!(true)),
            ],
            "runAsNonRoot != true (pod or container \"i\" must set securityContext.runAsNonRoot=true)",
        ),
        (
            "restricted",
            vec![
                set(POD, "runAsNonRoot", json!(false)),
                set(I, "runAsNonRoot", json!(false)),
            ],
            "runAsNonRoot != true (pod and container \"i\" must not set securityContext.runAsNonRoot=false)",
        ),
        (
            "restricted:v1.23 restricted:v1.34 restricted",
            vec![
                set(POD, "runAsUser", json!(0)),
                set(A, "runAsUser", json!(1)),
            ],
            "runAsUser=0 (pod must not set runAsUser=0)",
        ),
        (
            "restricted:v1.22",
            vec![set(POD, "runAsUser", json!(0))],
            "",
        ),
        (
            "restricted",
            vec![
                set(POD, "runAsUser", json!(0)),
                set(POD, "runAsNonRoot", json!(false)),
                user_namespace,
            ],
            "",
        ),
    ]);
}

#[test]
fn each_container_needs_a_profile_of_seccomp() {
    let without = set(POD, "seccompProfile", Value::Null);
    check(vec![
        (
            "restricted:v1.19 restricted",
            vec![
                without.clone(),
                set(A, "seccompProfile", json!({"type": "Localhost"})),
            ],
            "seccompProfile (pod or container \"i\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
        ),
        ("restricted:v1.18", vec![without.clone()], ""),
        (
            "restricted:v1.25 restricted",
            vec![
                without,
                set("/spec", "os", json!({"name": "windows"})),
                set(A, "allowPrivilegeEscalation", Value::Null),
                set(A, "capabilities", Value::Null),
            ],
            "",
        ),
    ]);
}

#[test]
fn violations_come_in_the_order_of_their_checks_the_baseline_first() {
    let pod = json!({
        "spec": {
            "hostPID": true,
            "containers": [{"name": "a", "securityContext": {"privileged": true, "runAsUser": 0}}],
        },
    });
    let violations = Violations::new(Pod::new(&pod), at("restricted"));
    assert_eq!(
        violations.reasons(),
        "host namespaces, privileged, allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, runAsUser=0, seccompProfile"
    );
}
