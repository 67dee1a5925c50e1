//! How far a number of replicas may change now: stabilisation, policies and limits.
//!
//! Plain functions of what was recommended and done before, which [`History`] remembers. It is kept
//! in memory only, as in Kubernetes: when the controller restarts, windows begin anew.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/horizontal.go`: `normalizeDesiredReplicas`,
//!   `normalizeDesiredReplicasWithBehaviors`, `stabilizeRecommendation`,
//!   `stabilizeRecommendationWithBehaviors`, `convertDesiredReplicasWithRules`,
//!   `convertDesiredReplicasWithBehaviorRate`, `calculateScaleUpLimitWithScalingRules`,
//!   `calculateScaleDownLimitWithBehaviors`, `storeScaleEvent`
//! - `pkg/apis/autoscaling/v2/defaults.go`: `GenerateHPAScaleUpRules`, `GenerateHPAScaleDownRules`

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior,
};
use sendo::Moment;
use sendo_apimachinery::Quantity;

use super::replicas::Tolerance;

/// How long a recommendation of more replicas keeps an autoscaler from removing them, unless it
/// says otherwise.
const DOWNSCALE_STABILIZATION: Duration = Duration::from_secs(5 * 60);
/// The longest period that a policy may have.
const LONGEST_PERIOD: Duration = Duration::from_secs(30 * 60);
/// The longest window that an autoscaler may have.
const LONGEST_WINDOW: Duration = Duration::from_secs(60 * 60);

/// A reason in CamelCase, and a sentence.
pub(super) type Because = (&'static str, &'static str);

/// The number of replicas there is, the one that metrics ask for, and the limits of the spec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) current: i32,
    pub(super) desired: i32,
    pub(super) min: i32,
    pub(super) max: i32,
}

/// The number of replicas that there may be now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) replicas: i32,
    pub(super) able_to_scale: Because,
    /// Whether policies or limits forbid what is recommended.
    pub(super) is_limited: bool,
    pub(super) limit: Because,
}

/// The recommendations and changes of an autoscaler, with their times.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    recommended: Vec<(Moment, i32)>,
    added: Vec<(Moment, i32)>,
    removed: Vec<(Moment, i32)>,
}

/// The rules of one direction.
#[derive(Clone, Debug)]
struct Rules {
    window: Duration,
    select: Select,
    policies: Vec<HPAScalingPolicy>,
}

/// Which of several policies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Select {
    LargestChange,
    SmallestChange,
    None,
}

impl Rules {
    fn new(rules: Option<&HPAScalingRules>, window: Duration, policies: &[(&str, i32)]) -> Self {
        let own = rules.and_then(|rules| rules.stabilization_window_seconds);
        let own = own.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or_default()));
        let select = rules.and_then(|rules| rules.select_policy.as_deref());
        let policy = |(type_, value): &(&str, i32)| HPAScalingPolicy {
            type_: (*type_).to_owned(),
            value: *value,
            period_seconds: 15,
        };
        Rules {
            window: own.unwrap_or(window),
            select: match select {
                Some("Disabled") => Select::None,
                Some("Min") => Select::SmallestChange,
                _ => Select::LargestChange,
            },
            policies: rules
                .and_then(|rules| rules.policies.clone())
                .unwrap_or_else(|| policies.iter().map(policy).collect()),
        }
    }

    fn up(behavior: &HorizontalPodAutoscalerBehavior) -> Self {
        let rules = behavior.scale_up.as_ref();
        Rules::new(rules, Duration::ZERO, &[("Pods", 4), ("Percent", 100)])
    }

    fn down(behavior: &HorizontalPodAutoscalerBehavior) -> Self {
        let rules = behavior.scale_down.as_ref();
        Rules::new(rules, DOWNSCALE_STABILIZATION, &[("Percent", 100)])
    }
}

