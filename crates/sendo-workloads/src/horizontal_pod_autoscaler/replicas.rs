//! How many replicas a metric asks for: plain functions of pods, samples and a target.
//!
//! Values are in thousandths, as the metrics APIs are read by Kubernetes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/podautoscaler/replica_calculator.go`: `GetResourceReplicas`,
//!   `calcPlainMetricReplicas`, `GetObjectMetricReplicas`, `GetObjectPerPodMetricReplicas`,
//!   `GetExternalMetricReplicas`, `GetExternalPerPodMetricReplicas`, `groupPods`
//! - `pkg/controller/podautoscaler/metrics/utilization.go`
//! - `pkg/controller/podautoscaler/config/v1alpha1/defaults.go`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sendo::{ObjectExt, Timestamp};

use crate::pods::{self, Pod};

/// How long after its start a pod's use of cpu says little about it.
const CPU_INITIALIZATION_PERIOD: Duration = Duration::from_secs(5 * 60);
/// How long after its start a pod may still become ready for the first time.
const INITIAL_READINESS_DELAY: Duration = Duration::from_secs(30);

/// What one pod uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// In thousandths.
    pub(super) value: i64,
    pub(super) at: Timestamp,
    /// The time over which it was measured.
    pub(super) window: Duration,
}

/// What pods use, by their names.
pub(super) type Samples = BTreeMap<String, Sample>;

/// By how much usage may differ from its target without a change of replicas, as a share of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Tolerance { down: 0.1, up: 0.1 }
    }
}

impl Tolerance {
    fn accepts(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What a metric asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// The average usage, in thousandths, or the value itself if the target is one.
    pub(super) usage: i64,
    /// The average usage in percent of what is requested, if the target is one.
    pub(super) utilization: Option<i32>,
}

/// A target for the average over pods.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// A percentage of what the pods request, by name.
    Utilization(i32, &'a BTreeMap<String, i64>),
    /// An amount in thousandths.
    Average(i64),
}

struct Measured {
    /// The usage as a multiple of the target.
    ratio: f64,
    usage: i64,
    utilization: Option<i32>,
}

impl Target<'_> {
    fn measure(self, samples: &Samples) -> Result<Measured, String> {
        match self {
            Target::Average(target) => {
                let total: i64 = samples.values().map(|sample| sample.value).sum();
                let usage = total / samples.len() as i64;
                Ok(Measured {
                    ratio: usage as f64 / target as f64,
                    usage,
                    utilization: None,
                })
            }
            Target::Utilization(target, requests) => {
                let known = samples
                    .iter()
                    .filter_map(|(pod, sample)| Some((sample.value, requests.get(pod)?)));
                let (mut used, mut requested, mut count) = (0_i64, 0_i64, 0_i64);
                for (value, request) in known {
                    used += value;
                    requested += request;
                    count += 1;
                }
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let utilization = (used.saturating_mul(100) / requested) as i32;
                Ok(Measured {
                    ratio: f64::from(utilization) / f64::from(target),
                    usage: used / count,
                    utilization: Some(utilization),
                })
            }
        }
    }

    /// What a pod that is not measured is taken to use where pods might be removed.
    fn assumed(self, pod: &str) -> i64 {
        match self {
            Target::Average(target) => target,
            Target::Utilization(target, requests) => {
                let request = requests.get(pod).copied().unwrap_or_default();
                request * i64::from(target.max(100)) / 100
            }
        }
    }
}

/// The pods of a target, by whether their samples count.
#[derive(Debug, Default, PartialEq, Eq)]
struct Groups {
    ready: usize,
    /// Too young to say anything.
    unready: BTreeSet<String>,
    /// Not measured.
    missing: BTreeSet<String>,
    /// On their way out.
    ignored: BTreeSet<String>,
}

fn group(pods: &[Arc<Pod>], samples: &Samples, is_cpu: bool, now: Timestamp) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let name = pod.name().to_owned();
        if pod.is_being_deleted() || pods::phase(pod) == "Failed" {
            groups.ignored.insert(name);
        } else if pods::phase(pod) == "Pending" {
            groups.unready.insert(name);
        } else {
            match samples.get(&name) {
                None => groups.missing.insert(name),
                Some(sample) if is_cpu && is_young(pod, sample, now) => groups.unready.insert(name),
                Some(_) => {
                    groups.ready += 1;
                    false
                }
            };
        }
    }
    groups
}

/// Whether what the pod uses of cpu is still that of its start.
fn is_young(pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
    let ready = pods::condition(pod, "Ready");
    let (Some(ready), Some(started)) = (ready, pods::started_at(pod)) else {
        return true;
    };
    let is_unready = ready.status == "False";
    let changed = ready.last_transition_time.as_ref().map(|time| time.0);
    let changed = changed.unwrap_or(Timestamp::MIN);
    match started + CPU_INITIALIZATION_PERIOD > now {
        true => is_unready || sample.at < changed + sample.window,
        false => is_unready && started + INITIAL_READINESS_DELAY > changed,
    }
}

