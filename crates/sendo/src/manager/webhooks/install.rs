//! Has the API server call the webhooks: makes their configurations as the program wants them.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use sendo_world::Clock;

use super::super::definitions::{AGAIN, is_passing};
use super::Served;
use crate::client::{self, Client, OperationResult};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectExt, Typed};

impl Served {
    /// Makes the configurations as the program wants them.
    ///
    /// Fails if the API server refuses one, or one belongs to another program; waits as long as
    /// it does not answer.
    pub(in crate::manager) async fn install(
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
