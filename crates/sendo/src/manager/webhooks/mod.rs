//! What a manager does about its webhooks: it opens them before anything else starts, serves
//! them, has the API server call them, and lets go of them last.

mod bundles;
mod install;
mod own;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use sendo_world::{Clock, Stop, Task};
use tokio::sync::watch;

use self::own::OwnCertificates;
use super::Manager;
use super::run::Life;
use crate::certificates::Names;
use crate::client::Client;
use crate::error::Result;
use crate::hostname::hostname;
use crate::metrics::CertificateMetrics;
use crate::object::{Kind, ObjectKey};
use crate::serve::Listener;
use crate::tls::{Tls, TlsOptions};
use crate::webhook::{Certificates, Conversions, Parts, Reached, Registration, Service, Webhook};
use crate::webhook_server::{self, Endpoints};

/// How often certificate files are read again while nobody calls.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// The webhooks of a manager that runs.
pub(super) struct Served {
    webhooks: Vec<Webhook>,
    conversions: Arc<Conversions>,
    reached: Reached,
    service: Service,
    /// What keeps them registered with an API server in this process.
    registered: Option<Box<dyn Any + Send + Sync>>,
    listening: Option<Listening>,
    /// The authorities of the program's own certificates, in PEM.
    authorities: Option<Vec<u8>>,
}

/// The server of the webhooks, and what it waits for when it ends.
struct Listening {
    closing: Stop,
    server: Task<()>,
    /// Ends when nobody is led here any more, after the program was asked to stop.
    let_go: Task<()>,
    authorities: Option<watch::Receiver<Vec<u8>>>,
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
        if serving.in_process.is_none() && serving.address.is_none() {
            tracing::warn!(
                "the program has webhooks, and they are not served: nothing is defaulted, \
                 validated or converted by this process; outside of a cluster, say where the API \
                 server finds it, with --webhooks-at HOST:PORT"
            );
            return None;
        }
        let namespace = self.config.client.default_namespace();
        let reached = serving.reached.clone();
        let reached = reached.unwrap_or_else(|| Reached::by_service_of(&self.name, namespace));
        let client = self.client(&self.name, &self.worlds.servers, None);
        let with = self.parts_of_webhooks(&client);
        let service = Service::new(&webhooks, conversions.clone(), &with);
        for webhook in &webhooks {
            // A kind that is still to be installed cannot be watched yet.
            let is_installed_first =
                |kind: &Kind| self.config.install_kinds && manager.definitions.has(kind);
            if !webhook.kinds().any(is_installed_first) {
                service.open(webhook, &with);
            }
        }
        let registered = serving.in_process.as_ref();
        let registered = registered.map(|server| server.register(&reached, service.clone()));
        Some(Served {
            webhooks,
            conversions,
            reached,
            service,
            registered,
            listening: None,
            authorities: None,
        })
    }

    /// Opens what the webhooks read of the program's kinds, which are installed.
    pub(super) fn open_reads(&self, served: &Served) {
        let client = self.client(&self.name, &self.worlds.servers, None);
        let with = self.parts_of_webhooks(&client);
        for webhook in &served.webhooks {
            served.service.open(webhook, &with);
        }
    }

    fn parts_of_webhooks<'a>(&'a self, client: &'a Client) -> Parts<'a> {
        Parts {
            cache: &self.cache,
            client,
            metrics: &self.metrics,
            namespaces: &self.config.namespaces,
            world: &self.worlds.servers,
            limits: self.config.webhooks.limits,
        }
    }

    /// Serves the webhooks where the config has an address for them.
    pub(super) async fn listen_to_webhooks(&self, served: &mut Served) -> Result<()> {
        let serving = &self.config.webhooks;
        let Some(address) = &serving.address else {
            return Ok(());
        };
        let world = self.worlds.servers.child("webhooks");
        let listener = Listener::bind(address, "--webhook-address").await?;
        served.reached.take_port(listener.address().port());
        let names = names(&served.reached);
        let folder = match serving.certificates {
            Certificates::Own => None,
            Certificates::Files | Certificates::CertManager => Some(serving.certificates_dir()),
        };
        let options = TlsOptions {
            http2: true,
            clients: serving.client_authorities.clone(),
            names: Some(names.clone()),
            metrics: Some(CertificateMetrics::new(&self.metrics)),
            ..TlsOptions::new(world.clock())
        };
        let tls = Tls::without_certificate(folder.as_deref(), options);
        let mut authorities = None;
        let mut state = None;
        match folder {
            Some(_) => {
                let (tls, clock) = (tls.clone(), world.clock().clone());
                let read_again = async move {
                    loop {
                        tls.refresh();
                        clock.sleep(READ_AGAIN).await;
                    }
                };
                let stopping = world.tasks().stopping().clone();
                world.tasks().spawn("certificates", async move {
                    stopping.run_until_cancelled(read_again).await;
                });
            }
            None => {
                let own = self.own_certificates(served, names, tls.clone(), &world);
                authorities = Some(own.authorities());
                state = Some(own.state());
                let stopping = world.tasks().stopping().clone();
                world.tasks().spawn("certificates", async move {
                    stopping.run_until_cancelled(own.run()).await;
                });
            }
        }
        let (readiness, stop) = (tls.clone(), self.stop.clone());
        self.probes.ready.add_with_remarks("webhooks", move || {
            let result = match stop.is_cancelled() {
                true => Err("stopping".to_owned()),
                false => readiness.readiness(),
            };
            let trouble = state.as_ref().and_then(|state| state.trouble());
            async move {
                match (result, trouble) {
                    (Err(why), Some(trouble)) => Err(format!("{why}: {trouble}")),
                    (Ok(remark), Some(trouble)) if remark.is_empty() => Ok(trouble),
                    (result, _) => result,
                }
            }
        })?;
        let closing = Stop::new();
        let server = {
            let (world, closing) = (world.clone(), closing.clone());
            let service = served.service.clone();
            let limit = service.longest();
            async move {
                webhook_server::serve(listener, tls, service, &world, &closing, limit).await;
            }
        };
        served.listening = Some(Listening {
            closing,
            server: world.tasks().spawn("server", server),
            let_go: world.tasks().spawn("endpoints", self.let_go(served)),
            authorities,
        });
        Ok(())
    }

    /// Ends when nobody is led here any more, after the program was asked to stop.
    fn let_go(&self, served: &Served) -> impl Future<Output = ()> + Send + 'static {
        let serving = &self.config.webhooks;
        let endpoints = match &served.reached {
            Reached::Service { namespace, name } => Some(Endpoints {
                client: self.client(&self.name, &self.worlds.servers, None),
                namespace: namespace.clone(),
                service: name.clone(),
                pod: serving.pod.clone().unwrap_or_else(hostname),
            }),
            Reached::Url { .. } => None,
        };
        let (stop, limit) = (self.stop.clone(), serving.drain);
        let clock = self.config.world.clock().clone();
        async move {
            stop.cancelled().await;
            let Some(endpoints) = endpoints else { return };
            if clock
                .timeout(limit, endpoints.let_go(&clock))
                .await
                .is_none()
            {
                tracing::warn!(?limit, "the Service of the webhooks still leads here");
            }
        }
    }

    fn own_certificates(
        &self,
        served: &Served,
        names: Names,
        tls: Tls,
        world: &sendo_world::World,
    ) -> OwnCertificates {
        let secret = match &served.reached {
            Reached::Service { namespace, .. } => {
                let name = Reached::secret_of(&self.name);
                Some(ObjectKey::namespaced(namespace, &name))
            }
            // It has one replica, whose authority lives as long as it does.
            Reached::Url { .. } => None,
        };
        let cache = self.cache_of(world);
        OwnCertificates::new(own::Parts {
            program: self.name.clone(),
            secret,
            reached: served.reached.clone(),
            names,
            lifetimes: self.config.webhooks.lifetimes,
            client: self.client_with(&self.name, world, None, &cache),
            cache,
            configured: served.configured(&self.name),
            tls,
            world: world.clone(),
        })
    }
}