/// What the samples of pods ask for. `is_cpu`: they are of cpu, which pods use more of at their
/// start.
pub(super) fn for_pods(
    pods: &[Arc<Pod>],
    mut samples: Samples,
    current: i32,
    target: Target<'_>,
    is_cpu: bool,
    tolerance: Tolerance,
    now: Timestamp,
) -> Result<Proposal, String> {
    let groups = group(pods, &samples, is_cpu, now);
    samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
    if samples.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let measured = target.measure(&samples)?;
    let proposal = |replicas| Proposal {
        replicas,
        usage: measured.usage,
        utilization: measured.utilization,
    };
    let ratio = measured.ratio;
    let adds_despite_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !adds_despite_unready && groups.missing.is_empty() {
        return Ok(proposal(match tolerance.accepts(ratio) {
            true => current,
            false => round_up(ratio * groups.ready as f64),
        }));
    }
    // Pods that say nothing are taken to use what speaks against the change.
    let assumed = |value| Sample {
        value,
        at: now,
        window: Duration::ZERO,
    };
    if ratio != 1.0 {
        for pod in &groups.missing {
            let value = if ratio < 1.0 { target.assumed(pod) } else { 0 };
            samples.insert(pod.clone(), assumed(value));
        }
    }
    if adds_despite_unready {
        for pod in &groups.unready {
            samples.insert(pod.clone(), assumed(0));
        }
    }
    let cautious = target.measure(&samples)?.ratio;
    let turns = (ratio < 1.0 && cautious > 1.0) || (ratio > 1.0 && cautious < 1.0);
    if turns || tolerance.accepts(cautious) {
        return Ok(proposal(current));
    }
    let wanted = round_up(cautious * samples.len() as f64);
    let turns = (cautious < 1.0 && wanted > current) || (cautious > 1.0 && wanted < current);
    Ok(proposal(if turns { current } else { wanted }))
}

