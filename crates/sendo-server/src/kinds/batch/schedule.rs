//! Parses CronJob schedules (five fields, or a descriptor such as `@daily`) and time zones.
//!
//! Follows Kubernetes 1.36:
//! - `vendor/github.com/robfig/cron/v3/parser.go`: `ParseStandard`
//! - `pkg/util/parsers/parsers.go`: `ParseCronScheduleWithPanicRecovery`
//! - `$GOROOT/src/time/zoneinfo.go`: `LoadLocation`

use sendo_apimachinery::duration::duration_fault;

/// The descriptors.
const WORDS: [&str; 7] = [
    "@annually",
    "@daily",
    "@hourly",
    "@midnight",
    "@monthly",
    "@weekly",
    "@yearly",
];
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The range of values of a schedule field.
struct Field {
    min: u64,
    max: u64,
    /// Names of its values, from the smallest value on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        min: 0,
        max: 59,
        names: &[],
    },
    Field {
        min: 0,
        max: 23,
        names: &[],
    },
    Field {
        min: 1,
        max: 31,
        names: &[],
    },
    Field {
        min: 1,
        max: 12,
        names: &MONTHS,
    },
    Field {
        min: 0,
        max: 6,
        names: &DAYS,
    },
];

/// The error message of the cron library if the text is not a schedule.
pub(super) fn fault(schedule: &str) -> Option<String> {
    let schedule = match schedule
        .strip_prefix("CRON_TZ=")
        .or(schedule.strip_prefix("TZ="))
    {
        Some(rest) => match rest.split_once(' ') {
            Some((zone, rest)) => {
                if let Some(fault) = zone_fault(zone) {
                    return Some(format!("provided bad location {zone}: {fault}"));
                }
                rest.trim()
            }
            None => {
                let fault =
                    "invalid schedule format: runtime error: slice bounds out of range [:-1]";
                return Some(fault.to_owned());
            }
        },
        None => schedule,
    };
    if schedule.starts_with('@') {
        return descriptor_fault(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        return Some(format!(
            "expected exactly 5 fields, found {found}: [{}]",
            fields.join(" ")
        ));
    }
    let mut faults = fields
        .iter()
        .zip(&FIELDS)
        .filter_map(|(text, field)| field_fault(text, field));
    faults.next()
}

fn descriptor_fault(text: &str) -> Option<String> {
    if let Some(duration) = text.strip_prefix("@every ") {
        return duration_fault(duration)
            .map(|fault| format!("failed to parse duration {text}: {fault}"));
    }
    (!WORDS.contains(&text)).then(|| format!("unrecognized descriptor: {text}"))
}

/// Go's error message if the text is not a time zone.
pub(super) fn zone_fault(zone: &str) -> Option<String> {
    if matches!(zone, "" | "UTC" | "Local") {
        return None;
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Some("time: invalid location name".to_owned());
    }
    // Without a time zone database on this machine, any name passes.
    let zones = std::path::Path::new("/usr/share/zoneinfo");
    let is_unknown = zones.is_dir() && !zones.join(zone).is_file();
    is_unknown.then(|| format!("unknown time zone {zone}"))
}

fn field_fault(text: &str, field: &Field) -> Option<String> {
    text.split(',')
        .filter(|range| !range.is_empty())
        .find_map(|range| range_fault(range, field).err())
}

fn range_fault(text: &str, field: &Field) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let bounds: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match bounds[..] {
        ["*" | "?", ..] => (field.min, field.max),
        [single] => (value(single, field)?, value(single, field)?),
        [low, high] => (value(low, field)?, value(high, field)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if bounds.len() == 1 {
                end = field.max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < field.min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {text}",
            field.min
        ));
    }
    if end > field.max {
        return Err(format!(
            "end of range ({end}) above maximum ({}): {text}",
            field.max
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn value(text: &str, field: &Field) -> Result<u64, String> {
    let name = text.to_lowercase();
    match field.names.iter().position(|known| *known == name) {
        Some(place) => Ok(field.min + place as u64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .map_err(|_| format!("negative number ({number}) not allowed: {text}")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_field_by_field() {
        for schedule in [
            "@hourly",
            "@every 1h30m",
            "0 0 1 JAN-JUN SUN",
            "*/15 0-5,20-23 * * ?",
            "  5 4 * * * ",
        ] {
            assert_eq!(fault(schedule), None, "{schedule}");
        }
        let cases = [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("@reboot", "unrecognized descriptor: @reboot"),
            (
                "@every x",
                "failed to parse duration @every x: time: invalid duration \"x\"",
            ),
            (
                "@every 1h ",
                "failed to parse duration @every 1h : time: unknown unit \"h \" in duration \"1h \"",
            ),
            (
                "@every 1h5",
                "failed to parse duration @every 1h5: time: missing unit in duration \"1h5\"",
            ),
            (
                "TZ=../x * * * * *",
                "provided bad location ../x: time: invalid location name",
            ),
            (
                "TZ=UTC",
                "invalid schedule format: runtime error: slice bounds out of range [:-1]",
            ),
        ];
        for (schedule, expected) in cases {
            assert_eq!(fault(schedule).as_deref(), Some(expected), "{schedule}");
        }
    }
}
