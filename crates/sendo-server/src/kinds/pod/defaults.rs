//! Defaults of pods and pod templates.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_Pod`, `SetDefaults_PodSpec`,
//!   `SetDefaults_Container`, `SetDefaults_Probe`, `SetDefaults_HTTPGetAction`,
//!   `defaultPodRequests`, `defaultHostNetworkPorts`
//! - `pkg/apis/core/v1/conversion.go`: `Convert_v1_PodSpec_To_core_PodSpec`,
//!   `Convert_v1_PodStatus_To_core_PodStatus`, `Convert_v1_ResourceList_To_core_ResourceList`,
//!   `dropInitContainerAnnotations`

use serde_json::{Value, json};

use super::image;
use crate::kinds::resources;
use crate::kinds::value::{Read, Write};

/// Annotations that stood for init containers before there was a field; they are dropped from pods
/// and templates.
const OBSOLETE_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];

/// Sets the defaults of a pod template.
pub(crate) fn template(template: &mut Value) {
    drop_obsolete_annotations(template);
    spec(template.object("spec"));
}

/// Sets the defaults of a pod: those of a template, and those that only pods have.
pub(crate) fn pod(pod: &mut Value) {
    drop_obsolete_annotations(pod);
    let pod_spec = pod.object("spec");
    for key in ["containers", "initContainers"] {
        for container in pod_spec.items_mut(key) {
            if let Some(resources) = container.existing("resources") {
                resources::requests_from_limits(resources);
            }
        }
    }
    resources::pod_level::default(pod_spec);
    pod_spec.default_to("enableServiceLinks", true);
    if pod_spec.is_set("hostNetwork") {
        for key in ["containers", "initContainers"] {
            pod_spec.items_mut(key).iter_mut().for_each(expose_on_host);
        }
    }
    spec(pod_spec);
    if pod_spec.count("terminationGracePeriodSeconds") < 0 {
        pod_spec.set("terminationGracePeriodSeconds", 1);
    }
    if let Some(status) = pod.existing("status") {
        sync_pod_ips(status);
        round_up_in_status(status);
    }
}

/// Rounds the resources in the statuses of the pod and its containers up to thousandths.
fn round_up_in_status(status: &mut Value) {
    let round_up = |object: &mut Value| {
        resources::round_up_lists(object, &["allocatedResources"]);
        if let Some(resources) = object.existing("resources") {
            resources::round_up_requirements(resources);
        }
    };
    for key in [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ] {
        status.items_mut(key).iter_mut().for_each(round_up);
    }
    round_up(status);
}

/// Makes `podIP` and the first of `podIPs` equal. If they differ, `podIP` takes precedence.
fn sync_pod_ips(status: &mut Value) {
    let single = status.text("podIP").to_owned();
    let first = status
        .items("podIPs")
        .first()
        .map_or("", |ip| ip.text("ip"));
    if !single.is_empty() && single != first {
        status.set("podIPs", json!([{"ip": single}]));
    } else if single.is_empty() && !first.is_empty() {
        let first = first.to_owned();
        status.set("podIP", first);
    }
}

/// Makes `serviceAccount`, the deprecated alias, equal to `serviceAccountName`, which takes
/// precedence if both are set.
pub(super) fn sync_service_account(spec: &mut Value) {
    let names = ["serviceAccountName", "serviceAccount"];
    let name = names
        .iter()
        .map(|key| spec.text(key))
        .find(|name| !name.is_empty());
    if let Some(name) = name.map(str::to_owned) {
        for key in names {
            spec.set(key, name.as_str());
        }
    }
}

fn drop_obsolete_annotations(object: &mut Value) {
    if object.at("metadata").has("annotations") {
        let annotations = &mut object["metadata"]["annotations"];
        for key in OBSOLETE_ANNOTATIONS {
            annotations.remove(key);
        }
    }
}

fn expose_on_host(container: &mut Value) {
    for port in container.items_mut("ports") {
        let number = port.count("containerPort");
        port.default_if_zero("hostPort", number);
    }
}

fn spec(spec: &mut Value) {
    spec.default_if_zero("dnsPolicy", "ClusterFirst");
    spec.default_if_zero("restartPolicy", "Always");
    spec.default_to("securityContext", json!({}));
    spec.default_to("terminationGracePeriodSeconds", 30);
    spec.default_if_zero("schedulerName", "default-scheduler");
    sync_service_account(spec);
    spec.items_mut("volumes")
        .iter_mut()
        .for_each(super::volumes::default);
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        spec.items_mut(key).iter_mut().for_each(container);
    }
    resources::round_up_lists(spec, &["overhead"]);
    if let Some(resources) = spec.existing("resources") {
        resources::round_up_requirements(resources);
    }
}

