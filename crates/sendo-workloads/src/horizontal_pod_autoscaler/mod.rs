//! Keeps the number of replicas of a target where its metrics want it.
//!
//! Every autoscaler has its turn each fifteen seconds, whatever happens meanwhile, as in
//! Kubernetes. `target` reads and writes the scale of the target, of any kind; `metric` computes
//! what one metric asks for, with `metrics_api`, `requests` and `replicas`; `behavior` says how far
//! the number may change now.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/horizontal.go`: `reconcileAutoscaler`,
//!   `computeReplicasForMetrics`, `validateAndParseSelector`, `setStatus`
//! - `pkg/controller/podautoscaler/config/v1alpha1/defaults.go`

mod behavior;
mod figures;
mod metric;
mod metrics_api;
mod replicas;
mod requests;
mod target;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus, MetricStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use sendo::{
    Action, Context, Controller, EventSeverity::*, Moment, ObjectExt, ObjectKey, Reconcile, Result,
    Selector, Uid,
};

use self::behavior::{History, Wanted};
use self::figures::{Action as Scaling, Figures};
use self::metric::Scaled;
use self::target::{Kinds, Target, Unread};
use crate::pods::Pod;

/// How often an autoscaler looks at its metrics.
const PERIOD: Duration = Duration::from_secs(15);

const ABLE: &str = "AbleToScale";
const ACTIVE: &str = "ScalingActive";
const LIMITED: &str = "ScalingLimited";

/// The controller of HorizontalPodAutoscalers.
pub fn controller() -> Controller {
    let autoscalers = Autoscalers::default();
    let controller = Controller::new::<HorizontalPodAutoscaler>()
        .named("horizontal-pod-autoscaler-controller")
        .events_as("horizontal-pod-autoscaler")
        .reads::<Pod>()
        .workers(5);
    let controller = autoscalers.figures.declare(controller);
    controller.reconcile(autoscalers)
}

#[derive(Default)]
struct Autoscalers {
    known: Mutex<BTreeMap<ObjectKey, Memory>>,
    kinds: Kinds,
    figures: Figures,
}

/// What is remembered of an autoscaler.
struct Memory {
    uid: Uid,
    /// When it has its next turn.
    due: Moment,
    history: History,
    /// What it selected last.
    selector: Option<Selector>,
}

/// Why an autoscaler could not do all that it should.
#[derive(Clone, Debug)]
struct Failure {
    /// Whether its spec is wrong.
    is_spec: bool,
    message: String,
}

impl Failure {
    fn internal(message: impl Display) -> Self {
        Failure {
            is_spec: false,
            message: message.to_string(),
        }
    }
}

/// What a turn ends with.
struct Outcome {
    scaling: Scaling,
    failure: Option<Failure>,
}

impl Reconcile<HorizontalPodAutoscaler> for Autoscalers {
    async fn reconcile(&self, hpa: Arc<HorizontalPodAutoscaler>, cx: Context) -> Result<Action> {
        let began = cx.clock().now();
        let left = self.take_turn(&hpa, began);
        if !left.is_zero() {
            return Ok(Action::after(left));
        }
        let status = hpa.status.clone().unwrap_or_default();
        let spec: Option<HorizontalPodAutoscalerSpec> = hpa.spec.clone().into();
        let mut turn = Turn {
            all: self,
            key: hpa.key(),
            namespace: hpa.namespace().unwrap_or_default(),
            spec: spec.unwrap_or_default(),
            status,
            cx: &cx,
        };
        let outcome = turn.run().await;
        let status = turn.status;
        let error = match &outcome.failure {
            None => "none",
            Some(failure) if failure.is_spec => "spec",
            Some(_) => "internal",
        };
        let took = cx.clock().now().since(began);
        self.figures.reconciled(outcome.scaling, error, took);
        if let Some(failure) = &outcome.failure {
            tracing::debug!(autoscaler = %hpa.key(), error = failure.message, "not scaled");
        }
        cx.status(&hpa, |known| *known = status).await?;
        Ok(Action::after(PERIOD))
    }

