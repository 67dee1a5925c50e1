//! The certificates that a program makes itself: kept in a Secret that all replicas watch, renewed
//! by whichever of them is first, and trusted by the API server before they are served.
//!
//! No leader is needed: each write names the version of the Secret that it follows, so that of
//! several replicas one succeeds, and the others take what it wrote. Webhooks run on every
//! replica, and so are independent of the election, too.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use sendo_world::{Moment, Stop, Tasks, Timestamp, World};
use tokio::sync::{Notify, watch};

use super::bundles::{self, Bundles as Watched, Wanted};
use crate::cache::{Cache, FieldSelector, Informer, Readiness, Selection};
use crate::certificates::{
    Bundles, Kept, Lifetimes, Maker, Names, Step, Trusted, certificates_in, next_step,
};
use crate::client::{self, Client};
use crate::object::{Kind, Object, ObjectKey};
use crate::tls::Tls;
use crate::webhook::Reached;

/// How often it is looked whether the wall clock was set.
const LOOK: Duration = Duration::from_secs(5);

/// How far the wall clock may be from where it should be without having been set.
const DRIFT: Duration = Duration::from_secs(2);

/// How long to wait after a request that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// What this needs.
pub(super) struct Parts {
    pub(super) program: String,
    /// The Secret; without one, everything is in memory, for a program of one replica.
    pub(super) secret: Option<ObjectKey>,
    pub(super) reached: Reached,
    pub(super) names: Names,
    pub(super) lifetimes: Lifetimes,
    pub(super) client: Client,
    pub(super) cache: Cache,
    pub(super) configured: Configured,
    pub(super) tls: Tls,
    pub(super) world: World,
}

/// Which objects name the authorities of a program.
pub(super) struct Configured {
    pub(super) mutating: bool,
    pub(super) validating: bool,
    /// The names of the definitions whose kinds it converts.
    pub(super) converted: Vec<String>,
}

/// Makes, keeps and renews the certificates of a program.
pub(super) struct OwnCertificates {
    parts: Parts,
    secret: Option<Informer<Secret>>,
    watched: Vec<Box<dyn Watched>>,
    changed: Changed,
    /// What is kept, where there is no Secret; else what this replica knew last.
    known: Kept,
    /// Since when every place has had this authority.
    settled: Option<(Trusted, Moment)>,
    state: State,
    authorities: watch::Sender<Vec<u8>>,
}

/// Who is told that something changed. Cheap to clone.
#[derive(Clone)]
pub(super) struct Changed {
    notify: Arc<Notify>,
    tasks: Tasks,
}

impl Changed {
    /// From now on, of changes of an informer.
    pub(super) fn on_change_of<K: Object>(&self, informer: &Informer<K>) {
        let (mut changes, notify) = (informer.subscribe(), self.notify.clone());
        let stopping: Stop = self.tasks.stopping().clone();
        self.tasks.spawn("changes", async move {
            let changes = async {
                while changes.next().await.is_some() {
                    notify.notify_one();
                }
            };
            stopping.run_until_cancelled(changes).await;
        });
    }
}

/// What keeps the certificates from being as they should, for the readiness probe.
#[derive(Clone)]
pub(super) struct State {
    trouble: Arc<Mutex<Option<String>>>,
    cache: Cache,
}

impl State {
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().clone();
        let Readiness { obstacles, .. } = self.cache.readiness();
        trouble.or_else(|| (!obstacles.is_empty()).then(|| obstacles.join("; ")))
    }

    /// Notes what is wrong now, and tells it when it changes.
    fn note(&self, now: Option<String>) {
        let mut trouble = self.trouble.lock();
        if *trouble == now {
            return;
        }
        match &now {
            Some(problem) => tracing::error!(problem, "the certificates of the webhooks"),
            None => tracing::info!("the certificates of the webhooks are as they should be again"),
        }
        *trouble = now;
    }
}

