//! How the program is reached: the Service of its metrics, and a policy that allows nothing else.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::model::{File, Item, Model};
use super::options::Extra;
use super::webhooks;

/// The port that metrics are served at.
pub(super) const METRICS: u16 = 8443;

/// The label of namespaces from which metrics may be read.
const READERS: (&str, &str) = ("metrics", "enabled");

pub(super) fn metrics_service(model: &Model<'_>) -> Item {
    let service = Service {
        metadata: model.named_here(&format!("{}-metrics", model.name)),
        spec: Some(ServiceSpec {
            selector: Some(model.pod_labels()),
            ports: Some(vec![ServicePort {
                name: Some("metrics".to_owned()),
                port: METRICS.into(),
                target_port: Some(IntOrString::String("metrics".to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    };
    Item::new(File::Monitoring, &service)
        .comment("Metrics, through TLS, for who may `get /metrics`.")
}

/// Webhooks are called from outside of the pods' network, so from anywhere; probes come from the
/// node, which no policy keeps out.
pub(super) fn policy(model: &Model<'_>) -> Item {
    let port = |name: &str| NetworkPolicyPort {
        port: Some(IntOrString::String(name.to_owned())),
        ..NetworkPolicyPort::default()
    };
    let (label, value) = READERS;
    let mut ingress = vec![NetworkPolicyIngressRule {
        from: Some(vec![NetworkPolicyPeer {
            namespace_selector: Some(LabelSelector {
                match_labels: Some([(label.to_owned(), value.to_owned())].into()),
                ..LabelSelector::default()
            }),
            ..NetworkPolicyPeer::default()
        }]),
        ports: Some(vec![port("metrics")]),
    }];
    let webhooks = webhooks::port(model).map(|(name, _)| NetworkPolicyIngressRule {
        from: None,
        ports: Some(vec![port(name)]),
    });
    ingress.extend(webhooks);
    let policy = NetworkPolicy {
        metadata: model.named_here(&model.name),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(model.pod_selector()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress),
            ..NetworkPolicySpec::default()
        }),
    };
    let text = format!(
        "Nothing else reaches the program. Metrics are read from namespaces labelled `{label}: {value}`."
    );
    Item::new(File::NetworkPolicy, &policy)
        .comment(&text)
        .extra(Extra::NetworkPolicy)
}
