//! How many pods there may be during a rollout, and how many may be missing.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The sizes that a rollout keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// How many pods are wanted in the end.
    pub(super) replicas: i32,
    /// How many more there may be meanwhile.
    pub(super) surge: i32,
    /// How many of those wanted may be missing meanwhile.
    pub(super) unavailable: i32,
    /// Whether old and new pods may run side by side at all.
    pub(super) rolling: bool,
}

impl Bounds {
    pub(super) fn of(deployment: &Deployment) -> Self {
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
        // Rounding may leave both at zero, and the rollout could not move: one
        // pod less works even where a quota allows none more.
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

    /// The most pods there may be.
    pub(super) fn most(self) -> i32 {
        self.replicas + self.surge
    }

    /// The fewest that must be available.
    pub(super) fn least_available(self) -> i32 {
        self.replicas - self.unavailable
    }
}

enum Rounding {
    Up,
    Down,
}

/// A number of pods, or a percentage of `whole`; zero if it is neither.
fn scaled(value: Option<&IntOrString>, whole: i32, rounding: Rounding) -> i32 {
    match value {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok());
            let hundredths = percent.unwrap_or(0) * i64::from(whole);
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
        Bounds::of(&serde_json::from_value(deployment).unwrap())
    }

    fn rolling(surge: Value, unavailable: Value) -> Value {
        json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    }

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        let bounds = bounds(10, rolling(json!("25%"), json!("25%")));
        assert_eq!((bounds.surge, bounds.unavailable), (3, 2));
        assert_eq!((bounds.most(), bounds.least_available()), (13, 8));
    }

    #[test]
    fn a_rollout_can_always_move() {
        let bounds = bounds(2, rolling(json!("0%"), json!("1%")));
        assert_eq!((bounds.surge, bounds.unavailable), (0, 1));
    }

    #[test]
    fn no_more_are_missing_than_there_are() {
        let few = bounds(2, rolling(json!(0), json!(5)));
        assert_eq!(few.unavailable, 2);
        assert_eq!(
            bounds(0, rolling(json!(0), json!("50%"))).least_available(),
            0
        );
    }

    #[test]
    fn recreate_has_no_leeway() {
        let bounds = bounds(3, json!({"type": "Recreate"}));
        assert_eq!((bounds.most(), bounds.least_available()), (3, 3));
        assert!(!bounds.rolling);
    }
}
