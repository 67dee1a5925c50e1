//! What a manager does about its webhooks: it opens them before anything else starts, has the
//! API server call them, and lets go of them last.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use sendo_world::Clock;

use super::Manager;
use super::definitions::{AGAIN, is_passing};
use super::run::Life;
use crate::client::{self, Client, OperationResult};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectExt, Typed};
use crate::webhook::{Conversions, Parts, Reached, Registration, Service, Webhook};

/// The webhooks of a manager that runs.
pub(super) struct Served {
    webhooks: Vec<Webhook>,
    conversions: Arc<Conversions>,
    reached: Reached,
    pub(super) service: Service,
    /// What keeps them registered with an API server in this process.
    pub(super) registered: Option<Box<dyn Any + Send + Sync>>,
}

impl Life {
    /// Opens the webhooks; `None` if there are none, or nothing through which they could be called.
    pub(super) fn open_webhooks(&self, manager: &mut Manager) -> Option<Served> {
        let webhooks = std::mem::take(&mut manager.webhooks);
        let conversions = Arc::new(std::mem::take(&mut manager.conversions));
        if webhooks.is_empty() && conversions.is_empty() {
            return None;
        }
        let serving = &self.config.webhooks;
        if serving.in_process.is_none() {
            tracing::warn!(
                "the program has webhooks, and they are not served: nothing is defaulted, \
                 validated or converted by this process"
            );
            return None;
        }
        let namespace = self.config.client.default_namespace();
        let reached = serving.reached.clone();
        let reached = reached.unwrap_or_else(|| Reached::by_service_of(&self.name, namespace));
        let world = &self.worlds.servers;
        let with = Parts {
            cache: &self.cache,
            client: &self.client(&self.name, world, None),
            metrics: &self.metrics,
            namespaces: &self.config.namespaces,
            world,
            limits: serving.limits,
        };
        let service = Service::new(&webhooks, conversions.clone(), &with);
        let registered = serving.in_process.as_ref();
        let registered = registered.map(|server| server.register(&reached, service.clone()));
        Some(Served {
            webhooks,
            conversions,
            reached,
            service,
            registered,
        })
    }
}

impl Served {
    fn registration<'a>(&'a self, program: &'a str) -> Registration<'a> {
        Registration {
            program,
            webhooks: &self.webhooks,
            reached: &self.reached,
            ca_bundle: None,
        }
    }

    /// Lets go of the webhooks: nobody calls them any more, and calls under way have `limit`
    /// to end.
    pub(super) async fn end(self, clock: &Clock, limit: Duration) {
        drop(self.registered);
        if clock.timeout(limit, self.service.idle()).await.is_none() {
            tracing::warn!(?limit, "webhooks did not decide in time");
        }
    }

    /// The program's kinds, with the conversion of those that are converted.
    pub(super) fn with_conversions(
        &self,
        program: &str,
        definitions: &[CustomResourceDefinition],
    ) -> Vec<CustomResourceDefinition> {
        let registration = self.registration(program);
        registration.with_conversions(definitions, &self.conversions)
    }

    /// Makes the configurations as the program wants them.
    ///
    /// Fails if the API server refuses one, or one belongs to another program; waits as long as
    /// it does not answer.
    pub(super) async fn install(
        &self,
        program: &str,
        client: &Client,
        clock: &Clock,
    ) -> Result<()> {
        let registration = self.registration(program);
        if let Some(wanted) = registration.mutating() {
            self.apply(client, clock, wanted).await?;
        }
        if let Some(wanted) = registration.validating() {
            self.apply(client, clock, wanted).await?;
        }
        Ok(())
    }

