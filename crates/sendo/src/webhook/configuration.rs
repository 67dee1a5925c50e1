//! The objects that make an API server call the webhooks of a program.
//!
//! They follow from the declaration, so that paths, rules, ports and names agree by themselves.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ServiceReference, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    self as extensions, CustomResourceDefinition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::convert::Conversions;
use super::declaration::{FailurePolicy, MatchPolicy, Phase, SideEffects, Webhook};
use super::service::CONVERT;

/// The port that webhooks listen on by default.
const PORT: u16 = 9443;

/// The port of their Service.
const SERVICE_PORT: u16 = 443;

/// The name of the port, of container and Service.
const PORT_NAME: &str = "webhooks";

/// Where an API server finds the webhooks of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Behind the Service of this name, on port 443.
    Service {
        /// The namespace of the Service, and of the program.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// At this host and port: a program that is run by hand.
    Url {
        /// `host:port`, without `https://`.
        authority: String,
    },
}

impl Reached {
    /// By the Service that belongs to `program` in `namespace`: `<program>-webhooks`.
    pub fn by_service_of(program: &str, namespace: &str) -> Self {
        Reached::Service {
            namespace: namespace.to_owned(),
            name: format!("{program}-webhooks"),
        }
    }

    /// The name of the Secret with the certificate of `program`: `<program>-webhook-certificates`.
    pub fn secret_of(program: &str) -> String {
        format!("{program}-webhook-certificates")
    }

    /// A URL with port 0 gets the port that was taken.
    pub(crate) fn take_port(&mut self, port: u16) {
        if let Reached::Url { authority } = self
            && let Some(host) = authority.strip_suffix(":0")
        {
            *authority = format!("{host}:{port}");
        }
    }

    /// The host that the certificate must be for, as in a URL.
    pub(crate) fn host(&self) -> String {
        match self {
            Reached::Service { namespace, name } => format!("{name}.{namespace}.svc"),
            Reached::Url { authority } => match authority.rsplit_once(':') {
                Some((host, _)) => host.to_owned(),
                None => authority.clone(),
            },
        }
    }

    /// The port that the API server calls.
    pub(crate) fn port(&self) -> u16 {
        let Reached::Url { authority } = self else {
            return SERVICE_PORT;
        };
        let port = authority
            .rsplit_once(':')
            .map(|(_, port)| port.parse().ok());
        port.flatten().unwrap_or(SERVICE_PORT)
    }

    /// The namespace of the program, if it runs in the cluster.
    fn namespace(&self) -> &str {
        match self {
            Reached::Service { namespace, .. } => namespace,
            Reached::Url { .. } => "default",
        }
    }

    pub(crate) fn client_config(
        &self,
        path: &str,
        ca_bundle: Option<&[u8]>,
    ) -> WebhookClientConfig {
        let ca_bundle = ca_bundle.map(|bundle| ByteString(bundle.to_vec()));
        match self {
            Reached::Service { namespace, name } => WebhookClientConfig {
                ca_bundle,
                service: Some(ServiceReference {
                    name: name.clone(),
                    namespace: namespace.clone(),
                    path: Some(path.to_owned()),
                    port: Some(SERVICE_PORT.into()),
                }),
                url: None,
            },
            Reached::Url { authority } => WebhookClientConfig {
                ca_bundle,
                service: None,
                url: Some(format!("https://{authority}{path}")),
            },
        }
    }
}

/// The objects that a cluster needs for the webhooks of a program; see
/// [`Manager::webhook_manifests`](crate::Manager::webhook_manifests).
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    /// What has the API server call the webhooks that change objects.
    pub mutating: Option<MutatingWebhookConfiguration>,
    /// What has the API server call the webhooks that only decide.
    pub validating: Option<ValidatingWebhookConfiguration>,
    /// The Service before the program; `None` if it has neither webhooks nor conversions.
    pub service: Option<Service>,
    /// The name and number of the port of its container.
    pub port: Option<(&'static str, u16)>,
}

/// The webhooks of a program as an API server is to know them.
pub(crate) struct Registration<'a> {
    pub(crate) program: &'a str,
    pub(crate) webhooks: &'a [Webhook],
    pub(crate) reached: &'a Reached,
    /// The authorities that the API server is to trust, in PEM. `None` in printed manifests:
    /// the program, or cert-manager, adds them.
    pub(crate) ca_bundle: Option<&'a [u8]>,
}

