//! Which run of a CronJob is due, and when the next one is.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/cronjob/utils.go`: `mostRecentScheduleTime`, `nextScheduleTime`,
//!   `nextScheduleTimeDuration`

use std::time::Duration;

use sendo::Timestamp;

use super::schedule::Schedule;

/// How long after a scheduled time the CronJob is looked at, as clocks are not exact.
const DELAY: Duration = Duration::from_millis(100);
/// More missed runs than these are reported.
const MANY: i64 = 100;

/// From when on the runs of a CronJob are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    /// Its last run, or its creation.
    pub(super) last: Timestamp,
    /// How late a run may start.
    pub(super) deadline: Option<Duration>,
}

/// The run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The time for which it is scheduled.
    pub(super) at: Timestamp,
    /// Whether very many runs before it were missed.
    pub(super) missed_many: bool,
}

/// The latest run since the last one that is due by `now`.
pub(super) fn due(schedule: &Schedule, since: Since, now: Timestamp) -> Option<Due> {
    let start = since.deadline.and_then(|d| now.checked_sub(d).ok());
    let earliest = start.map_or(since.last, |start| start.max(since.last));
    let first = schedule.next(earliest).filter(|first| *first <= now)?;
    let missed = |at, count| Due {
        at,
        missed_many: count > MANY,
    };
    let Some(second) = schedule.next(first).filter(|second| *second <= now) else {
        return Some(missed(first, 1));
    };
    // A schedule may have long pauses, so what is computed from the first two runs is a guess.
    let between = (second.as_second() - first.as_second()).max(1);
    let count = (now.as_second() - first.as_second()) / between + 1;
    let guess = Timestamp::from_second(first.as_second() + (count - 2) * between).ok()?;
    let times = std::iter::successors(schedule.next(guess), |time| schedule.next(*time));
    let latest = times.take_while(|time| *time <= now).last();
    latest.map(|at| missed(at, count))
}

/// The time until the next run.
pub(super) fn next_in(schedule: &Schedule, since: Since, now: Timestamp) -> Option<Duration> {
    let any = Since {
        deadline: None,
        ..since
    };
    let first = schedule.next(since.last)?;
    let latest = match due(schedule, any, now) {
        Some(due) => due.at,
        None if first > now => since.last,
        None => now,
    };
    let next = schedule.next(latest)? + DELAY;
    Some(Duration::try_from(next.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    fn since(last: &str, deadline: Option<u64>) -> Since {
        Since {
            last: at(last),
            deadline: deadline.map(Duration::from_secs),
        }
    }

    #[test]
    fn the_latest_missed_run_is_due() {
        let hourly = Schedule::parse("0 * * * *", TimeZone::UTC).unwrap();
        let due = |since, now| due(&hourly, since, at(now)).map(|due| due.at);
        assert_eq!(due(since("01:00:00", None), "01:59:59"), None);
        assert_eq!(
            due(since("01:00:00", None), "02:00:00"),
            Some(at("02:00:00"))
        );
        assert_eq!(
            due(since("01:00:00", None), "06:30:00"),
            Some(at("06:00:00"))
        );
        // Runs before the deadline are forgotten.
        assert_eq!(due(since("01:00:00", Some(600)), "06:30:00"), None);
        assert_eq!(
            due(since("01:00:00", Some(600)), "06:05:00"),
            Some(at("06:00:00"))
        );
    }

    #[test]
    fn very_many_missed_runs_are_noticed() {
        let every_minute = Schedule::parse("* * * * *", TimeZone::UTC).unwrap();
        let due = |now| due(&every_minute, since("00:00:00", None), at(now)).unwrap();
        assert!(!due("01:40:00").missed_many);
        assert!(due("01:41:00").missed_many);
    }

    #[test]
    fn the_next_run_is_looked_at_a_moment_later() {
        let hourly = Schedule::parse("0 * * * *", TimeZone::UTC).unwrap();
        let next = |now| next_in(&hourly, since("01:00:00", None), at(now)).unwrap();
        assert_eq!(next("01:59:00"), Duration::from_millis(60_100));
        assert_eq!(next("06:30:00"), Duration::from_millis(1_800_100));
    }
}