fn container(container: &mut Value) {
    let policy = image::pull_policy(container.text("image"));
    container.default_if_zero("imagePullPolicy", policy);
    container.default_if_zero("terminationMessagePath", "/dev/termination-log");
    container.default_if_zero("terminationMessagePolicy", "File");
    for port in container.items_mut("ports") {
        port.default_if_zero("protocol", "TCP");
    }
    for variable in container.items_mut("env") {
        if let Some(source) = variable.existing("valueFrom") {
            if let Some(field) = source.existing("fieldRef") {
                field.default_if_zero("apiVersion", "v1");
            }
            if let Some(file) = source.existing("fileKeyRef") {
                file.default_to("optional", false);
            }
        }
    }
    if let Some(resources) = container.existing("resources") {
        resources::round_up_requirements(resources);
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.existing(key) {
            self::probe(probe);
        }
    }
    if let Some(lifecycle) = container.existing("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(request) = lifecycle
                .existing(hook)
                .and_then(|hook| hook.existing("httpGet"))
            {
                http_get(request);
            }
        }
    }
}

fn probe(probe: &mut Value) {
    probe.default_if_zero("timeoutSeconds", 1);
    probe.default_if_zero("periodSeconds", 10);
    probe.default_if_zero("successThreshold", 1);
    probe.default_if_zero("failureThreshold", 3);
    if let Some(request) = probe.existing("httpGet") {
        http_get(request);
    }
    if let Some(grpc) = probe.existing("grpc") {
        grpc.default_to("service", "");
    }
}

fn http_get(request: &mut Value) {
    request.default_if_zero("path", "/");
    request.default_if_zero("scheme", "HTTP");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_pod_gets_its_defaults() {
        let mut object = json!({"spec": {"containers": [{"name": "c", "image": "app:1"}]}});
        pod(&mut object);
        assert_eq!(
            object["spec"],
            json!({
                "containers": [{
                    "name": "c",
                    "image": "app:1",
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": true,
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            })
        );
    }

    #[test]
    fn only_a_pod_copies_limits_to_requests_and_links_services() {
        let container = json!({"name": "c", "resources": {"limits": {"cpu": "1"}}});
        let mut object = json!({"spec": {"containers": [container]}});
        let mut templated = object.clone();
        pod(&mut object);
        template(&mut templated);
        assert_eq!(
            object["spec"]["containers"][0]["resources"]["requests"],
            json!({"cpu": "1"})
        );
        assert_eq!(
            templated["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1"}})
        );
        assert!(!templated["spec"].has("enableServiceLinks"));
    }

    #[test]
    fn a_negative_grace_period_is_one_second_in_a_pod_alone() {
        let mut object = json!({"spec": {"terminationGracePeriodSeconds": -5}});
        let mut templated = object.clone();
        pod(&mut object);
        template(&mut templated);
        assert_eq!(object["spec"]["terminationGracePeriodSeconds"], 1);
        assert_eq!(templated["spec"]["terminationGracePeriodSeconds"], -5);
    }

    #[test]
    fn ports_are_exposed_on_the_host_with_its_network() {
        let container =
            json!({"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]});
        let mut object = json!({"spec": {"hostNetwork": true, "containers": [container]}});
        pod(&mut object);
        assert_eq!(
            object["spec"]["containers"][0]["ports"],
            json!([
                {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
                {"containerPort": 81, "hostPort": 82, "protocol": "TCP"},
            ])
        );
    }

    #[test]
    fn probes_and_hooks_get_their_numbers_and_paths() {
        let container = json!({
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 5},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        });
        let mut object = json!({"spec": {"containers": [container]}});
        template(&mut object);
        let container = &object["spec"]["containers"][0];
        assert_eq!(
            container["livenessProbe"],
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
                   "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
        );
        assert_eq!(
            container["readinessProbe"]["grpc"],
            json!({"port": 1, "service": ""})
        );
        assert_eq!(container["readinessProbe"]["periodSeconds"], 5);
        assert_eq!(container["lifecycle"]["preStop"]["httpGet"]["path"], "/");
    }

    #[test]
    fn old_and_new_name_of_the_service_account_are_one() {
        let cases = [
            (json!({"serviceAccount": "a"}), "a"),
            (json!({"serviceAccountName": "b"}), "b"),
            (
                json!({"serviceAccount": "a", "serviceAccountName": "b"}),
                "b",
            ),
        ];
        for (mut spec, name) in cases {
            sync_service_account(&mut spec);
            assert_eq!(
                (spec.text("serviceAccount"), spec.text("serviceAccountName")),
                (name, name)
            );
        }
    }
}