impl Registration<'_> {
    /// The objects of a program in a cluster, whose pods have these labels.
    pub(crate) fn manifests(&self, labels: &BTreeMap<String, String>) -> Manifests {
        Manifests {
            mutating: self.mutating(),
            validating: self.validating(),
            service: Some(service(self.program, self.reached.namespace(), labels)),
            port: Some((PORT_NAME, PORT)),
        }
    }

    fn of_phase(&self, phase: Phase) -> impl Iterator<Item = &Webhook> {
        let webhooks = self.webhooks.iter();
        webhooks.filter(move |webhook| webhook.phase == phase)
    }

    fn client_config(&self, webhook: &Webhook) -> WebhookClientConfig {
        self.reached.client_config(&webhook.path(), self.ca_bundle)
    }

    /// What calls those that change objects; `None` if there are none.
    pub(crate) fn mutating(&self) -> Option<MutatingWebhookConfiguration> {
        let webhooks: Vec<_> = self
            .of_phase(Phase::Mutating)
            .map(|webhook| MutatingWebhook {
                name: webhook.configured_name(self.program),
                client_config: self.client_config(webhook),
                rules: rules(webhook),
                failure_policy: Some(failure_policy(webhook)),
                match_policy: Some(match_policy(webhook)),
                side_effects: side_effects(webhook),
                timeout_seconds: Some(webhook.timeout_seconds.into()),
                admission_review_versions: vec!["v1".to_owned()],
                match_conditions: conditions(webhook),
                namespace_selector: webhook.namespaces(self.reached.namespace()),
                object_selector: webhook.object_selector.clone(),
                reinvocation_policy: Some(
                    match webhook.reinvoked {
                        true => "IfNeeded",
                        false => "Never",
                    }
                    .to_owned(),
                ),
            })
            .collect();
        (!webhooks.is_empty()).then(|| MutatingWebhookConfiguration {
            metadata: named(self.program),
            webhooks: Some(webhooks),
        })
    }

    /// What calls those that only decide; `None` if there are none.
    pub(crate) fn validating(&self) -> Option<ValidatingWebhookConfiguration> {
        let webhooks: Vec<_> = self
            .of_phase(Phase::Validating)
            .map(|webhook| ValidatingWebhook {
                name: webhook.configured_name(self.program),
                client_config: self.client_config(webhook),
                rules: rules(webhook),
                failure_policy: Some(failure_policy(webhook)),
                match_policy: Some(match_policy(webhook)),
                side_effects: side_effects(webhook),
                timeout_seconds: Some(webhook.timeout_seconds.into()),
                admission_review_versions: vec!["v1".to_owned()],
                match_conditions: conditions(webhook),
                namespace_selector: webhook.namespaces(self.reached.namespace()),
                object_selector: webhook.object_selector.clone(),
            })
            .collect();
        (!webhooks.is_empty()).then(|| ValidatingWebhookConfiguration {
            metadata: named(self.program),
            webhooks: Some(webhooks),
        })
    }

    /// These definitions, with the conversion of the kinds that are converted.
    pub(crate) fn with_conversions(
        &self,
        definitions: &[CustomResourceDefinition],
        conversions: &Conversions,
    ) -> Vec<CustomResourceDefinition> {
        let mut definitions = definitions.to_vec();
        for definition in &mut definitions {
            let spec = &mut definition.spec;
            if conversions.converts(&spec.group, &spec.names.kind) {
                spec.conversion = Some(self.conversion());
            }
        }
        definitions
    }

    /// How a definition converts the versions of its kind.
    fn conversion(&self) -> extensions::CustomResourceConversion {
        let config = self.reached.client_config(CONVERT, self.ca_bundle);
        let service = config.service.map(|service| extensions::ServiceReference {
            name: service.name,
            namespace: service.namespace,
            path: service.path,
            port: service.port,
        });
        extensions::CustomResourceConversion {
            strategy: "Webhook".to_owned(),
            webhook: Some(extensions::WebhookConversion {
                client_config: Some(extensions::WebhookClientConfig {
                    ca_bundle: config.ca_bundle,
                    service,
                    url: config.url,
                }),
                conversion_review_versions: vec!["v1".to_owned()],
            }),
        }
    }
}