    async fn gone(&self, key: ObjectKey, _: Context) -> Result<()> {
        let mut known = self.known.lock();
        known.remove(&key);
        self.figures.counted(known.len());
        self.figures.forget(&key);
        Ok(())
    }
}

impl Autoscalers {
    /// The time until the autoscaler has its turn. If that is now, the next one follows a period
    /// later.
    fn take_turn(&self, hpa: &HorizontalPodAutoscaler, now: Moment) -> Duration {
        let mut known = self.known.lock();
        let new = || Memory {
            uid: hpa.uid(),
            due: now + PERIOD,
            history: History::default(),
            selector: None,
        };
        let memory = known.entry(hpa.key()).or_insert_with(new);
        if memory.uid != hpa.uid() {
            *memory = new();
        }
        let left = memory.due - now;
        if left.is_zero() {
            memory.due = now + PERIOD;
        }
        self.figures.counted(known.len());
        left
    }
}

/// One turn of an autoscaler.
struct Turn<'a> {
    all: &'a Autoscalers,
    key: ObjectKey,
    namespace: &'a str,
    spec: HorizontalPodAutoscalerSpec,
    /// The status as it becomes.
    status: HorizontalPodAutoscalerStatus,
    cx: &'a Context,
}

/// The largest number of replicas that a metric asks for.
struct Computed {
    replicas: i32,
    metric: String,
    /// Some metrics failed.
    failure: Option<Failure>,
}

