//! One sync of a Deployment: its ReplicaSets, and the steps that change them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/deployment_controller.go`: `syncDeployment`
//! - `pkg/controller/deployment/sync.go`: `checkPausedConditions`, `getNewReplicaSet`,
//!   `scaleReplicaSet`, `isScalingEvent`
//! - `pkg/controller/deployment/util/deployment_util.go`: `FindNewReplicaSet`,
//!   `NewRSNewReplicas`

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::client::controller_reference;
use sendo::{Context, EventSeverity::*, ObjectExt, ObjectKey, Result, client};

use super::bounds::Bounds;
use super::conditions::{Conditions, PROGRESSING, reason};
use super::revision::{self, REVISION, annotated_number};
use super::sets::{self, by_age, size, total};
use super::{history, proportion, recreate, rolling};
use crate::template::{self, HASH_LABEL};

/// A Deployment with its ReplicaSets, and the part of its status that a sync changes.
pub(super) struct Rollout<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) cx: &'a Context,
    pub(super) bounds: Bounds,
    /// The ReplicaSet of the current template, if there is one.
    pub(super) new: Option<ReplicaSet>,
    /// The other ReplicaSets, oldest first.
    pub(super) old: Vec<ReplicaSet>,
    /// The revision of the current template, once it is known.
    pub(super) revision: Option<String>,
    /// How often the name of the new ReplicaSet was that of one with another template.
    pub(super) collisions: Option<i32>,
    pub(super) conditions: Conditions,
}

/// What a sync has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It rolled out the current template: progress is expected.
    RollingOut,
    /// It scaled at most: the Deployment is paused, was just scaled, or is being deleted.
    ScalingOnly,
}

impl<'a> Rollout<'a> {
    pub(super) fn new(
        deployment: &'a Deployment,
        sets: Vec<Arc<ReplicaSet>>,
        cx: &'a Context,
    ) -> Self {
        let mut old: Vec<ReplicaSet> = sets.into_iter().map(Arc::unwrap_or_clone).collect();
        old.sort_by(by_age);
        // If several ReplicaSets have the current template, the oldest is the new one.
        let current = old.iter().position(|set| has_template_of(set, deployment));
        let new = current.map(|at| old.remove(at));
        let status = deployment.status.as_ref();
        Rollout {
            deployment,
            cx,
            bounds: Bounds::from_deployment(deployment),
            new,
            old,
            revision: None,
            collisions: status.and_then(|status| status.collision_count),
            conditions: Conditions::from_deployment(deployment, cx.now()),
        }
    }

    /// Does the next step of the rollout.
    pub(super) async fn advance(&mut self) -> Result<Stage> {
        if self.deployment.is_being_deleted() {
            return Ok(Stage::ScalingOnly);
        }
        self.set_paused_condition();
        self.update_current().await?;
        let paused = self.spec().is_some_and(|spec| spec.paused == Some(true));
        if paused || self.was_scaled() {
            proportion::scale(self).await?;
            if paused {
                history::prune(self).await?;
            }
            return Ok(Stage::ScalingOnly);
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

    /// All ReplicaSets: the old ones, then the new one.
    pub(super) fn sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    /// The progress deadline in seconds, if there is one.
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

    /// Sets the condition `Progressing` when the Deployment is paused or resumed: the progress
    /// deadline does not apply during a pause, and starts again after it.
    fn set_paused_condition(&mut self) {
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

    /// Updates what the new ReplicaSet copies from its Deployment.
    async fn update_current(&mut self) -> Result<()> {
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

    /// Whether the replicas of the Deployment changed since the ReplicaSets were scaled.
    fn was_scaled(&self) -> bool {
        let active = self.sets().filter(|set| size(set) > 0);
        let desired = |set| annotated_number(set, revision::DESIRED_REPLICAS);
        active
            .filter_map(desired)
            .any(|desired| desired != self.bounds.replicas)
    }

    /// Creates the ReplicaSet of the current template. Creates none if its name is in use, which
    /// the next sync avoids, or if the namespace is being deleted.
    pub(super) async fn create_current(&mut self) -> Result<()> {
        let next = revision::next(&self.old);
        let set = self.current_set(next);
        let replicas = size(&set);
        let created = match self.cx.client().create(&set).await {
            Ok(created) => created,
            Err(error) if error.is_already_exists() => return self.use_existing(set.key()).await,
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

    /// The ReplicaSet to create, with as many replicas as the bounds allow.
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

        let may_be_added = self.bounds.max_replicas() - total(&self.old, size);
        let replicas = match self.bounds.rolling {
            true => may_be_added.clamp(0, self.bounds.replicas),
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
        revision::annotate_replicas(&mut set, self.bounds);
        set
    }

    /// The name is in use: by the ReplicaSet of the current template, if the cache did not have it
    /// yet, or else by another one, and then the collision count changes the hash of the template.
    async fn use_existing(&mut self, key: ObjectKey) -> Result<()> {
        let Some(existing) = self.cx.live().get::<ReplicaSet>(key).await? else {
            return Ok(());
        };
        let is_controlled = existing.controller_of::<Deployment>() == Some(self.deployment.uid());
        if is_controlled && has_template_of(&existing, self.deployment) {
            self.revision = existing.annotation(REVISION).map(str::to_owned);
            self.new = Some(existing);
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

/// Scales ReplicaSets, and records events about it.
#[derive(Clone, Copy)]
pub(super) struct Scaler<'a> {
    cx: &'a Context,
    bounds: Bounds,
}

impl Scaler<'_> {
    /// Scales the ReplicaSet to `to` replicas. Returns whether it had another number.
    pub(super) async fn resize(self, set: &mut ReplicaSet, to: i32) -> Result<bool> {
        match size(set) == to {
            true => Ok(false),
            false => self.resize_and_annotate(set, to).await,
        }
    }

    /// The same, but updates the annotations also if the ReplicaSet has `to` replicas already.
    pub(super) async fn resize_and_annotate(self, set: &mut ReplicaSet, to: i32) -> Result<bool> {
        let from = size(set);
        let mut changed = set.clone();
        let annotated = revision::annotate_replicas(&mut changed, self.bounds);
        if from == to && !annotated {
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