/// What one value for all pods asks for.
pub(super) fn for_value(
    pods: &[Arc<Pod>],
    value: i64,
    target: i64,
    current: i32,
    tolerance: Tolerance,
) -> Result<Proposal, String> {
    let ratio = value as f64 / target as f64;
    let replicas = match current {
        // There are no pods to multiply.
        0 => round_up(ratio),
        _ if tolerance.accepts(ratio) => current,
        _ if pods.is_empty() => {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        _ => {
            let ready = pods
                .iter()
                .filter(|pod| pods::phase(pod) == "Running" && pods::is_ready(pod));
            round_up(ratio * ready.count() as f64)
        }
    };
    Ok(Proposal {
        replicas,
        usage: value,
        utilization: None,
    })
}

/// The error for a target without pods.
pub(super) const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// What a value that is divided among `counted` pods asks for.
pub(super) fn for_value_per_pod(
    value: i64,
    target: i64,
    counted: i32,
    tolerance: Tolerance,
) -> Proposal {
    let ratio = value as f64 / (target as f64 * f64::from(counted));
    let replicas = match tolerance.accepts(ratio) {
        true => counted,
        false => round_up(value as f64 / target as f64),
    };
    Proposal {
        replicas,
        usage: (value as f64 / f64::from(counted)).ceil() as i64,
        utilization: None,
    }
}

/// The next whole number, at most the largest there is.
fn round_up(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn pod(name: &str, status: Value) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name}, "status": status});
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    fn ready(name: &str) -> Arc<Pod> {
        let condition = json!({"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-01T10:00:00Z"});
        let started = "2026-01-01T10:00:00Z";
        pod(
            name,
            json!({"phase": "Running", "startTime": started, "conditions": [condition]}),
        )
    }

    fn sample(value: i64) -> Sample {
        Sample {
            value,
            at: now(),
            window: Duration::from_secs(30),
        }
    }

    fn samples(values: &[(&str, i64)]) -> Samples {
        let entry = |(name, value): &(&str, i64)| ((*name).to_owned(), sample(*value));
        values.iter().map(entry).collect()
    }

    fn average(pods: &[Arc<Pod>], values: &[(&str, i64)], target: i64) -> Result<Proposal, String> {
        let current = pods.len() as i32;
        let (samples, target) = (samples(values), Target::Average(target));
        for_pods(
            pods,
            samples,
            current,
            target,
            false,
            Tolerance::default(),
            now(),
        )
    }

    #[test]
    fn replicas_follow_the_average_use() {
        let pods = [ready("a"), ready("b")];
        let proposal = average(&pods, &[("a", 300), ("b", 500)], 200).unwrap();
        assert_eq!((proposal.replicas, proposal.usage), (4, 400));
        let proposal = average(&pods, &[("a", 50), ("b", 50)], 200).unwrap();
        assert_eq!(proposal.replicas, 1);
    }

    #[test]
    fn a_tenth_more_or_less_changes_nothing() {
        let pods = [ready("a"), ready("b")];
        for (value, replicas) in [(220, 2), (221, 3), (180, 2), (90, 1)] {
            let proposal = average(&pods, &[("a", value), ("b", value)], 200).unwrap();
            assert_eq!(proposal.replicas, replicas, "each uses {value}");
        }
    }

    #[test]
    fn pods_that_are_not_measured_speak_against_the_change() {
        let pods = [ready("a"), ready("b"), ready("c")];
        // As if `c` used nothing: (800 + 800 + 0) / 3 is 2.7 times the target, for three pods.
        let up = average(&pods, &[("a", 800), ("b", 800)], 200).unwrap();
        assert_eq!((up.replicas, up.usage), (8, 800));
        // As if `c` used just the target: (20 + 20 + 200) / 3 is 0.4 of it.
        let down = average(&pods, &[("a", 20), ("b", 20)], 200).unwrap();
        assert_eq!(down.replicas, 2);
        // With the third one the direction would turn.
        let stays = average(&pods, &[("a", 280), ("b", 280)], 200).unwrap();
        assert_eq!(stays.replicas, 3);
    }

    #[test]
    fn pods_that_are_pending_or_on_their_way_out_are_not_multiplied() {
        let pending = pod("p", json!({"phase": "Pending"}));
        let failed = pod("f", json!({"phase": "Failed"}));
        let pods = [ready("a"), pending, failed];
        // As if `p` used nothing: half of 800 is four times the target, for two pods.
        let values = [("a", 800), ("p", 900), ("f", 900)];
        let proposal = average(&pods, &values, 100).unwrap();
        assert_eq!((proposal.replicas, proposal.usage), (8, 800));
        let none = average(&pods[1..], &values[1..], 100).unwrap_err();
        assert!(none.contains("pods might be unready"), "{none}");
    }

    #[test]
    fn utilization_is_of_what_is_requested() {
        let pods = [ready("a"), ready("b")];
        let requests = BTreeMap::from([("a".to_owned(), 1000), ("b".to_owned(), 500)]);
        let of = |values: &[(&str, i64)], percent| {
            let target = Target::Utilization(percent, &requests);
            let tolerance = Tolerance::default();
            for_pods(&pods, samples(values), 2, target, true, tolerance, now())
        };
        let proposal = of(&[("a", 900), ("b", 300)], 40).unwrap();
        assert_eq!(proposal.utilization, Some(80));
        assert_eq!((proposal.replicas, proposal.usage), (4, 600));
        let stranger = of(&[("x", 900)], 40).unwrap_err();
        assert_eq!(stranger, "no metrics returned matched known pods");
    }

    #[test]
    fn cpu_of_a_pod_that_starts_does_not_count() {
        let since = |status: &str, started: &str, changed: &str| {
            let condition = json!({"type": "Ready", "status": status,
                "lastTransitionTime": changed});
            json!({"phase": "Running", "startTime": started, "conditions": [condition]})
        };
        let cases = [
            ("never said", json!({"phase": "Running"}), true),
            (
                "measured before it was ready",
                since("True", "2026-01-01T11:59:00Z", "2026-01-01T11:59:45Z"),
                true,
            ),
            (
                "ready for longer than the window",
                since("True", "2026-01-01T11:59:00Z", "2026-01-01T11:59:30Z"),
                false,
            ),
            (
                "young and unready",
                since("False", "2026-01-01T11:59:00Z", "2026-01-01T11:59:00Z"),
                true,
            ),
            (
                "never ready",
                since("False", "2026-01-01T11:00:00Z", "2026-01-01T11:00:20Z"),
                true,
            ),
            (
                "not ready any more",
                since("False", "2026-01-01T11:00:00Z", "2026-01-01T11:50:00Z"),
                false,
            ),
        ];
        for (why, status, young) in cases {
            let pod = pod("p", status);
            assert_eq!(is_young(&pod, &sample(1), now()), young, "{why}");
        }
    }

    #[test]
    fn a_value_is_for_all_pods_or_divided_among_them() {
        let pods = [ready("a"), ready("b")];
        let tolerance = Tolerance::default();
        let value = |value, current| for_value(&pods, value, 100, current, tolerance).unwrap();
        assert_eq!(value(250, 2).replicas, 5);
        assert_eq!(value(105, 2).replicas, 2);
        assert_eq!(value(250, 0).replicas, 3, "no pods yet");
        assert!(for_value(&[], 250, 100, 2, tolerance).is_err());
        let each = for_value_per_pod(1000, 100, 4, tolerance);
        assert_eq!((each.replicas, each.usage), (10, 250));
        let same = for_value_per_pod(420, 100, 4, tolerance);
        assert_eq!((same.replicas, same.usage), (4, 105));
        let zero = for_value_per_pod(0, 100, 0, tolerance);
        assert_eq!(zero.replicas, 0);
    }
}
