//! Spans of time as tables show them: `5m30s`, `3h`, `12d`.

use jiff::SignedDuration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
