//! Ages as people read them.

use jiff::SignedDuration;

/// A duration in at most two units, as `kubectl get` shows ages: `5s`, `3m12s`, `7h5m`, `2d3h`, `400d`, `2y35d`.
///
/// Times up to a second in the future count as now, for clocks that differ a
/// little; later ones are `<invalid>`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
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
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        two_units(years, "y", days % 365, "d")
    } else {
        format!("{years}y")
    }
}

fn two_units(large: i64, unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_shorten_as_they_grow() {
        const DAY: i64 = 86_400;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (600, "10m"),
            (179 * 60 + 59, "179m"),
            (3 * 3600, "3h"),
            (7 * 3600 + 300, "7h5m"),
            (8 * 3600 + 300, "8h"),
            (47 * 3600, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * 3600, "2d3h"),
            (8 * DAY + 3600, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (765 * DAY, "2y35d"),
            (8 * 365 * DAY + 5 * DAY, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected);
        }
    }
}
