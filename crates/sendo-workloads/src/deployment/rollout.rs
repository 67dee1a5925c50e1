//! One sync of a Deployment: what was found, and what is done about it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::{Context, EventType::*, ObjectExt, ObjectKey, Result, client};

use super::bounds::Bounds;
use super::conditions::{Conditions, PROGRESSING, reason};
use super::revision::{self, REVISION, noted};
use super::sets::{self, by_age, size, total};
use super::template::{self, HASH_LABEL};
use super::{history, proportion, recreate, rolling};
use crate::claim::controller_reference;

/// A Deployment with its sets, and the part of its status that a sync decides.
pub(super) struct Rollout<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) cx: &'a Context,
    pub(super) bounds: Bounds,
    /// The set of the current template, if there is one.
    pub(super) new: Option<ReplicaSet>,
    /// The other sets, oldest first.
    pub(super) old: Vec<ReplicaSet>,
    /// The current template's revision, once it is known.
    pub(super) revision: Option<String>,
    /// How often a name was taken by a set of another template.
    pub(super) collisions: Option<i32>,
    pub(super) conditions: Conditions,
}

/// What kind of sync it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Pods were brought nearer to the current template: progress is expected.
    RollingOut,
    /// Only sizes were changed, or nothing: the Deployment is paused, was just
    /// scaled, or goes away.
    Holding,
}

impl<'a> Rollout<'a> {
    pub(super) fn new(
        deployment: &'a Deployment,
        sets: Vec<Arc<ReplicaSet>>,
        cx: &'a Context,
    ) -> Self {
        let mut old: Vec<ReplicaSet> = sets.into_iter().map(Arc::unwrap_or_clone).collect();
        old.sort_by(by_age);
        // Should several sets have the current template, the oldest is the one.
        let current = old.iter().position(|set| has_template_of(set, deployment));
        let new = current.map(|at| old.remove(at));
        let status = deployment.status.as_ref();
        Rollout {
            deployment,
            cx,
            bounds: Bounds::of(deployment),
            new,
            old,
            revision: None,
            collisions: status.and_then(|status| status.collision_count),
            conditions: Conditions::of(deployment, cx.now()),
        }
    }

    /// Takes the next step.
    pub(super) async fn advance(&mut self) -> Result<Stage> {
        if self.deployment.is_being_deleted() {
            return Ok(Stage::Holding);
        }
        self.note_pause();
        self.renew_current().await?;
        let paused = self.spec().is_some_and(|spec| spec.paused == Some(true));
        if paused || self.was_scaled() {
            proportion::scale(self).await?;
            if paused {
                history::prune(self).await?;
            }
            return Ok(Stage::Holding);
        }
        match self.bounds.rolling {
            true => rolling::advance(self).await?,
            false => recreate::advance(self).await?,
        }
        Ok(Stage::RollingOut)
    }

    pub(super) fn spec(&self) -> Option<&DeploymentSpec> {
        self.deployment.spec.as_ref()
    }

    /// All sets: the old ones, then the new one.
    pub(super) fn sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    /// The time within which a step must show, if there is a limit.
    pub(super) fn deadline(&self) -> Option<i32> {
        let seconds = self.spec().and_then(|spec| spec.progress_deadline_seconds);
        seconds.filter(|seconds| *seconds != i32::MAX)
    }