/// By how much usage may differ from its targets: what the autoscaler says, or a tenth.
pub(super) fn tolerance(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> Tolerance {
    let share = |rules: &Option<HPAScalingRules>| {
        let text = &rules.as_ref()?.tolerance.as_ref()?.0;
        Some(text.parse::<Quantity>().ok()?.as_float())
    };
    let default = Tolerance::default();
    let Some(behavior) = behavior else {
        return default;
    };
    Tolerance {
        down: share(&behavior.scale_down).unwrap_or(default.down),
        up: share(&behavior.scale_up).unwrap_or(default.up),
    }
}

const READY: Because = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: Because = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: Because = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const IN_RANGE: Because = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_FAST_UP: Because = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const TOO_FAST_DOWN: Because = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);
const TOO_MANY: Because = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const TOO_FEW: Because = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);

impl History {
    /// Remembers the replicas that an autoscaler finds first, as if they had been recommended.
    pub(super) fn begin(&mut self, replicas: i32, now: Moment) {
        if self.recommended.is_empty() {
            self.recommended.push((now, replicas));
        }
    }

    /// How many replicas there may be, with the rules of `behavior` or those of all autoscalers.
    /// What is desired is remembered.
    pub(super) fn allow(
        &mut self,
        wanted: Wanted,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        now: Moment,
    ) -> Allowed {
        let allowed = match behavior {
            None => self.allow_by_default(wanted, now),
            Some(behavior) => {
                self.allow_by_rules(wanted, &Rules::up(behavior), &Rules::down(behavior), now)
            }
        };
        self.recommended
            .retain(|(at, _)| now.since(*at) <= LONGEST_WINDOW);
        self.recommended.push((now, wanted.desired));
        allowed
    }

    /// Remembers that the number of replicas was changed.
    pub(super) fn changed(&mut self, from: i32, to: i32, now: Moment) {
        let changes = match to > from {
            true => &mut self.added,
            false => &mut self.removed,
        };
        changes.retain(|(at, _)| now.since(*at) <= LONGEST_PERIOD);
        changes.push((now, (to - from).abs()));
    }

    fn allow_by_default(&self, wanted: Wanted, now: Moment) -> Allowed {
        let recent = self
            .recommended
            .iter()
            .filter(|(at, _)| now.since(*at) <= DOWNSCALE_STABILIZATION);
        let stable = recent.fold(wanted.desired, |most, (_, count)| most.max(*count));
        let able_to_scale = match stable == wanted.desired {
            true => READY,
            false => DOWN_STABILIZED,
        };
        // A wrong measurement must not start very many pods at once.
        let fastest = wanted.current.saturating_mul(2).max(4);
        let (most, limit) = match wanted.max > fastest {
            true => (fastest, TOO_FAST_UP),
            false => (wanted.max, TOO_MANY),
        };
        let (replicas, limit) = match stable {
            few if few < wanted.min => (wanted.min, TOO_FEW),
            many if many > most => (most, limit),
            stable => (stable, IN_RANGE),
        };
        Allowed {
            replicas,
            able_to_scale,
            is_limited: replicas != stable,
            limit,
        }
    }

    fn allow_by_rules(&self, wanted: Wanted, up: &Rules, down: &Rules, now: Moment) -> Allowed {
        let stable = self.stabilized(wanted, up, down, now);
        let able_to_scale = match stable == wanted.desired {
            true => READY,
            false if wanted.desired >= wanted.current => UP_STABILIZED,
            false => DOWN_STABILIZED,
        };
        let (replicas, limit) = self.limited(stable, wanted, up, down, now);
        Allowed {
            replicas,
            able_to_scale,
            is_limited: replicas != stable,
            limit,
        }
    }

    /// The current number, moved as little as the recommendations in both windows ask for.
    fn stabilized(&self, wanted: Wanted, up: &Rules, down: &Rules, now: Moment) -> i32 {
        let within = |window: Duration| {
            let recent = self
                .recommended
                .iter()
                .filter(move |(at, _)| now.since(*at) < window);
            recent.map(|(_, count)| *count)
        };
        let at_least = within(up.window).fold(wanted.desired, i32::min);
        let at_most = within(down.window).fold(wanted.desired, i32::max);
        wanted.current.max(at_least).min(at_most)
    }

