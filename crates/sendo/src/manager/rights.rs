//! All rights of a program: those that its parts declare, and those that follow
//! from how it runs.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event as SeriesEvent;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{Config, Manager};
use crate::cache::Namespaces;
use crate::controller::{ControllerRights, Elected, EventsOf};
use crate::events::EventsApi;
use crate::object::ObjectExt;
use crate::rights::{DeclaredRights, Right, Verb, Verbs};
use crate::webhook::{Certificates, Phase, Reached, Webhook};

/// Where events about objects of no namespace are written.
const DEFAULT_NAMESPACE: &str = "default";

/// What of a program's configuration decides about its rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightsOptions {
    /// The namespaces that it watches; all by default.
    pub namespaces: Namespaces,
    /// The namespace and the name of the lease by which it elects a leader; none by default.
    pub lease: Option<(String, String)>,
    /// Whether it reviews who scrapes its metrics; not by default.
    pub metrics_secure: bool,
    /// Whether it installs its own kinds; not by default.
    pub install_kinds: bool,
    /// Whether it installs the configurations of its webhooks; not by default.
    pub install_webhooks: bool,
    /// How its webhooks are served; not at all by default.
    pub webhooks: Option<ServedWebhooks>,
    /// Which API its events are written to.
    pub events: EventsApi,
}

/// How a program serves its webhooks, as far as its rights go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedWebhooks {
    /// Where the API server finds them.
    pub reached: Reached,
    /// Where their certificate comes from.
    pub certificates: Certificates,
}

impl RightsOptions {
    pub(super) fn of_config(program: &str, config: &Config) -> Self {
        let election = config.election.as_ref();
        let serving = &config.webhooks;
        RightsOptions {
            namespaces: config.namespaces.clone(),
            lease: election.map(|options| (options.namespace.clone(), options.name.clone())),
            metrics_secure: config.metrics_secure,
            install_kinds: config.install_kinds,
            install_webhooks: serving.install,
            webhooks: serving.address.is_some().then(|| ServedWebhooks {
                reached: serving.reached.clone().unwrap_or_else(|| {
                    Reached::by_service_of(program, config.client.default_namespace())
                }),
                certificates: serving.certificates,
            }),
            events: config.events,
        }
    }
}

impl Manager {
    /// All rights that the program needs when it runs like this. Requests that need
    /// another are refused before they are sent; see [`rights`](crate::rights).
    pub fn rights(&self, options: &RightsOptions) -> Vec<Right> {
        let mut rights: Vec<Right> = self.reads.iter().map(|read| read.right()).collect();
        rights.extend(self.needs.iter().cloned());
        rights.extend(self.webhooks.iter().flat_map(Webhook::rights));
        for controller in &self.controllers {
            rights.extend(controller.rights.rights.iter().cloned());
            rights.extend(self.status_of(&controller.rights));
            rights.extend(event_right(controller.rights.events, options.events));
        }
        if let Namespaces::Only(these) = &options.namespaces {
            rights = rights
                .into_iter()
                .map(|right| right.confined_to(these))
                .collect();
        }
        if let Some((namespace, name)) = &options.lease {
            rights.extend(self.election_rights(namespace, name, options.events));
        }
        if options.metrics_secure {
            rights.push(Right::of::<TokenReview>(Verb::Create));
            rights.push(Right::of::<SubjectAccessReview>(Verb::Create));
        }
        if options.install_kinds {
            rights.extend(self.definition_rights());
        }
        if options.install_webhooks {
            rights.extend(self.configuration_rights());
            rights.extend(self.definition_rights());
        }
        if let Some(served) = &options.webhooks {
            rights.extend(self.serving_rights(served));
        }
        rights
    }

    pub(super) fn declared_rights(&self, config: &Config) -> DeclaredRights {
        let options = RightsOptions::of_config(&self.name, config);
        DeclaredRights::new(&self.name, self.rights(&options))
    }

    /// The status of a kind belongs to the program that defines it and controls it.
    fn status_of(&self, controller: &ControllerRights) -> Option<Right> {
        let kind = controller.primary.as_ref()?;
        let mut definitions = self.definitions().iter();
        let spec = &definitions
            .find(|found| {
                (&found.spec.group, &found.spec.names.plural) == (&kind.group, &kind.plural)
            })?
            .spec;
        let subresources = spec.versions.iter().map(|version| &version.subresources);
        let mut with_status = subresources.flatten().filter(|sub| sub.status.is_some());
        with_status.next()?;
        let status = Right::of_kind(kind, Verb::Patch).subresource("status");
        Some(status.in_scope(spec.scope != "Cluster"))
    }