/// The Service before the webhooks of `program`; `labels` select its pods.
fn service(program: &str, namespace: &str, labels: &BTreeMap<String, String>) -> Service {
    let Reached::Service { namespace, name } = Reached::by_service_of(program, namespace) else {
        unreachable!("it is reached by a Service")
    };
    Service {
        metadata: ObjectMeta {
            namespace: Some(namespace),
            ..self::named(&name)
        },
        spec: Some(ServiceSpec {
            selector: Some(labels.clone()),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: SERVICE_PORT.into(),
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn rules(
    webhook: &Webhook,
) -> Option<Vec<k8s_openapi::api::admissionregistration::v1::RuleWithOperations>> {
    let rules = webhook.rules.iter();
    Some(rules.map(super::rule::Rule::to_configured).collect())
}

fn conditions(
    webhook: &Webhook,
) -> Option<Vec<k8s_openapi::api::admissionregistration::v1::MatchCondition>> {
    let conditions = &webhook.match_conditions;
    (!conditions.is_empty()).then(|| conditions.clone())
}

fn failure_policy(webhook: &Webhook) -> String {
    match webhook.failure_policy {
        FailurePolicy::Fail => "Fail",
        FailurePolicy::Ignore => "Ignore",
    }
    .to_owned()
}

fn match_policy(webhook: &Webhook) -> String {
    match webhook.match_policy {
        MatchPolicy::Equivalent => "Equivalent",
        MatchPolicy::Exact => "Exact",
    }
    .to_owned()
}

fn side_effects(webhook: &Webhook) -> String {
    match webhook.side_effects {
        SideEffects::None => "None",
        SideEffects::NoneOnDryRun => "NoneOnDryRun",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::webhook::{self, Admission, Change, Denied, Operation::*};

    async fn allow(_: Change<Pod>, _: Admission) -> Result<(), Denied> {
        Ok(())
    }

    async fn keep(_: &mut Pod, _: Admission) -> Result<(), Denied> {
        Ok(())
    }

    #[test]
    fn configurations_follow_from_the_declaration() {
        let webhooks = [
            webhook::defaults(keep).except_own_namespace().reinvoked(),
            webhook::validates(allow)
                .on(Create | Delete)
                .failure_policy(webhook::FailurePolicy::Ignore)
                .match_condition("named", "object.metadata.name != ''")
                .timeout_seconds(3),
        ];
        let reached = Reached::by_service_of("guard", "system");
        let registration = Registration {
            program: "guard",
            webhooks: &webhooks,
            reached: &reached,
            ca_bundle: None,
        };
        let mutating = serde_json::to_value(registration.mutating().unwrap()).unwrap();
        let expected = json!([{
            "name": "default.pods.guard",
            "clientConfig": {"service": {
                "name": "guard-webhooks", "namespace": "system", "path": "/mutate-v1-pod", "port": 443,
            }},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                "operations": ["CREATE", "UPDATE"],
            }],
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["system"]},
            ]},
            "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None",
            "timeoutSeconds": 10, "admissionReviewVersions": ["v1"], "reinvocationPolicy": "IfNeeded",
        }]);
        assert_eq!(mutating["webhooks"], expected);

        let reached = Reached::Url {
            authority: "127.0.0.1:9443".to_owned(),
        };
        let registration = Registration {
            reached: &reached,
            ca_bundle: Some(b"pem"),
            ..registration
        };
        let validating = serde_json::to_value(registration.validating().unwrap()).unwrap();
        let webhook = &validating["webhooks"][0];
        let config = json!({"url": "https://127.0.0.1:9443/validate-v1-pod", "caBundle": "cGVt"});
        assert_eq!(webhook["clientConfig"], config);
        assert_eq!(
            webhook["rules"][0]["operations"],
            json!(["CREATE", "DELETE"])
        );
        assert_eq!(webhook["failurePolicy"], "Ignore");
        assert_eq!(webhook["timeoutSeconds"], 3);
        assert_eq!(webhook["matchConditions"][0]["name"], "named");
        assert_eq!(
            (reached.host().as_str(), reached.port()),
            ("127.0.0.1", 9443)
        );
    }
}
