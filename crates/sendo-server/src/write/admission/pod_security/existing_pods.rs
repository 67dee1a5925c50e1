//! Which pods of a namespace violate the level that it is to enforce.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/pod-security-admission/admission/admission.go`: `EvaluatePodsInNamespace`,
//!   `prioritizePods`, `decoratePodWarnings`

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sendo_apimachinery::{Meta, Status, go_quote};
use serde_json::Value;

use super::checks::{Pod, Violations};
use super::{configuration, is_exempt};
use crate::catalog::keys::Keys;
use crate::kinds::value::Read;
use crate::state::pod_security::LevelVersion;
use crate::write::admission::{Attributes, lookup};

/// How many pods are checked at most.
const MOST_PODS: usize = 3000;
/// How long pods are checked at most.
const MOST_TIME: Duration = Duration::from_secs(1);

/// The warnings for who has a namespace enforce `level` from now on.
pub(super) async fn check(
    attributes: &Attributes<'_>,
    namespace: &str,
    level: LevelVersion,
) -> Result<Vec<String>, Status> {
    let call = attributes.call;
    let keys = Keys::new("", "pods", true);
    let pods = lookup::list(call, &keys, Some(namespace)).await?;
    let pods = in_turn(pods, &configuration(attributes).exempt_runtime_classes);
    let clock = call.server.world.clock();
    let start = clock.now();
    let within_time = || clock.now().since(start) < MOST_TIME;
    Ok(warnings(&pods, namespace, level, MOST_PODS, within_time))
}

/// The pods that are checked, the first of each controller before its others: they
/// mostly violate the same.
fn in_turn(pods: Vec<Arc<Value>>, exempt_classes: &[String]) -> Vec<Arc<Value>> {
    let mut controllers = HashSet::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for pod in pods {
        if is_exempt(exempt_classes, pod.at("spec").text("runtimeClassName")) {
            continue;
        }
        let controller = Meta::new(&pod).controller();
        let is_new = controller.is_none_or(|owner| controllers.insert(owner.uid.to_owned()));
        if is_new { &mut first } else { &mut others }.push(pod);
    }
    first.append(&mut others);
    first
}

/// Pods that violate the same.
struct Alike<'a> {
    /// The first of them by name.
    name: &'a str,
    count: usize,
}

/// What is to be said of `pods`; at most `most` of them are checked, while there is time.
fn warnings(
    pods: &[Arc<Value>],
    namespace: &str,
    level: LevelVersion,
    most: usize,
    within_time: impl Fn() -> bool,
) -> Vec<String> {
    let mut found: BTreeMap<String, Alike<'_>> = BTreeMap::new();
    let mut checked = 0;
    for pod in pods.iter().take(most) {
        checked += 1;
        let violations = Violations::new(Pod::new(pod), level);
        if !violations.is_empty() {
            let name = Meta::new(pod).name();
            let alike = found
                .entry(violations.reasons())
                .or_insert(Alike { name, count: 0 });
            alike.name = alike.name.min(name);
            alike.count += 1;
        }
        if !within_time() {
            break;
        }
    }
    let mut warnings = Vec::new();
    if checked < pods.len() {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {} existing pods",
            pods.len()
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {} violate the new PodSecurity enforce level {}",
            go_quote(namespace),
            go_quote(&level.to_string())
        ));
    }
    let mut of_pods: Vec<String> = found
        .iter()
        .map(|(why, Alike { name, count })| match count {
            1 => format!("{name}: {why}"),
            2 => format!("{name} (and 1 other pod): {why}"),
            _ => format!("{name} (and {} other pods): {why}", count - 1),
        })
        .collect();
    of_pods.sort();
    warnings.extend(of_pods);
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::pod_security::{Level, Version};

    const BASELINE: LevelVersion = LevelVersion {
        level: Level::Baseline,
        version: Version::Latest,
    };

    fn pod(name: &str, controller: Option<&str>, spec: Value) -> Arc<Value> {
        let owners: Vec<Value> = controller
            .iter()
            .map(|uid| json!({"uid": uid, "controller": true}))
            .collect();
        let metadata = json!({"name": name, "ownerReferences": owners});
        Arc::new(json!({"metadata": metadata, "spec": spec}))
    }

    #[test]
    fn the_first_pod_of_each_controller_is_checked_before_its_others() {
        let pods = ["a1", "b1", "a2", "free", "b2", "kata"].map(|name| {
            let controller = name.strip_suffix(['1', '2']);
            let spec = match name {
                "kata" => json!({"runtimeClassName": "kata"}),
                _ => json!({}),
            };
            pod(name, controller, spec)
        });
        let turn = in_turn(pods.to_vec(), &["kata".to_owned()]);
        let names: Vec<&str> = turn.iter().map(|pod| Meta::new(pod).name()).collect();
        assert_eq!(names, ["a1", "b1", "free", "a2", "b2"]);
    }

    #[test]
    fn pods_that_violate_the_same_are_told_once() {
        let pods = [
            pod("c", None, json!({"hostPID": true})),
            pod("d", None, json!({"hostIPC": true})),
            pod("b", None, json!({"hostNetwork": true})),
            pod("fine", None, json!({})),
            pod(
                "x",
                None,
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
            ),
        ];
        let all = warnings(&pods, "ns", BASELINE, 10, || true);
        let expected = [
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "b (and 2 other pods): host namespaces",
            "x: hostPath volumes",
        ];
        assert_eq!(all, expected);
        let two = warnings(&pods, "ns", BASELINE, 2, || true);
        let only = |checked| {
            format!(
                "new PodSecurity enforce level only checked against the first {checked} of 5 existing pods"
            )
        };
        assert_eq!(two[0], only(2));
        assert_eq!(two[2], "c (and 1 other pod): host namespaces");
        let without_time = warnings(&pods, "ns", BASELINE, 10, || false);
        assert_eq!(without_time[0], only(1));
    }
}