impl Turn<'_> {
    async fn run(&mut self) -> Outcome {
        let mut target = match self.read_target().await {
            Ok(target) => target,
            Err(failure) => return Outcome::failed(failure),
        };
        let current = target.replicas();
        let (min, max) = (self.spec.min_replicas.unwrap_or(1), self.spec.max_replicas);
        let now = self.cx.clock().now();
        self.remember(|memory| memory.history.begin(current, now));

        let mut metrics = None;
        let mut failure = None;
        let (desired, reason) = if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.set(ACTIVE, false, ("ScalingDisabled", message));
            (0, String::new())
        } else if current > max {
            (
                max,
                "Current number of replicas above Spec.MaxReplicas".to_owned(),
            )
        } else if current < min {
            (
                min,
                "Current number of replicas below Spec.MinReplicas".to_owned(),
            )
        } else {
            let mut statuses = Vec::new();
            let computed = self.compute(&target, &mut statuses).await;
            metrics = Some(statuses);
            let computed = match computed {
                Ok(computed) => computed,
                Err(failed) => {
                    self.report(current, self.status.desired_replicas, metrics);
                    let message = failed.message.clone();
                    self.cx
                        .event(Warning, "FailedComputeMetricsReplicas", message);
                    return Outcome::failed(failed);
                }
            };
            failure = computed.failure;
            let reason = match computed.replicas > current {
                true => format!("{} above target", computed.metric),
                false => "All metrics below target".to_owned(),
            };
            let wanted = Wanted {
                current,
                desired: computed.replicas,
                min,
                max,
            };
            (self.allow(wanted), reason)
        };
        if desired == current {
            self.report(current, current, metrics);
            self.all.figures.desired(&self.key, current);
            return Outcome {
                scaling: Scaling::None,
                failure,
            };
        }
        if let Err(error) = target.scale_to(desired).await {
            let message = format!("New size: {desired}; reason: {reason}; error: {error}");
            self.cx.event(Warning, "FailedRescale", message);
            let message =
                format!("the HPA controller was unable to update the target scale: {error}");
            self.set(ABLE, false, ("FailedUpdateScale", &message));
            self.report(current, self.status.desired_replicas, metrics);
            return Outcome::failed(Failure::internal(error));
        }
        let message =
            format!("the HPA controller was able to update the target scale to {desired}");
        self.set(ABLE, true, ("SucceededRescale", &message));
        let message = format!("New size: {desired}; reason: {reason}");
        self.cx.event(Normal, "SuccessfulRescale", message);
        if self.spec.behavior.is_some() {
            let now = self.cx.clock().now();
            self.remember(|memory| memory.history.changed(current, desired, now));
        }
        self.report(current, desired, metrics);
        self.status.last_scale_time = Some(Time(self.cx.now()));
        self.all.figures.desired(&self.key, desired);
        Outcome {
            scaling: Scaling::new(current, desired),
            failure,
        }
    }

    async fn read_target(&mut self) -> Result<Target, Failure> {
        let reference = &self.spec.scale_target_ref;
        let read = Target::read(self.cx, &self.all.kinds, self.namespace, reference).await;
        let (is_spec, cause) = match read {
            Ok(target) => {
                let message = "the HPA controller was able to get the target's current scale";
                self.set(ABLE, true, ("SucceededGetScale", message));
                return Ok(target);
            }
            Err(Unread::Spec(cause)) => (true, cause),
            Err(Unread::Other(cause)) => (false, cause),
        };
        let message =
            format!("the HPA controller was unable to get the target's current scale: {cause}");
        self.set(ABLE, false, ("FailedGetScale", &message));
        self.cx.event(Warning, "FailedGetScale", cause);
        Err(Failure { is_spec, message })
    }

    /// Computes all metrics. Where some fail, the others may still add replicas, and not remove
    /// any.
    async fn compute(
        &mut self,
        target: &Target,
        statuses: &mut Vec<MetricStatus>,
    ) -> Result<Computed, Failure> {
        let selector = self.selector_of(target).map_err(Failure::internal)?;
        let scaled = Scaled {
            namespace: self.namespace,
            selector: &selector,
            wanted: target.replicas(),
            counted: target.counted(),
            tolerance: behavior::tolerance(self.spec.behavior.as_ref()),
            kinds: &self.all.kinds,
            cx: self.cx,
        };
        let specs = self.spec.metrics.as_deref().unwrap_or_default();
        let (mut largest, mut metric) = (0, String::new());
        let mut failures = Vec::new();
        for spec in specs {
            let began = self.cx.clock().now();
            let computed = scaled.compute(spec).await;
            let took = self.cx.clock().now().since(began);
            let (scaling, error) = match &computed {
                Ok(computed) => {
                    let known = self.status.current_replicas.unwrap_or_default();
                    (Scaling::new(known, computed.replicas), "none")
                }
                Err(failed) if failed.is_spec => (Scaling::None, "spec"),
                Err(_) => (Scaling::None, "internal"),
            };
            let figures = &self.all.figures;
            figures.computed(&spec.type_, scaling, error, took);
            match computed {
                Ok(computed) => {
                    if largest == 0 || computed.replicas > largest {
                        (largest, metric) = (computed.replicas, computed.name);
                    }
                    statuses.push(computed.status);
                }
                Err(failed) => {
                    self.cx.event(Warning, failed.reason, failed.cause.clone());
                    statuses.push(MetricStatus::default());
                    failures.push(failed);
                }
            }
        }
        let failure = failures.first().map(|first| Failure {
            is_spec: first.is_spec,
            message: format!(
                "invalid metrics ({} invalid out of {}), first error is: {}",
                failures.len(),
                specs.len(),
                first.error
            ),
        });
        if let (Some(failure), Some(first)) = (&failure, failures.first())
            && (failures.len() == specs.len() || largest < target.replicas())
        {
            let cause = &first.cause;
            let message = format!("the HPA was unable to compute the replica count: {cause}");
            self.set(ACTIVE, false, (first.reason, &message));
            return Err(failure.clone());
        }
        let message =
            format!("the HPA was able to successfully calculate a replica count from {metric}");
        self.set(ACTIVE, true, ("ValidMetricFound", &message));
        Ok(Computed {
            replicas: largest,
            metric,
            failure,
        })
    }

    /// The selector of the target's pods, which no other autoscaler may select too.
    fn selector_of(&mut self, target: &Target) -> Result<Selector, String> {
        let text = target.selector();
        if text.is_empty() {
            let message = "the HPA target's scale is missing a selector";
            return Err(self.refuse_selector("SelectorRequired", "selector is required", message));
        }
        let selector: Selector = match text.parse() {
            Ok(selector) => selector,
            Err(error) => {
                let message = format!(
                    "couldn't convert selector into a corresponding internal selector object: {error}"
                );
                return Err(self.refuse_selector("InvalidSelector", &message, &message));
            }
        };
        self.remember(|memory| memory.selector = Some(selector.clone()));
        let selecting = self.selecting_the_same(&selector);
        if selecting.len() > 1 {
            let names: Vec<_> = selecting.iter().map(ObjectKey::to_string).collect();
            let message = format!(
                "pods by selector {text} are controlled by multiple HPAs: [{}]",
                names.join(" ")
            );
            return Err(self.refuse_selector("AmbiguousSelector", &message, &message));
        }
        Ok(selector)
    }

    /// The autoscalers that select one of the pods that `selector` does.
    fn selecting_the_same(&self, selector: &Selector) -> Vec<ObjectKey> {
        let pods = self.cx.list::<Pod>().in_namespace(self.namespace);
        let pods: Vec<Arc<Pod>> = pods.labels(selector).iter().collect();
        let known = self.all.known.lock();
        let beside = known.iter().filter(|(key, memory)| {
            let own = memory.selector.as_ref();
            key.namespace() == Some(self.namespace)
                && own.is_some_and(|own| {
                    pods.iter()
                        .any(|pod| own.matches(pod.metadata.labels.as_ref()))
                })
        });
        beside.map(|(key, _)| key.clone()).collect()
    }

    fn refuse_selector(&mut self, event: &str, error: &str, message: &str) -> String {
        self.cx.event(Warning, event, error);
        let reason = match event {
            "AmbiguousSelector" => event,
            _ => "InvalidSelector",
        };
        self.set(ACTIVE, false, (reason, message));
        error.to_owned()
    }

    /// The replicas that there may be now.
    fn allow(&mut self, wanted: Wanted) -> i32 {
        let now = self.cx.clock().now();
        let behavior = self.spec.behavior.clone();
        let allowed = self.remember(|memory| memory.history.allow(wanted, behavior.as_ref(), now));
        let Some(allowed) = allowed else {
            return wanted.current;
        };
        self.set(ABLE, true, allowed.able_to_scale);
        self.set(LIMITED, allowed.is_limited, allowed.limit);
        allowed.replicas
    }

    fn remember<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> Option<T> {
        self.all.known.lock().get_mut(&self.key).map(change)
    }

    fn report(&mut self, current: i32, desired: i32, metrics: Option<Vec<MetricStatus>>) {
        self.status.current_replicas = Some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = metrics;
    }

    fn set(&mut self, type_: &str, holds: bool, (reason, message): (&str, &str)) {
        let status = if holds { "True" } else { "False" };
        let conditions = self.status.conditions.get_or_insert_default();
        let known = conditions.iter().position(|known| known.type_ == type_);
        let at = known.unwrap_or_else(|| {
            conditions.push(HorizontalPodAutoscalerCondition {
                type_: type_.to_owned(),
                ..HorizontalPodAutoscalerCondition::default()
            });
            conditions.len() - 1
        });
        let condition = &mut conditions[at];
        if condition.status != status {
            condition.last_transition_time = Some(Time(self.cx.now()));
        }
        condition.status = status.to_owned();
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message.to_owned());
    }
}

impl Outcome {
    fn failed(failure: Failure) -> Self {
        Outcome {
            scaling: Scaling::None,
            failure: Some(failure),
        }
    }
}
