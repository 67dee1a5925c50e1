//! The program itself: its namespace, its account, its Deployment and its disruption budget.
//!
//! The pods are as the pod security standard `restricted` wants them.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, HTTPGetAction, Namespace, PodSecurityContext,
    PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext,
    ServiceAccount,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use serde_json::{Value, json};

use super::model::{File, Item, Model};
use super::{network, webhooks, yaml};

const PROBES: u16 = 8081;

/// The namespace and the account of the program.
pub(super) fn account(model: &Model<'_>) -> Vec<Item> {
    let mut items = Vec::new();
    // A chart is installed into a namespace that Helm makes.
    if model.template.is_none() {
        let mut metadata = model.named(&model.namespace);
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(
            "pod-security.kubernetes.io/enforce".to_owned(),
            "restricted".to_owned(),
        );
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        items.push(Item::new(File::Rbac, &namespace));
    }
    let account = ServiceAccount {
        metadata: model.named_here(&model.name),
        ..ServiceAccount::default()
    };
    let mut item = Item::new(File::Rbac, &account).comment("As whom the program runs.");
    if model.template.is_some() {
        item.object["metadata"]["annotations"] = yaml::block(".Values.serviceAccount.annotations");
    }
    items.push(item);
    items
}

/// The Deployment and its disruption budget.
pub(super) fn program(model: &Model<'_>) -> Vec<Item> {
    let deployment = Deployment {
        metadata: model.named_here(&model.name),
        spec: Some(DeploymentSpec {
            selector: model.pod_selector(),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(model.pod_labels()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(model)),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    let mut item = Item::new(File::Deployment, &deployment)
        .note(
            "/spec/template/spec/terminationGracePeriodSeconds",
            "As long as the program may take to stop: what is in flight ends, the lease is given back.",
        )
        .note(
            "/spec/template/spec/containers/0/readinessProbe",
            "Ready when its caches are filled and its webhooks are served.",
        );
    item.object["spec"]["replicas"] = model.replicas.clone();
    if model.template.is_some() {
        fill_in_values(&mut item.object);
    }
    vec![item, disruption_budget(model)]
}

/// What a chart leaves to its values.
fn fill_in_values(deployment: &mut Value) {
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["annotations"] = yaml::block(".Values.podAnnotations");
    let pod = &mut template["spec"];
    pod["imagePullSecrets"] = yaml::block(".Values.imagePullSecrets");
    pod["nodeSelector"] = yaml::block(".Values.nodeSelector");
    pod["tolerations"] = yaml::block(".Values.tolerations");
    pod["affinity"] = yaml::block(".Values.affinity");
    let container = &mut pod["containers"][0];
    container["imagePullPolicy"] = yaml::expression(".Values.image.pullPolicy").into();
    container["resources"] = yaml::block(".Values.resources");
    container["env"] = yaml::block(".Values.env");
    if let Some(arguments) = container["args"].as_array_mut() {
        arguments.push(yaml::block(".Values.args"));
    }
}

fn pod(model: &Model<'_>) -> PodSpec {
    let grace = model.options.grace_period.as_secs_f64().ceil();
    let mut pod = PodSpec {
        service_account_name: Some(model.name.clone()),
        termination_grace_period_seconds: Some(grace as i64),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(model)],
        ..PodSpec::default()
    };
    webhooks::mount_certificates(model, &mut pod);
    pod
}

fn container(model: &Model<'_>) -> Container {
    let mut arguments = vec![
        "run".to_owned(),
        "--leader-elect".to_owned(),
        format!("--health-address=:{PROBES}"),
        format!("--metrics-address=:{}", network::METRICS),
        "--metrics-secure".to_owned(),
    ];
    arguments.extend(webhooks::arguments(model));
    arguments.extend(model.options.arguments.iter().cloned());
    let environment = &model.options.environment;
    let environment = environment.iter().map(|(name, value)| EnvVar {
        name: name.clone(),
        value: Some(value.clone()),
        ..EnvVar::default()
    });
    let environment: Vec<EnvVar> = environment.collect();
    let mut ports = vec![port("metrics", network::METRICS), port("probes", PROBES)];
    ports.extend(webhooks::port(model).map(|(name, number)| port(name, number)));
    Container {
        // Helm and kustomize find it by this name, whatever the program is called.
        name: "program".to_owned(),
        image: Some(model.image.clone()),
        args: Some(arguments),
        env: (!environment.is_empty()).then_some(environment),
        ports: Some(ports),
        liveness_probe: Some(probe("/healthz", 10)),
        readiness_probe: Some(probe("/readyz", 5)),
        resources: Some(resources()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// What the container asks for, and how much it may have. There is no limit of CPU time: a program
/// that is throttled renews its lease late.
pub(super) fn resources() -> ResourceRequirements {
    let amounts = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
            .collect()
    };
    ResourceRequirements {
        requests: Some(amounts(&[("cpu", "10m"), ("memory", "64Mi")])),
        limits: Some(amounts(&[("memory", "256Mi")])),
        ..ResourceRequirements::default()
    }
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number.into(),
        ..ContainerPort::default()
    }
}

fn probe(path: &str, period: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("probes".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        ..Probe::default()
    }
}

fn disruption_budget(model: &Model<'_>) -> Item {
    let budget = PodDisruptionBudget {
        metadata: model.named_here(&model.name),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(model.pod_selector()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    };
    Item::new(File::Deployment, &budget)
        .comment("While nodes are drained, one replica is moved at a time.")
}

/// The values of a chart that stand for resources, as they are by default.
pub(super) fn default_resources() -> Value {
    json!(resources())
}
