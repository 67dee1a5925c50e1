//! Parses the index sets of an indexed Job's status, such as `0,2-4,7`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/batch/validation/validation.go`: `validateIndexesFormat`, `parseIndexInterval`,
//!   `validateFailedIndexesNotOverlapCompleted`

/// Counts the indexes in a text, which must be in ascending order and below `completions`.
///
/// # Errors
/// Kubernetes' message if the text is not a valid set.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval_of(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!(
                "non-increasing order, previous: {last}, current: {first}"
            ));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that is in both sets. Intervals that cannot be parsed are skipped.
pub(super) fn first_common(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',')
            .filter_map(|interval| interval_of(interval, completions).ok())
            .collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let common = completed.iter().flat_map(|(a, b)| {
        let overlap = failed.iter().filter(move |(x, y)| a <= y && x <= b);
        overlap.map(move |(x, _)| *a.max(x))
    });
    common.min()
}

fn interval_of(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| -> Result<i64, String> {
        let number: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: \"{text}\""))?;
        if number >= completions {
            Err(format!("too large index: \"{text}\""))
        } else {
            Ok(number)
        }
    };
    match text.split('-').collect::<Vec<_>>()[..] {
        [single] => index(single).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!(
                    "non-increasing order, previous: {first}, current: {last}"
                ));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment \"{text}\" violates the requirement that an index interval can have at most two parts \
             separated by '-'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_rise_and_stay_below_the_completions() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        for text in ["5", "x", "1,1", "3-2", "1-2-3"] {
            assert!(count(text, 5).is_err(), "{text}");
        }
    }

    #[test]
    fn a_common_index_is_found() {
        assert_eq!(first_common("0-3", "2,4", 5), Some(2));
        assert_eq!(first_common("0-1", "2-4", 5), None);
    }
}