/// The names that the certificate is for.
fn names(reached: &Reached) -> Names {
    match reached {
        Reached::Url { .. } => Names::new(&reached.host(), []),
        Reached::Service { namespace, name } => Names::new(
            &reached.host(),
            [
                format!("{name}.{namespace}.svc.cluster.local"),
                format!("{name}.{namespace}"),
                name.clone(),
            ],
        ),
    }
}

impl Served {
    fn registration<'a>(&'a self, program: &'a str) -> Registration<'a> {
        Registration {
            program,
            webhooks: &self.webhooks,
            reached: &self.reached,
            ca_bundle: self.authorities.as_deref(),
        }
    }

    /// Which objects of the cluster name the authorities of this program.
    fn configured(&self, program: &str) -> own::Configured {
        let registration = self.registration(program);
        own::Configured {
            mutating: registration.mutating().is_some(),
            validating: registration.validating().is_some(),
            converted: self.conversions.definitions(),
        }
    }

    /// Waits until there is an authority of the program's own, if it makes certificates, so that
    /// whatever is installed from here on trusts it.
    pub(super) async fn know_authorities(&mut self) {
        let listening = self.listening.as_mut();
        let Some(authorities) = listening.and_then(|it| it.authorities.as_mut()) else {
            return;
        };
        // The sender goes with the program, which waits for this.
        if let Ok(known) = authorities.wait_for(|known| !known.is_empty()).await {
            self.authorities = Some(known.clone());
        }
    }

    /// Lets go of the webhooks: nobody calls them any more, and calls under way have `limit`
    /// to end, or as long as the API server waits for them.
    pub(super) async fn end(self, clock: &Clock, limit: Duration) {
        drop(self.registered);
        if let Some(listening) = self.listening {
            // Whoever is led here meanwhile is answered.
            let _ = listening.let_go.output().await;
            listening.closing.cancel();
            let _ = listening.server.output().await;
        }
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
}