    fn limited(
        &self,
        stable: i32,
        wanted: Wanted,
        up: &Rules,
        down: &Rules,
        now: Moment,
    ) -> (i32, Because) {
        if stable > wanted.current {
            let fastest = self.most_by_policies(wanted.current, up, now);
            let fastest = fastest.max(wanted.current);
            let (most, limit) = match wanted.max > fastest {
                true => (fastest, TOO_FAST_UP),
                false => (wanted.max, TOO_MANY),
            };
            if stable > most {
                return (most, limit);
            }
        } else if stable < wanted.current {
            let fastest = self.least_by_policies(wanted.current, down, now);
            let fastest = fastest.min(wanted.current);
            let (least, limit) = match wanted.min < fastest {
                true => (fastest, TOO_FAST_DOWN),
                false => (wanted.min, TOO_FEW),
            };
            if stable < least {
                return (least, limit);
            }
        }
        (stable, IN_RANGE)
    }

    /// The number of replicas at the beginning of a policy's period.
    fn at_start(&self, policy: &HPAScalingPolicy, current: i32, now: Moment) -> i32 {
        let period = Duration::from_secs(policy.period_seconds.try_into().unwrap_or_default());
        let within = |changes: &[(Moment, i32)]| -> i32 {
            let recent = changes.iter().filter(|(at, _)| now.since(*at) < period);
            recent.map(|(_, count)| count).sum()
        };
        current - within(&self.added) + within(&self.removed)
    }

    fn most_by_policies(&self, current: i32, rules: &Rules, now: Moment) -> i32 {
        let proposed = rules.policies.iter().map(|policy| {
            let start = self.at_start(policy, current, now);
            match policy.type_.as_str() {
                "Percent" => {
                    // Rounded up, so that a small share of few pods is one at least.
                    (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32
                }
                _ => start.saturating_add(policy.value),
            }
        });
        let chosen = match rules.select {
            Select::None => None,
            Select::LargestChange => proposed.max(),
            Select::SmallestChange => proposed.min(),
        };
        chosen.unwrap_or(current)
    }

    fn least_by_policies(&self, current: i32, rules: &Rules, now: Moment) -> i32 {
        let proposed = rules.policies.iter().map(|policy| {
            let start = self.at_start(policy, current, now);
            match policy.type_.as_str() {
                "Percent" => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
                _ => start.saturating_sub(policy.value),
            }
        });
        let chosen = match rules.select {
            Select::None => None,
            Select::LargestChange => proposed.min(),
            Select::SmallestChange => proposed.max(),
        };
        chosen.unwrap_or(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn wanted(current: i32, desired: i32) -> Wanted {
        Wanted {
            current,
            desired,
            min: 2,
            max: 50,
        }
    }

    fn behavior(json: Value) -> HorizontalPodAutoscalerBehavior {
        serde_json::from_value(json).expect("a behaviour")
    }

    /// The replicas allowed, and whether and why that is limited.
    fn outcome(allowed: Allowed) -> (i32, bool, &'static str) {
        (allowed.replicas, allowed.is_limited, allowed.limit.0)
    }

    #[test]
    fn by_default_replicas_double_at_most_and_keep_within_the_limits() {
        let allow = |current, desired| {
            let wanted = wanted(current, desired);
            outcome(History::default().allow(wanted, None, at(0)))
        };
        assert_eq!(allow(3, 5), (5, false, "DesiredWithinRange"));
        assert_eq!(allow(3, 9), (6, true, "ScaleUpLimit"));
        assert_eq!(allow(2, 9), (4, true, "ScaleUpLimit"));
        assert_eq!(allow(40, 60), (50, true, "TooManyReplicas"));
        assert_eq!(allow(3, 1), (2, true, "TooFewReplicas"));
    }

    #[test]
    fn by_default_replicas_go_when_none_was_wanted_for_five_minutes() {
        let mut history = History::default();
        history.begin(8, at(0));
        let stays = history.allow(wanted(8, 3), None, at(15));
        assert_eq!(stays.replicas, 8);
        assert_eq!(stays.able_to_scale.0, "ScaleDownStabilized");
        assert_eq!(history.allow(wanted(8, 6), None, at(200)).replicas, 8);
        // The highest of the recommendations since.
        let goes = history.allow(wanted(8, 3), None, at(301));
        assert_eq!(goes.replicas, 6);
        assert_eq!(history.allow(wanted(6, 3), None, at(501)).replicas, 3);
    }

    #[test]
    fn windows_stabilize_in_both_directions() {
        let rules = behavior(json!({
            "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [
                {"type": "Pods", "value": 100, "periodSeconds": 15}]},
            "scaleDown": {"stabilizationWindowSeconds": 120, "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 15}]},
        }));
        let mut history = History::default();
        history.begin(4, at(0));
        let stays = history.allow(wanted(4, 10), Some(&rules), at(15));
        assert_eq!(
            (stays.replicas, stays.able_to_scale.0),
            (4, "ScaleUpStabilized")
        );
        let grows = history.allow(wanted(4, 12), Some(&rules), at(61));
        assert_eq!(grows.replicas, 10, "the lowest within a minute");
        let stays = history.allow(wanted(10, 2), Some(&rules), at(100));
        assert_eq!(
            (stays.replicas, stays.able_to_scale.0),
            (10, "ScaleDownStabilized")
        );
        let shrinks = history.allow(wanted(10, 3), Some(&rules), at(182));
        assert_eq!(shrinks.replicas, 3, "the highest within two minutes");
    }

    #[test]
    fn policies_bound_the_change_of_a_period() {
        let rules = behavior(json!({
            "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
            "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [
                {"type": "Percent", "value": 50, "periodSeconds": 60}]},
        }));
        let mut history = History::default();
        let up = history.allow(wanted(4, 20), Some(&rules), at(0));
        assert_eq!(outcome(up), (6, true, "ScaleUpLimit"));
        history.changed(4, 6, at(0));
        let again = history.allow(wanted(6, 20), Some(&rules), at(30));
        assert_eq!(
            outcome(again),
            (6, true, "ScaleUpLimit"),
            "the period is not over"
        );
        let later = history.allow(wanted(6, 20), Some(&rules), at(60));
        assert_eq!(later.replicas, 8);
        history.changed(6, 8, at(60));
        let down = history.allow(wanted(8, 2), Some(&rules), at(200));
        assert_eq!(outcome(down), (4, true, "ScaleDownLimit"));
    }

