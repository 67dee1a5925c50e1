//! Spans of time as tables show them, `5m30s`, `3h`, `12d`, and as Go reads them.

use std::time::Duration;

use jiff::SignedDuration;

use crate::go_text::go_quote;

/// How long ago something was, in two or three significant figures.
///
/// It may be a little negative, for clocks that differ: down to one second it
/// counts as now, beyond that as `<invalid>`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two_units(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two_units(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two_units(days, "d", hours % 24, "h")
    } else if days < 365 * 2 {
        format!("{days}d")
    } else if days < 365 * 8 {
        two_units(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

/// The larger unit, and the smaller one if any of it is left.
fn two_units(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

/// Why a text is no duration as Go writes it, numbers each with a unit; in Go's words.
pub fn duration_fault(text: &str) -> Option<String> {
    let quoted = go_quote(text);
    let invalid = || Some(format!("time: invalid duration {quoted}"));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let of_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !of_number(c)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        // A second point begins what can only be a unit.
        let point = number.match_indices('.').nth(1).map(|(at, _)| at);
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return invalid();
        }
        if point.is_some() || after.is_empty() {
            return Some(format!("time: missing unit in duration {quoted}"));
        }
        let (unit, next) = after.split_at(after.find(of_number).unwrap_or(after.len()));
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&unit) {
            return Some(format!(
                "time: unknown unit {} in duration {quoted}",
                go_quote(unit)
            ));
        }
        rest = next;
    }
    None
}

/// The duration that a text says as Go writes it; `None` if it is none, or negative.
///
/// ```
/// use std::time::Duration;
/// use sendo_apimachinery::duration::parse_duration;
///
/// assert_eq!(parse_duration("1m2.5s"), Some(Duration::from_millis(62_500)));
/// assert_eq!(parse_duration("5 minutes"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    if duration_fault(text).is_some() || text.starts_with('-') {
        return None;
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = Duration::ZERO;
    while !rest.is_empty() && rest != "0" {
        let of_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !of_number(c))?);
        let (unit, next) = after.split_at(after.find(of_number).unwrap_or(after.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            _ => 3600.0,
        };
        let amount: f64 = number.parse().ok()?;
        let part = Duration::try_from_secs_f64(amount * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = next;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_the_sum_of_its_parts() {
        let seconds = |text: &str| parse_duration(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("0"), Some(0.0));
        assert_eq!(seconds("1h2m3.5s"), Some(3723.5));
        assert_eq!(seconds("+250ms"), Some(0.25));
        assert_eq!(seconds("-1s"), None);
        assert_eq!(seconds("1"), None);
        assert_eq!(seconds("99999999999999999h"), None);
    }

    #[test]
    fn the_longer_the_coarser() {
        let (minute, hour, day) = (60, 3600, 86400);
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (5 * minute + 30, "5m30s"),
            (10 * minute + 30, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 5 * minute, "7h5m"),
            (47 * hour, "47h"),
            (48 * hour, "2d"),
            (7 * day + 5 * hour, "7d5h"),
            (8 * day + 5 * hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (800 * day, "2y70d"),
            (9 * 365 * day, "9y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn what_is_no_duration_is_reported_with_the_messages_of_go() {
        for good in ["0", "1s", "-1.5h", "1h2m3.4s", "+5ms"] {
            assert_eq!(duration_fault(good), None, "{good}");
        }
        let fault_of = |text: &str| duration_fault(text).unwrap();
        assert_eq!(fault_of("x"), r#"time: invalid duration "x""#);
        assert_eq!(fault_of("5"), r#"time: missing unit in duration "5""#);
        assert_eq!(fault_of("5d"), r#"time: unknown unit "d" in duration "5d""#);
    }
}