impl OwnCertificates {
    pub(super) fn new(parts: Parts) -> Self {
        let (cache, configured) = (&parts.cache, &parts.configured);
        let changed = Changed {
            notify: Arc::default(),
            tasks: parts.world.tasks().clone(),
        };
        let mut watched = Vec::new();
        if configured.mutating {
            let name = &parts.program;
            watched.push(bundles::watch::<MutatingWebhookConfiguration>(
                cache, name, &changed,
            ));
        }
        if configured.validating {
            let name = &parts.program;
            watched.push(bundles::watch::<ValidatingWebhookConfiguration>(
                cache, name, &changed,
            ));
        }
        for name in &configured.converted {
            watched.push(bundles::watch::<CustomResourceDefinition>(
                cache, name, &changed,
            ));
        }
        let secret = parts.secret.as_ref().map(|key| {
            let selection = Selection {
                fields: FieldSelector::equal("metadata.name", key.name()),
                ..Selection::in_namespace(key.namespace().unwrap_or_default())
            };
            let informer = cache.informer::<Secret>(Kind::of::<Secret>(), selection);
            changed.on_change_of(&informer);
            informer
        });
        OwnCertificates {
            secret,
            watched,
            changed,
            known: Kept::default(),
            settled: None,
            state: State {
                trouble: Arc::default(),
                cache: parts.cache.clone(),
            },
            authorities: watch::Sender::new(Vec::new()),
            parts,
        }
    }

    /// The authorities, in PEM, as soon as there are any.
    pub(super) fn authorities(&self) -> watch::Receiver<Vec<u8>> {
        self.authorities.subscribe()
    }

    pub(super) fn state(&self) -> State {
        self.state.clone()
    }

    /// Goes on until it is dropped.
    pub(super) async fn run(mut self) {
        self.parts.cache.synced().await;
        loop {
            let wait = match self.look().await {
                Ok(wait) => wait,
                Err(problem) => {
                    self.state.note(Some(problem));
                    AGAIN
                }
            };
            self.wait(wait).await;
        }
    }

    /// Waits until something changes, so much time has passed, or the wall clock was set.
    async fn wait(&self, longest: Duration) {
        let clock = self.parts.world.clock();
        let (start, wall) = (clock.now(), clock.wall());
        loop {
            let left = longest.saturating_sub(clock.now() - start);
            let changed = self.changed.notify.notified();
            if clock.timeout(left.min(LOOK), changed).await.is_some() {
                return;
            }
            let passed = clock.now() - start;
            let off = clock.wall().duration_since(wall + passed).unsigned_abs();
            if passed >= longest || off > DRIFT {
                return;
            }
        }
    }

    /// Does the next thing there is to do. Returns how long there is nothing more.
    async fn look(&mut self) -> Result<Duration, String> {
        let now = self.parts.world.clock().wall();
        let secret = self.read_secret();
        let (kept, mut problems) = match (&self.parts.secret, &secret) {
            (None, _) => (self.known.clone(), Vec::new()),
            (Some(_), None) => (Kept::default(), Vec::new()),
            (Some(key), Some(secret)) => {
                let data = secret.data.clone().unwrap_or_default();
                let (kept, problems) = Kept::from_data(&data, &self.parts.names, now);
                let name = |problem| format!("the Secret {key} has an unusable {problem}");
                (kept, problems.into_iter().map(name).collect())
            }
        };
        let bundles = self.trust(&kept, now, &mut problems).await?;
        self.serve(&kept, &bundles, now)?;
        let maker = Maker {
            name: &authority_name(&self.parts.program),
            names: &self.parts.names,
            now,
            lifetimes: &self.parts.lifetimes,
            random: self.parts.world.random(),
        };
        let step = next_step(&kept, &self.known, &bundles, &maker);
        let wait = match step.map_err(|why| format!("no certificate can be made: {why}"))? {
            Step::Keep(wanted) => match self.keep(wanted, secret).await? {
                true => Duration::ZERO,
                false => AGAIN, // or until the watch shows what another replica wrote
            },
            Step::Trust => AGAIN,
            Step::Wait(until) => {
                let left = until.duration_since(now).unsigned_abs();
                left.max(Duration::from_millis(10))
            }
        };
        if self.parts.secret.is_some() {
            self.remember(kept);
        }
        self.state
            .note((!problems.is_empty()).then(|| problems.join("; ")));
        Ok(wait)
    }

    fn read_secret(&self) -> Option<Arc<Secret>> {
        let (informer, key) = self.secret.as_ref().zip(self.parts.secret.as_ref())?;
        informer.snapshot().get(key)
    }