    async fn apply<C: Configuration>(
        &self,
        client: &Client,
        clock: &Clock,
        wanted: C,
    ) -> Result<()> {
        let (kind, name) = (Kind::of::<C>().kind, wanted.name().to_owned());
        loop {
            let change = |known: &mut C| self.claim(known, &wanted);
            match client.create_or_update(wanted.clone(), change).await {
                Ok(OperationResult::Unchanged(_)) => return Ok(()),
                Ok(_) => {
                    tracing::info!(kind, name, "webhooks registered");
                    return Ok(());
                }
                Err(error) => match error.downcast_ref::<client::Error>() {
                    Some(passing) if is_passing(passing) => {
                        tracing::warn!(kind, name, %error, "cannot register the webhooks yet");
                        clock.sleep(AGAIN).await;
                    }
                    _ => {
                        let text = format!("cannot install the {kind} {name}: {error}");
                        return Err(Error::terminal(text));
                    }
                },
            }
        }
    }

    /// Makes a configuration of the cluster the wanted one, unless it is another program's.
    fn claim<C: Configuration>(&self, known: &mut C, wanted: &C) -> Result<()> {
        let own = self.reached.client_config("", None).service;
        for (_, config) in known.client_configs() {
            let Some(theirs) = &config.service else {
                continue;
            };
            let is_own = own.as_ref().is_some_and(|own| {
                (&own.namespace, &own.name) == (&theirs.namespace, &theirs.name)
            });
            if !is_own {
                let text = format!(
                    "it calls the Service {}/{}, which is another program's: give this program another name, or delete the configuration if that one is gone",
                    theirs.namespace, theirs.name
                );
                return Err(Error::terminal(text));
            }
        }
        let mut trusted = Vec::new();
        for (name, config) in known.client_configs() {
            trusted.push((name.clone(), config.ca_bundle.clone()));
        }
        known.take_webhooks_of(wanted);
        for (name, config) in known.client_configs() {
            // The authorities that are trusted stay, if none are named.
            if config.ca_bundle.is_none() {
                let before = trusted.iter_mut().find(|(known, _)| *known == *name);
                config.ca_bundle = before.and_then(|(_, bundle)| bundle.take());
            }
        }
        Ok(())
    }
}

/// A configuration of webhooks of either phase.
trait Configuration: Typed {
    /// The name of each webhook, and where it is called.
    fn client_configs(&mut self) -> Vec<(&String, &mut WebhookClientConfig)>;

    /// Takes over the webhooks of another one, with what the API server filled in where that
    /// says nothing.
    fn take_webhooks_of(&mut self, wanted: &Self);
}

macro_rules! configuration {
    ($kind:ty) => {
        impl Configuration for $kind {
            fn client_configs(&mut self) -> Vec<(&String, &mut WebhookClientConfig)> {
                let webhooks = self.webhooks.iter_mut().flatten();
                webhooks
                    .map(|one| (&one.name, &mut one.client_config))
                    .collect()
            }

            fn take_webhooks_of(&mut self, wanted: &Self) {
                let mut webhooks = wanted.webhooks.clone().unwrap_or_default();
                for webhook in &mut webhooks {
                    let mut known = self.webhooks.iter().flatten();
                    let Some(known) = known.find(|known| known.name == webhook.name) else {
                        continue;
                    };
                    let selectors = [
                        (&mut webhook.namespace_selector, &known.namespace_selector),
                        (&mut webhook.object_selector, &known.object_selector),
                    ];
                    for (wanted, known) in selectors {
                        // Everything is what nothing says.
                        if wanted.is_none() && *known == Some(Default::default()) {
                            wanted.clone_from(known);
                        }
                    }
                    for (wanted, known) in webhook
                        .rules
                        .iter_mut()
                        .flatten()
                        .zip(known.rules.iter().flatten())
                    {
                        if wanted.scope.is_none() && known.scope.as_deref() == Some("*") {
                            wanted.scope.clone_from(&known.scope);
                        }
                    }
                }
                self.webhooks = Some(webhooks);
            }
        }
    };
}

configuration!(MutatingWebhookConfiguration);
configuration!(ValidatingWebhookConfiguration);
