//! CEL functions of timestamps and durations.

use jiff::Zoned;
use jiff::tz::{Offset, TimeZone};

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;

/// Reads a part of a point in time, or of a span.
fn part<'a>(
    args: &[Value<'a>],
    of_time: fn(&Zoned) -> i64,
    of_span: Option<fn(i64) -> i64>,
) -> Result<Value<'a>> {
    let zoned = match args {
        [Value::Timestamp(time)] => time.to_zoned(TimeZone::UTC),
        [Value::Timestamp(time), Value::Text(zone)] => time.to_zoned(time_zone(zone)?),
        [Value::Duration(nanos)] => {
            let of_span = of_span.ok_or_else(Fault::no_such_overload)?;
            return Ok(Value::Int(of_span(*nanos)));
        }
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Int(of_time(&zoned)))
}

/// A zone by its name, or by its offset as `-08:00`.
fn time_zone(name: &str) -> Result<TimeZone> {
    if let Some((hours, minutes)) = name.split_once(':') {
        let offset = || -> Option<TimeZone> {
            let (negative, digits) = match hours.strip_prefix('-') {
                Some(digits) => (true, digits),
                None => (false, hours.strip_prefix('+').unwrap_or(hours)),
            };
            let seconds = digits.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
            let seconds = if negative { -seconds } else { seconds };
            Some(Offset::from_seconds(seconds).ok()?.to_time_zone())
        };
        return offset().ok_or_else(|| Fault::new(format!("unknown time zone {name}")));
    }
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| Fault::new(format!("unknown time zone {name}")))
}

macro_rules! parts {
    ($($name:ident = $of_time:expr, $of_span:expr;)*) => {$(
        pub(in crate::cel) fn $name<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
            part(args, $of_time, $of_span)
        }
    )*};
}

parts! {
    year = |time| i64::from(time.year()), None;
    month = |time| i64::from(time.month()) - 1, None;
    day_of_year = |time| i64::from(time.day_of_year()) - 1, None;
    day_of_month = |time| i64::from(time.day()) - 1, None;
    date = |time| i64::from(time.day()), None;
    day_of_week = |time| i64::from(time.weekday().to_sunday_zero_offset()), None;
    hours = |time| i64::from(time.hour()), Some(|nanos| nanos / 3_600_000_000_000);
    minutes = |time| i64::from(time.minute()), Some(|nanos| nanos / 60_000_000_000);
    seconds = |time| i64::from(time.second()), Some(|nanos| nanos / 1_000_000_000);
    milliseconds = |time| i64::from(time.millisecond()), Some(|nanos| nanos / 1_000_000);
}