    /// Has every place trust the authorities that are kept. Returns what they trust now.
    async fn trust(
        &mut self,
        kept: &Kept,
        now: Timestamp,
        problems: &mut Vec<String>,
    ) -> Result<Bundles, String> {
        let wanted = Wanted {
            authorities: kept.authorities.clone(),
            name: authority_name(&self.parts.program),
            now,
        };
        let (reached, client) = (&self.parts.reached, &self.parts.client);
        let mut places = Vec::new();
        for object in &self.watched {
            let known = object.known(reached);
            let changes = |bundle: &Option<Vec<u8>>| wanted.change(bundle.as_deref()).is_some();
            // While nothing is kept, what is trusted stays.
            let is_kept = !kept.authorities.is_empty();
            match known {
                Err(problem) => problems.push(problem),
                Ok(known) if is_kept && known.iter().any(changes) => {
                    let trusted = object.trust(client, reached, &wanted).await;
                    trusted.map_err(|error| {
                        format!("the authority cannot be put into a caBundle: {error}")
                    })?;
                    places.extend(object.known(reached).unwrap_or_default());
                }
                Ok(known) => places.extend(known),
            }
        }
        let places = places
            .iter()
            .map(|bundle| certificates_in(bundle.as_deref().unwrap_or_default()).0);
        let places: Vec<Vec<Trusted>> = places.collect();
        self.note_settled(kept, &places);
        let mut found = Vec::new();
        for authority in places.iter().flatten() {
            if wanted.is_of_program(authority) && !found.contains(authority) {
                found.push(authority.clone());
            }
        }
        let everywhere = |authority: &Trusted| places.iter().all(|place| place.contains(authority));
        let since = self.settled.as_ref().map(|(_, since)| *since);
        let is_served_trusted = kept.issuer(now).is_some_and(everywhere);
        if !kept.authorities.is_empty() {
            let pem: String = kept.authorities.iter().map(Trusted::pem).collect();
            self.authorities.send_if_modified(|known| {
                let is_new = *known != pem.as_bytes();
                *known = pem.into_bytes();
                is_new
            });
        }
        Ok(Bundles {
            settled: since.map(|since| self.parts.world.clock().now() - since),
            found,
            is_served_trusted,
        })
    }

    /// Notes since when every place has the newest authority.
    fn note_settled(&mut self, kept: &Kept, places: &[Vec<Trusted>]) {
        let newest = kept.authorities.first();
        let newest = newest.filter(|newest| places.iter().all(|place| place.contains(newest)));
        let Some(newest) = newest else {
            self.settled = None;
            return;
        };
        let is_known = self.settled.as_ref().is_some_and(|(one, _)| one == newest);
        if !is_known {
            self.settled = Some((newest.clone(), self.parts.world.clock().now()));
        }
    }

    /// Shows the certificate that is kept, unless one is shown that is trusted while this one is
    /// not yet.
    fn serve(&self, kept: &Kept, bundles: &Bundles, now: Timestamp) -> Result<(), String> {
        let Some(identity) = &kept.identity else {
            return Ok(());
        };
        let current = self.parts.tls.identity();
        if current.as_ref() == Some(identity) {
            return Ok(());
        }
        let works = current.is_some_and(|current| current.check(&self.parts.names, now).is_ok());
        if works && !bundles.is_served_trusted {
            return Ok(());
        }
        let until = identity.fields.not_after;
        let given = self.parts.tls.give(identity.clone());
        given.map_err(|error| error.to_string())?;
        tracing::info!(%until, "webhooks are served with a new certificate");
        Ok(())
    }

    /// Keeps something else. Returns whether it did: another replica may have been faster.
    async fn keep(&mut self, wanted: Kept, before: Option<Arc<Secret>>) -> Result<bool, String> {
        let Some(key) = &self.parts.secret else {
            self.known = wanted;
            return Ok(true);
        };
        let client = &self.parts.client;
        let written = match before {
            Some(secret) => {
                let mut secret = (*secret).clone();
                secret.data = Some(wanted.to_data());
                client.update(&secret).await
            }
            None => {
                let secret = Secret {
                    metadata: ObjectMeta {
                        name: Some(key.name().to_owned()),
                        namespace: key.namespace().map(str::to_owned),
                        ..ObjectMeta::default()
                    },
                    type_: Some("Opaque".to_owned()),
                    data: Some(wanted.to_data()),
                    ..Secret::default()
                };
                client.create(&secret).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if is_overtaken(&error) => Ok(false),
            Err(error) => Err(format!("the Secret {key} cannot be written: {error}")),
        }
    }

    /// Remembers what is kept, for when it is deleted or spoilt.
    fn remember(&mut self, kept: Kept) {
        if !kept.authorities.is_empty() {
            self.known.authorities = kept.authorities;
        }
        if kept.identity.is_some() {
            self.known.identity = kept.identity;
        }
    }
}

fn is_overtaken(error: &client::Error) -> bool {
    error.is_conflict() || error.is_already_exists() || error.is_not_found()
}

/// The name of the authorities of a program.
fn authority_name(program: &str) -> String {
    let name = format!("{program} webhooks");
    // A common name has 64 characters at most.
    name.chars().take(64).collect()
}
