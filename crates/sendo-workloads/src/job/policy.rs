//! The policies of a Job: what the failure of a pod means, and when enough indexes have succeeded.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/pod_failure_policy.go`: `matchPodFailurePolicy`
//! - `pkg/controller/job/success_policy.go`: `matchSuccessPolicy`

use k8s_openapi::api::batch::v1::{
    PodFailurePolicyOnExitCodesRequirement as OnExitCodes, PodFailurePolicyRule, SuccessPolicy,
    SuccessPolicyRule,
};
use sendo::ObjectExt;

use super::indexes::Indexes;
use crate::pods::{self, ContainerStatus, Pod};

/// What the pod failure policy says about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The failure counts; no rule matches, or one says so.
    Count {
        /// Whether a rule matches.
        by_rule: bool,
    },
    /// The failure does not count.
    Ignore,
    /// The index of the pod fails.
    FailIndex,
    /// The Job fails, with this message.
    FailJob(String),
}

impl Verdict {
    /// Whether the failure counts towards the backoff limit.
    pub(super) fn counts(&self) -> bool {
        *self != Verdict::Ignore
    }

    /// The action of the rule that matches, as metrics name it.
    pub(super) fn action(&self) -> Option<&'static str> {
        match self {
            Verdict::Count { by_rule: false } => None,
            Verdict::Count { by_rule: true } => Some("Count"),
            Verdict::Ignore => Some("Ignore"),
            Verdict::FailIndex => Some("FailIndex"),
            Verdict::FailJob(_) => Some("FailJob"),
        }
    }
}

/// What the first rule that matches says about a failed pod.
pub(super) fn verdict(rules: &[PodFailurePolicyRule], pod: &Pod) -> Verdict {
    for (index, rule) in rules.iter().enumerate() {
        let Some(what) = matched(rule, pod) else {
            continue;
        };
        return match rule.action.as_str() {
            "Ignore" => Verdict::Ignore,
            "FailIndex" => Verdict::FailIndex,
            "FailJob" => Verdict::FailJob(format!("{what} matching FailJob rule at index {index}")),
            _ => Verdict::Count { by_rule: true },
        };
    }
    Verdict::Count { by_rule: false }
}

/// What of the pod the rule matches, in the words of Kubernetes.
fn matched(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let key = pod.key();
    if let Some(codes) = &rule.on_exit_codes {
        let containers = pods::container_statuses(pod).iter();
        let containers = containers.chain(pods::init_container_statuses(pod));
        let (name, code) = containers
            .filter_map(|container| matching_code(container, codes))
            .next()?;
        return Some(format!(
            "Container {name} for pod {key} failed with exit code {code}"
        ));
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let mut found = conditions.filter(|condition| {
        patterns.iter().any(|pattern| {
            // It is optional in newer releases only.
            let status: Option<&String> = (&pattern.status).into();
            let is_status = status.map_or("True", String::as_str) == condition.status;
            pattern.type_ == condition.type_ && is_status
        })
    });
    let condition = found.next()?;
    Some(format!("Pod {key} has condition {}", condition.type_))
}

fn matching_code<'a>(
    container: &'a ContainerStatus,
    wanted: &OnExitCodes,
) -> Option<(&'a str, i32)> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_named = match &wanted.container_name {
        Some(name) => *name == container.name,
        None => true,
    };
    let is_listed = wanted.values.contains(&code);
    let matches = match wanted.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    (is_named && code != 0 && matches).then_some((container.name.as_str(), code))
}

/// The message of the first rule of a success policy that the succeeded indexes meet.
pub(super) fn success(
    policy: &SuccessPolicy,
    succeeded: &Indexes,
    completions: i32,
) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let is_met = |rule: &SuccessPolicyRule| match (&rule.succeeded_indexes, rule.succeeded_count) {
        (Some(text), count) => {
            let required = Indexes::parse(text, completions);
            let done = required.common(succeeded);
            !required.is_empty() && (done == required.len() || count.is_some_and(|c| done >= c))
        }
        (None, Some(count)) => succeeded.len() >= count,
        (None, None) => false,
    };
    let index = policy.rules.iter().position(is_met)?;
    Some(format!("Matched rules at index {index}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn failed(code: i32) -> Pod {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "a"},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}],
            },
        });
        serde_json::from_value(pod).expect("a pod")
    }

    fn verdict_of(rules: Value, code: i32) -> Verdict {
        let rules: Vec<_> = serde_json::from_value(rules).expect("rules");
        verdict(&rules, &failed(code))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let codes = |action: &str, operator: &str, values: &[i32]| {
            let on = json!({"operator": operator, "values": values, "containerName": "c"});
            json!({"action": action, "onExitCodes": on})
        };
        let disrupted = json!({"action": "Ignore", "onPodConditions":
            [{"type": "DisruptionTarget", "status": "True"}]});
        let rules = json!([
            codes("FailJob", "In", &[42]),
            codes("FailIndex", "In", &[7, 8]),
            codes("Count", "NotIn", &[1, 2]),
            disrupted,
        ]);
        let message =
            "Container c for pod a/p failed with exit code 42 matching FailJob rule at index 0";
        assert_eq!(
            verdict_of(rules.clone(), 42),
            Verdict::FailJob(message.to_owned())
        );
        assert_eq!(verdict_of(rules.clone(), 8), Verdict::FailIndex);
        assert_eq!(
            verdict_of(rules.clone(), 3),
            Verdict::Count { by_rule: true }
        );
        assert_eq!(verdict_of(rules, 1), Verdict::Ignore);
        let plain = Verdict::Count { by_rule: false };
        assert_eq!(verdict_of(json!([]), 1), plain);
        // A container that succeeded matches nothing.
        assert_eq!(
            verdict_of(json!([codes("FailJob", "NotIn", &[1])]), 0),
            plain
        );
    }

    #[test]
    fn a_success_policy_asks_for_indexes_a_number_or_both() {
        let met = |rules: Value, done: &str| {
            let policy = serde_json::from_value(json!({ "rules": rules })).expect("a policy");
            success(&policy, &Indexes::parse(done, 10), 10).is_some()
        };
        let all = json!([{"succeededIndexes": "0,2-3"}]);
        assert!(met(all.clone(), "0,2,3") && !met(all, "0,1,2"));
        let two = json!([{"succeededIndexes": "0,2-3", "succeededCount": 2}]);
        assert!(met(two.clone(), "2,3") && !met(two, "1,2"));
        let any = json!([{"succeededCount": 3}]);
        assert!(met(any.clone(), "7-9") && !met(any, "7,8"));
    }
}
