//! Proportional scaling during a rollout: added or removed replicas are divided among the
//! ReplicaSets by size, so that the ratio of old to new pods stays.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/sync.go`: `scale`
//! - `pkg/controller/deployment/util/deployment_util.go`: `FindActiveOrLatest`, `IsSaturated`,
//!   `GetReplicaSetProportion`, `getReplicaSetFraction`

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::ReplicaSet;
use sendo::{ObjectExt, Result};

use super::bounds::Bounds;
use super::revision::{self, annotated_number};
use super::rollout::Rollout;
use super::sets::{available, by_age, size, total};

/// Scales the ReplicaSets to the replicas of the Deployment.
pub(super) async fn scale(rollout: &mut Rollout<'_>) -> Result<()> {
    let wanted = rollout.bounds.replicas;
    let scaler = rollout.scaler();
    if let Some(only) = active_or_latest(rollout) {
        scaler.resize(only, wanted).await?;
        return Ok(());
    }
    if rollout
        .new
        .as_ref()
        .is_some_and(|new| is_saturated(new, wanted))
    {
        for set in &mut rollout.old {
            scaler.resize(set, 0).await?;
        }
        return Ok(());
    }
    if !rollout.bounds.rolling {
        return Ok(());
    }
    let reported = rollout.deployment.status.as_ref();
    let reported = reported.and_then(|status| status.replicas).unwrap_or(0);
    let sizes = {
        let active = rollout.sets().filter(|set| size(set) > 0).collect();
        divide(active, rollout.bounds, reported)
    };
    // In the order of `divide`: the largest first.
    for (name, to) in sizes {
        let sets = rollout.old.iter_mut().chain(&mut rollout.new);
        for set in sets.filter(|set| set.name() == name) {
            scaler.resize_and_annotate(set, to).await?;
        }
    }
    Ok(())
}

/// The ReplicaSet to scale alone: the only active one, or the newest if none is active.
fn active_or_latest<'a>(rollout: &'a mut Rollout<'_>) -> Option<&'a mut ReplicaSet> {
    let active = rollout.sets().filter(|set| size(set) > 0).count();
    let mut sets = rollout.old.iter_mut().chain(&mut rollout.new);
    match active {
        // The new one is the last of the iterator, and the youngest old one comes before it.
        0 => sets.last(),
        1 => sets.find(|set| size(set) > 0),
        _ => None,
    }
}

/// Whether the ReplicaSet has all replicas of the Deployment, and all are available.
fn is_saturated(set: &ReplicaSet, wanted: i32) -> bool {
    size(set) == wanted
        && available(set) == wanted
        && annotated_number(set, revision::DESIRED_REPLICAS) == Some(wanted)
}

/// The new size of each ReplicaSet, the largest one first.
fn divide(mut active: Vec<&ReplicaSet>, bounds: Bounds, reported: i32) -> Vec<(String, i32)> {
    let allowed = if bounds.replicas > 0 {
        bounds.max_replicas()
    } else {
        0
    };
    let to_add = allowed - total(active.iter().copied(), size);
    // Of ReplicaSets of equal size, the newest grows first and the oldest shrinks first.
    active.sort_by(|a, b| {
        let by_size = size(b).cmp(&size(a));
        by_size.then_with(|| match to_add.cmp(&0) {
            Ordering::Greater => by_age(b, a),
            _ => by_age(a, b),
        })
    });
    let mut added = 0;
    let mut sizes = Vec::new();
    for set in active {
        let share = share(set, bounds, reported, to_add, added);
        added += share;
        sizes.push((set.name().to_owned(), size(set) + share));
    }
    if let Some((_, largest)) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    sizes
}

/// How many of the `to_add` replicas, which is negative to remove some, this ReplicaSet gets.
fn share(set: &ReplicaSet, bounds: Bounds, reported: i32, to_add: i32, added: i32) -> i32 {
    let left = to_add - added;
    let fraction = fraction(set, bounds, reported);
    match to_add.cmp(&0) {
        Ordering::Greater => fraction.min(left),
        Ordering::Less => fraction.max(left),
        Ordering::Equal => 0,
    }
}

/// By how much the size of the ReplicaSet changes if all change in proportion.
fn fraction(set: &ReplicaSet, bounds: Bounds, reported: i32) -> i32 {
    if bounds.replicas == 0 {
        return -size(set);
    }
    // How many pods were allowed before the scaling.
    let annotated = annotated_number(set, revision::MAX_REPLICAS).filter(|most| *most > 0);
    let before = annotated.unwrap_or(reported);
    if before == 0 {
        return 0;
    }
    let scaled = f64::from(size(set)) * f64::from(bounds.max_replicas()) / f64::from(before);
    // A quotient of products of `i32` is exact enough in `f64` for rounding to an integer.
    scaled.round() as i32 - size(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(name: &str, age: u32, size: i32, most: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", 60 - age),
                "annotations": {revision::MAX_REPLICAS: most.to_string()},
            },
            "spec": {"replicas": size, "selector": {}},
        }))
        .unwrap()
    }

    fn bounds(replicas: i32, surge: i32) -> Bounds {
        Bounds {
            replicas,
            surge,
            unavailable: 0,
            rolling: true,
        }
    }

    fn divided(sets: &[ReplicaSet], bounds: Bounds) -> Vec<(String, i32)> {
        divide(sets.iter().collect(), bounds, 0)
    }

    fn named(sizes: &[(&str, i32)]) -> Vec<(String, i32)> {
        let owned = |(name, size): &(&str, i32)| ((*name).to_owned(), *size);
        sizes.iter().map(owned).collect()
    }

    #[test]
    fn replica_sets_grow_in_proportion() {
        let sets = [set("old", 2, 8, 13), set("new", 1, 5, 13)];
        let sizes = divided(&sets, bounds(20, 6));
        assert_eq!(sizes, named(&[("old", 16), ("new", 10)]));
    }

    #[test]
    fn the_rest_from_rounding_goes_to_the_largest() {
        let sets = [set("a", 3, 4, 10), set("b", 2, 3, 10), set("c", 1, 3, 10)];
        let sizes = divided(&sets, bounds(14, 1));
        assert_eq!(sizes.iter().map(|(_, size)| size).sum::<i32>(), 15);
        assert_eq!(sizes, named(&[("a", 6), ("c", 5), ("b", 4)]));
    }

    #[test]
    fn of_equal_sizes_the_newer_grows_and_the_older_shrinks() {
        let sets = [set("old", 2, 5, 10), set("new", 1, 5, 10)];
        assert_eq!(
            divided(&sets, bounds(11, 0)),
            named(&[("new", 6), ("old", 5)])
        );
        assert_eq!(
            divided(&sets, bounds(9, 0)),
            named(&[("old", 4), ("new", 5)])
        );
    }

    #[test]
    fn scaling_to_zero_removes_all_pods() {
        let sets = [set("old", 2, 5, 10), set("new", 1, 3, 10)];
        assert_eq!(
            divided(&sets, bounds(0, 1)),
            named(&[("old", 0), ("new", 0)])
        );
    }
}