    pub(super) fn scaler(&self) -> Scaler<'a> {
        Scaler {
            cx: self.cx,
            bounds: self.bounds,
        }
    }

    /// The clock of the deadline stands still during a pause, and starts anew after it.
    fn note_pause(&mut self) {
        let known = self.conditions.reason(PROGRESSING);
        if self.deadline().is_none() || known == reason::TIMED_OUT {
            return;
        }
        let was_paused = known == reason::PAUSED;
        let paused = self.spec().is_some_and(|spec| spec.paused == Some(true));
        let (reason, message) = match (was_paused, paused) {
            (false, true) => (reason::PAUSED, "Deployment is paused"),
            (true, false) => (reason::RESUMED, "Deployment is resumed"),
            _ => return,
        };
        let message = message.to_owned();
        self.conditions.set(PROGRESSING, "Unknown", reason, message);
    }

    /// Brings what the current set has from its Deployment up to date.
    async fn renew_current(&mut self) -> Result<()> {
        let next = revision::next(&self.old);
        let min_ready = self.spec().and_then(|spec| spec.min_ready_seconds);
        let Some(known) = &mut self.new else {
            return Ok(());
        };
        let mut set = known.clone();
        revision::annotate(&mut set, self.deployment, next);
        if let Some(spec) = &mut set.spec
            && spec.min_ready_seconds.unwrap_or(0) != min_ready.unwrap_or(0)
        {
            spec.min_ready_seconds = min_ready;
        }
        if set != *known {
            *known = sets::write(&set, self.cx).await?;
        }
        self.revision = known.annotation(REVISION).map(str::to_owned);
        let message = format!("Found new replica set \"{}\"", known.name());
        if self.deadline().is_some() && self.conditions.get(PROGRESSING).is_none() {
            let reason = reason::FOUND;
            self.conditions.set(PROGRESSING, "True", reason, message);
        }
        Ok(())
    }

    /// Whether the wanted number of replicas changed since the sets were sized.
    fn was_scaled(&self) -> bool {
        let active = self.sets().filter(|set| size(set) > 0);
        let desired = |set| noted(set, revision::DESIRED);
        active
            .filter_map(desired)
            .any(|desired| desired != self.bounds.replicas)
    }

    /// Makes the set of the current template. It is not there afterwards if its
    /// name is taken, which the next sync avoids, or if the namespace goes away.
    pub(super) async fn create_current(&mut self) -> Result<()> {
        let next = revision::next(&self.old);
        let set = self.current_set(next);
        let replicas = size(&set);
        let created = match self.cx.client().create(&set).await {
            Ok(created) => created,
            Err(error) if error.is_already_exists() => return self.take_existing(set.key()).await,
            Err(error) if error.is_namespace_gone() => return Ok(()),
            Err(error) => return Err(self.report_not_created(&set, error)),
        };
        if replicas > 0 {
            let name = created.name();
            let message = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.cx.event(Normal, "ScalingReplicaSet", message);
        }
        if self.deadline().is_some() {
            let message = format!("Created new replica set \"{}\"", created.name());
            let reason = reason::CREATED;
            self.conditions.set(PROGRESSING, "True", reason, message);
        }
        self.revision = Some(next.to_string());
        self.new = Some(created);
        Ok(())
    }

    /// The set as it is to be created, as large as there is room for.
    fn current_set(&self, revision: i64) -> ReplicaSet {
        let spec = self.spec().cloned().unwrap_or_default();
        let mut template = spec.template;
        let hash = template::hash(&template, self.collisions);
        let metadata = template.metadata.get_or_insert_default();
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(HASH_LABEL.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector;
        let required = selector.match_labels.get_or_insert_default();
        required.insert(HASH_LABEL.to_owned(), hash.clone());

        let room = self.bounds.most() - total(&self.old, size);
        let replicas = match self.bounds.rolling {
            true => room.clamp(0, self.bounds.replicas),
            false => self.bounds.replicas,
        };
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(template::set_name(self.deployment.name(), &hash)),
                namespace: self.deployment.metadata.namespace.clone(),
                labels: Some(labels),
                owner_references: Some(vec![controller_reference(self.deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(replicas),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        revision::annotate(&mut set, self.deployment, revision);
        revision::note_sizes(&mut set, self.bounds);
        set
    }

    /// The name is taken: by our own set, if the cache was behind, or else by
    /// another, and then the template gets another hash.
    async fn take_existing(&mut self, key: ObjectKey) -> Result<()> {
        let Some(taken) = self.cx.live().get::<ReplicaSet>(key).await? else {
            return Ok(());
        };
        let is_ours = taken.controller_of::<Deployment>() == Some(self.deployment.uid());
        if is_ours && has_template_of(&taken, self.deployment) {
            self.revision = taken.annotation(REVISION).map(str::to_owned);
            self.new = Some(taken);
        } else {
            self.collisions = Some(self.collisions.unwrap_or(0) + 1);
        }
        Ok(())
    }

    fn report_not_created(&mut self, set: &ReplicaSet, error: client::Error) -> sendo::Error {
        let name = set.name();
        let message = format!("Failed to create new replica set \"{name}\": {error}");
        let reason = reason::NOT_CREATED;
        self.cx.event(Warning, reason, message.clone());
        if self.deadline().is_some() {
            self.conditions.set(PROGRESSING, "False", reason, message);
        }
        error.into()
    }
}

fn has_template_of(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().map(|spec| &spec.template);
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    match (template, wanted) {
        (Some(template), Some(wanted)) => template::are_equal(template, wanted),
        _ => false,
    }
}

/// Gives sets their sizes, and tells of it.
#[derive(Clone, Copy)]
pub(super) struct Scaler<'a> {
    cx: &'a Context,
    bounds: Bounds,
}

impl Scaler<'_> {
    /// Makes the set `to` pods large; says whether it was not.
    pub(super) async fn resize(self, set: &mut ReplicaSet, to: i32) -> Result<bool> {
        match size(set) == to {
            true => Ok(false),
            false => self.resize_and_note(set, to).await,
        }
    }

    /// The same, and notes on a set that has its size already what the
    /// Deployment wants now.
    pub(super) async fn resize_and_note(self, set: &mut ReplicaSet, to: i32) -> Result<bool> {
        let from = size(set);
        let mut changed = set.clone();
        let news = revision::note_sizes(&mut changed, self.bounds);
        if from == to && !news {
            return Ok(false);
        }
        changed.spec.get_or_insert_default().replicas = Some(to);
        *set = sets::write(&changed, self.cx).await?;
        if from == to {
            return Ok(false);
        }
        let direction = if from < to { "up" } else { "down" };
        let name = set.name();
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        self.cx.event(Normal, "ScalingReplicaSet", message);
        Ok(true)
    }
}