    #[test]
    fn the_policy_with_the_largest_or_the_smallest_change_counts_or_none() {
        let policies = json!([
            {"type": "Pods", "value": 1, "periodSeconds": 60},
            {"type": "Percent", "value": 50, "periodSeconds": 60},
        ]);
        let allow = |select: &str, current, desired| {
            let rules = json!({"selectPolicy": select, "policies": policies,
                "stabilizationWindowSeconds": 0});
            let both = behavior(json!({"scaleUp": rules, "scaleDown": rules}));
            let allowed = History::default().allow(wanted(current, desired), Some(&both), at(0));
            allowed.replicas
        };
        assert_eq!(allow("Max", 10, 40), 15);
        assert_eq!(allow("Min", 10, 40), 11);
        assert_eq!(allow("Disabled", 10, 40), 10);
        assert_eq!(allow("Max", 10, 2), 5);
        assert_eq!(allow("Min", 10, 2), 9);
        assert_eq!(allow("Disabled", 10, 2), 10);
        assert_eq!(allow("Min", 1, 40), 2, "half of one is rounded up");
    }

    #[test]
    fn limits_of_the_spec_bound_policies() {
        let rules = behavior(json!({"scaleDown": {"stabilizationWindowSeconds": 0}}));
        let allow = |current, desired| {
            let wanted = wanted(current, desired);
            outcome(History::default().allow(wanted, Some(&rules), at(0)))
        };
        assert_eq!(allow(40, 60), (50, true, "TooManyReplicas"));
        assert_eq!(allow(10, 1), (2, true, "TooFewReplicas"));
        // Four pods or as many again, whichever is more.
        assert_eq!(allow(2, 40), (6, true, "ScaleUpLimit"));
        assert_eq!(allow(20, 50), (40, true, "ScaleUpLimit"));
    }

    #[test]
    fn tolerances_are_those_of_the_autoscaler() {
        let own = behavior(json!({"scaleUp": {"tolerance": "50m"}}));
        let expected = Tolerance {
            down: 0.1,
            up: 0.05,
        };
        assert_eq!(tolerance(Some(&own)), expected);
        assert_eq!(tolerance(None), Tolerance::default());
    }
}
