//! How many pods there may be during a rollout, and how many of them may be unavailable.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/util/deployment_util.go`: `MaxUnavailable`, `MinAvailable`,
//!   `MaxSurge`, `ResolveFenceposts`

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The bounds that a rollout keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// How many pods the Deployment asks for.
    pub(super) replicas: i32,
    /// How many pods more than `replicas` there may be.
    pub(super) surge: i32,
    /// How many of `replicas` may be unavailable.
    pub(super) unavailable: i32,
    /// Whether the strategy is `RollingUpdate`, so that old and new pods run at the same time.
    pub(super) rolling: bool,
}

impl Bounds {
    pub(super) fn from_deployment(deployment: &Deployment) -> Self {
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let strategy = spec.and_then(|spec| spec.strategy.as_ref());
        let recreates = strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate");
        if recreates {
            return Bounds {
                replicas,
                surge: 0,
                unavailable: 0,
                rolling: false,
            };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.clone());
        let rolling = rolling.unwrap_or_default();
        let surge = scaled(rolling.max_surge.as_ref(), replicas, Rounding::Up);
        let unavailable = scaled(rolling.max_unavailable.as_ref(), replicas, Rounding::Down);
        // Rounding may leave both at zero, and the rollout could not progress. One unavailable pod
        // is possible even where a quota does not allow another one.
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };
        Bounds {
            replicas,
            surge,
            unavailable: unavailable.min(replicas),
            rolling: true,
        }
    }

    /// The maximum number of pods.
    pub(super) fn max_replicas(self) -> i32 {
        self.replicas + self.surge
    }

    /// The minimum number of available pods.
    pub(super) fn min_available(self) -> i32 {
        self.replicas - self.unavailable
    }
}

enum Rounding {
    Up,
    Down,
}

/// A number of pods, or a percentage of `total`; zero if it is neither.
fn scaled(value: Option<&IntOrString>, total: i32, rounding: Rounding) -> i32 {
    match value {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok());
            let hundredths = percent.unwrap_or(0) * i64::from(total);
            let scaled = match rounding {
                Rounding::Up => (hundredths + 99) / 100,
                Rounding::Down => hundredths / 100,
            };
            i32::try_from(scaled).unwrap_or(i32::MAX)
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn bounds(replicas: i32, strategy: Value) -> Bounds {
        let deployment = json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {}, "strategy": strategy, "template": {}},
        });
        Bounds::from_deployment(&serde_json::from_value(deployment).unwrap())
    }

    fn rolling(surge: Value, unavailable: Value) -> Value {
        json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    }

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        let bounds = bounds(10, rolling(json!("25%"), json!("25%")));
        assert_eq!((bounds.surge, bounds.unavailable), (3, 2));
        assert_eq!((bounds.max_replicas(), bounds.min_available()), (13, 8));
    }

    #[test]
    fn bounds_of_zero_leave_one_pod_that_may_be_unavailable() {
        let bounds = bounds(2, rolling(json!("0%"), json!("1%")));
        assert_eq!((bounds.surge, bounds.unavailable), (0, 1));
    }

    #[test]
    fn no_more_pods_are_unavailable_than_there_are_replicas() {
        let two = bounds(2, rolling(json!(0), json!(5)));
        assert_eq!(two.unavailable, 2);
        assert_eq!(
            bounds(0, rolling(json!(0), json!("50%"))).min_available(),
            0
        );
    }

    #[test]
    fn recreate_allows_neither_surge_nor_unavailable_pods() {
        let bounds = bounds(3, json!({"type": "Recreate"}));
        assert_eq!((bounds.max_replicas(), bounds.min_available()), (3, 3));
        assert!(!bounds.rolling);
    }
}
