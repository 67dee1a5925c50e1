//! Conditions: what an object's status says of it, in the form all tools read.
//!
//! ```
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
//! use sendo::EventSeverity::Warning;
//! use sendo::conditions::{self, News, State};
//! # use sendo::{Context, ObjectExt};
//! # use k8s_openapi::api::policy::v1::PodDisruptionBudget as Bar;
//! # async fn example(bar: std::sync::Arc<Bar>, cx: Context) -> sendo::Result<()> {
//! let ready = cx.condition(&bar, "Ready", State::False, "Waiting", "the bucket is not there yet");
//! let news = cx
//!     .status(&bar, |status| conditions::set(status.conditions.get_or_insert_default(), ready))
//!     .await?;
//! if news >= Some(News::Reason) {
//!     cx.event(Warning, "Waiting", "the bucket is not there yet"); // on the turn only
//! }
//! # Ok(())
//! # }
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Resource;
use sendo_world::Timestamp;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known.
    Unknown,
}

impl State {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            State::True => "True",
            State::False => "False",
            State::Unknown => "Unknown",
        }
    }
}

impl From<bool> for State {
    fn from(holds: bool) -> Self {
        match holds {
            true => State::True,
            false => State::False,
        }
    }
}

/// A condition of `object` as it is seen `now`, at its present generation.
///
/// `reason` is a word in CamelCase, for programs; `message` a sentence, for people.
pub fn condition<K: Resource>(
    object: &K,
    now: Timestamp,
    kind: &str,
    state: impl Into<State>,
    reason: &str,
    message: impl Into<String>,
) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: state.into().as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: object.meta().generation,
        last_transition_time: Time(now),
    }
}

/// How much of a condition is new, from nothing to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// It says what it said before: there is nothing to write.
    Nothing,
    /// Its message or its generation is another.
    Words,
    /// It holds or not as before, for another reason.
    Reason,
    /// It has turned, or was not there before.
    Status,
}

/// Puts a condition in the place of that of the same type, or at the end.
/// Returns how much of it is news: an Event is due on [`News::Status`], say, and
/// a write on anything but [`News::Nothing`], which
/// [`Context::status`](crate::Context::status) sees to.
///
/// The time of transition is the new one's only if the status differs: it says
/// since when, not when it was looked at last. So what stays as it is causes no write.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition) -> News {
    let known = conditions.iter_mut().find(|known| known.type_ == new.type_);
    let Some(known) = known else {
        conditions.push(new);
        return News::Status;
    };
    if known.status == new.status {
        new.last_transition_time = known.last_transition_time.clone();
    }
    let news = match &new {
        new if new.status != known.status => News::Status,
        new if new.reason != known.reason => News::Reason,
        new if new != known => News::Words,
        _ => News::Nothing,
    };
    *known = new;
    news
}

/// The condition of a type.
pub fn get<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|known| known.type_ == kind)
}

/// Whether the condition of a type is there and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    get(conditions, kind).is_some_and(|known| known.status == "True")
}

/// Whether the condition of a type is true for the object as it is specified
/// now, rather than as it was before its last change.
pub fn is_true_for<K: Resource>(object: &K, conditions: &[Condition], kind: &str) -> bool {
    let known = get(conditions, kind).filter(|known| known.status == "True");
    known.is_some_and(|known| known.observed_generation == object.meta().generation)
}

/// Takes away the condition of a type. Returns whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|known| known.type_ != kind);
    conditions.len() < before
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn ready(generation: i64, second: i64, state: State, message: &str) -> Condition {
        let mut pod = Pod::default();
        pod.metadata.generation = Some(generation);
        let now = Timestamp::from_second(second).unwrap();
        condition(&pod, now, "Ready", state, "Because", message)
    }

    #[test]
    fn the_time_of_transition_moves_with_the_status_only() {
        let mut all = Vec::new();
        let mut set = |second, state, message| set(&mut all, ready(1, second, state, message));
        assert_eq!(set(10, State::False, "a"), News::Status);
        assert_eq!(set(20, State::False, "a"), News::Nothing);
        assert_eq!(set(30, State::False, "b"), News::Words);
        assert_eq!(set(40, State::True, "b"), News::Status);
        assert_eq!(set(50, State::True, "b"), News::Nothing);
        assert_eq!(all[0].last_transition_time.0.as_second(), 40);
        let mut other = ready(1, 60, State::True, "b");
        other.reason = "Otherwise".to_owned();
        assert_eq!(super::set(&mut all, other), News::Reason);
        assert_eq!(all[0].last_transition_time.0.as_second(), 40);
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn what_was_true_of_an_older_spec_is_not_true_of_the_new_one() {
        let mut all = Vec::new();
        set(&mut all, ready(1, 10, State::from(true), ""));
        let mut pod = Pod::default();
        pod.metadata.generation = Some(2);
        assert!(is_true(&all, "Ready") && !is_true_for(&pod, &all, "Ready"));
        let news = set(&mut all, ready(2, 20, State::True, ""));
        assert_eq!(news, News::Words, "the generation is news");
        assert!(is_true_for(&pod, &all, "Ready"));
        assert!(remove(&mut all, "Ready") && !remove(&mut all, "Ready"));
        assert!(!is_true(&all, "Ready"));
    }
}