    /// The leases of the program and of the parts that are elected alone, and the
    /// Event that says who leads.
    fn election_rights(&self, namespace: &str, name: &str, api: EventsApi) -> Vec<Right> {
        let controllers = self.declarations().map(|d| (&d.name, d.elected));
        let runnables = self.runnables.iter().map(|r| (&r.name, r.elected));
        let alone = controllers
            .chain(runnables)
            .filter(|part| part.1 == Elected::Alone);
        let alone = alone.map(|(part, _)| format!("{name}-{part}"));
        let leases: BTreeSet<String> = alone.chain([name.to_owned()]).collect();
        let known = Right::of::<Lease>(Verb::Get | Verb::Update).in_namespace(namespace);
        vec![
            leases.iter().fold(known, |right, lease| right.named(lease)),
            Right::of::<Lease>(Verb::Create).in_namespace(namespace),
            event_of(api, Verb::Create.into()).in_namespace(namespace),
        ]
    }

    /// To install the configurations of the webhooks, which are called as the program is.
    fn configuration_rights(&self) -> Vec<Right> {
        if self.webhooks.is_empty() {
            return Vec::new();
        }
        let known = Verb::Get | Verb::Update;
        vec![
            Right::of::<MutatingWebhookConfiguration>(known).named(&self.name),
            Right::of::<MutatingWebhookConfiguration>(Verb::Create),
            Right::of::<ValidatingWebhookConfiguration>(known).named(&self.name),
            Right::of::<ValidatingWebhookConfiguration>(Verb::Create),
        ]
    }

    /// To serve the webhooks: with certificates of its own, to keep these in a Secret and to have
    /// the API server trust them; by a Service, to see when that leads elsewhere.
    fn serving_rights(&self, served: &ServedWebhooks) -> Vec<Right> {
        let mut rights = Vec::new();
        if self.webhooks.is_empty() && self.conversions.is_empty() {
            return rights;
        }
        let known = Verb::Get | Verb::List | Verb::Watch | Verb::Update;
        if let Reached::Service { namespace, .. } = &served.reached {
            rights.push(Right::of::<EndpointSlice>(Verb::List).in_namespace(namespace));
            if served.certificates == Certificates::Own {
                let name = Reached::secret_of(&self.name);
                let secret = |verbs| Right::of::<Secret>(verbs).in_namespace(namespace);
                rights.push(secret(known).named(&name));
                rights.push(secret(Verb::Create.into()));
            }
        }
        if served.certificates != Certificates::Own {
            return rights;
        }
        let has = |phase| self.webhooks.iter().any(|webhook| webhook.phase() == phase);
        if has(Phase::Mutating) {
            rights.push(Right::of::<MutatingWebhookConfiguration>(known).named(&self.name));
        }
        if has(Phase::Validating) {
            rights.push(Right::of::<ValidatingWebhookConfiguration>(known).named(&self.name));
        }
        let converted = self.conversions.definitions();
        if !converted.is_empty() {
            let right = Right::of::<CustomResourceDefinition>(known);
            rights.push(
                converted
                    .iter()
                    .fold(right, |right, name| right.named(name)),
            );
        }
        rights
    }

    fn definition_rights(&self) -> Vec<Right> {
        if self.definitions().is_empty() {
            return Vec::new(); // a right without names would be one to all
        }
        let known = Right::of::<CustomResourceDefinition>(Verb::Get | Verb::Update);
        let names = self.definitions().iter().map(ObjectExt::name);
        vec![
            names.fold(known, |right, name| right.named(name)),
            Right::of::<CustomResourceDefinition>(Verb::Create),
        ]
    }
}

/// What a recorder writes: new events, and counts of those that repeat.
fn event_right(events: EventsOf, api: EventsApi) -> Option<Right> {
    let right = event_of(api, Verb::Create | Verb::Patch);
    match events {
        EventsOf::Anything => Some(right),
        EventsOf::ClusterScoped => Some(right.in_namespace(DEFAULT_NAMESPACE)),
        EventsOf::Nothing => None,
    }
}

fn event_of(api: EventsApi, verbs: Verbs) -> Right {
    match api {
        EventsApi::Core => Right::of::<Event>(verbs),
        EventsApi::Series => Right::of::<SeriesEvent>(verbs),
    }
}
