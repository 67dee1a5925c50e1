//! Unified diffs between two lists of lines.
//!
//! The error for a change of an immutable spec ends with one, which shows the fields that changed.
//! The longest run of equal lines is matched first, then recursively the lines before and after it,
//! as in Python's `difflib`.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go`: `Diff`
//! - `vendor/github.com/pmezard/go-difflib/difflib/difflib.go`: `NewMatcher`, `GetMatchingBlocks`,
//!   `GetGroupedOpCodes`, `WriteUnifiedDiff`

use std::collections::BTreeMap;
use std::ops::Range;

/// The number of equal lines shown around a difference.
const CONTEXT: usize = 3;
/// From this number of lines on, lines that occur very often do not start a match.
const LONG: usize = 200;

/// A unified diff of two lists of lines.
pub(super) fn unified(old: &[String], new: &[String]) -> String {
    let steps = steps(&matches(old, new), old.len(), new.len());
    let hunks = hunks(&steps);
    hunks
        .into_iter()
        .map(|hunk| hunk_text(&hunk, old, new))
        .collect()
}

/// A run of equal lines.
#[derive(Clone, Copy)]
struct Match {
    old: usize,
    new: usize,
    length: usize,
}

/// An edit of a range of lines: either the two ranges are equal, or the new one replaces the old
/// one.
#[derive(Clone)]
struct Step {
    is_equal: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// All runs of equal lines, in order.
fn matches(old: &[String], new: &[String]) -> Vec<Match> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(i);
    }
    if new.len() >= LONG {
        let limit = new.len() / 100 + 1;
        places.retain(|_, places| places.len() <= limit);
    }
    let mut found = Vec::new();
    let mut left = vec![(0..old.len(), 0..new.len())];
    while let Some((a, b)) = left.pop() {
        let best = longest(old, new, &places, &a, &b);
        if best.length == 0 {
            continue;
        }
        left.push((a.start..best.old, b.start..best.new));
        left.push((best.old + best.length..a.end, best.new + best.length..b.end));
        found.push(best);
    }
    found.sort_by_key(|found| (found.old, found.new));
    found
}

/// The longest run of equal lines within two ranges. Of several, the first.
fn longest(
    old: &[String],
    new: &[String],
    places: &BTreeMap<&str, Vec<usize>>,
    a: &Range<usize>,
    b: &Range<usize>,
) -> Match {
    let mut best = Match {
        old: a.start,
        new: b.start,
        length: 0,
    };
    // For the previous old line: the length of the run that ends at each new line.
    let mut runs: BTreeMap<usize, usize> = BTreeMap::new();
    for i in a.clone() {
        let mut next = BTreeMap::new();
        let same = places.get(old[i].as_str()).into_iter().flatten();
        for &j in same.filter(|j| b.contains(j)) {
            let before = j.checked_sub(1).and_then(|j| runs.get(&j));
            let length = before.copied().unwrap_or_default() + 1;
            next.insert(j, length);
            if length > best.length {
                best = Match {
                    old: i + 1 - length,
                    new: j + 1 - length,
                    length,
                };
            }
        }
        runs = next;
    }
    while best.old > a.start && best.new > b.start && old[best.old - 1] == new[best.new - 1] {
        best.old -= 1;
        best.new -= 1;
        best.length += 1;
    }
    while best.old + best.length < a.end
        && best.new + best.length < b.end
        && old[best.old + best.length] == new[best.new + best.length]
    {
        best.length += 1;
    }
    best
}

/// The edits that lead from the old text to the new one.
fn steps(matches: &[Match], old_length: usize, new_length: usize) -> Vec<Step> {
    let end = Match {
        old: old_length,
        new: new_length,
        length: 0,
    };
    let (mut i, mut j) = (0, 0);
    let mut steps: Vec<Step> = Vec::new();
    for found in matches.iter().chain([&end]) {
        if i < found.old || j < found.new {
            steps.push(Step {
                is_equal: false,
                old: i..found.old,
                new: j..found.new,
            });
        }
        (i, j) = (found.old + found.length, found.new + found.length);
        if found.length == 0 {
            continue;
        }
        match steps.last_mut() {
            Some(last) if last.is_equal => (last.old.end, last.new.end) = (i, j),
            _ => steps.push(Step {
                is_equal: true,
                old: found.old..i,
                new: found.new..j,
            }),
        }
    }
    steps
}

/// Groups the changes with their context into hunks. Changes near each other share a hunk.
fn hunks(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut hunks = Vec::new();
    let mut hunk: Vec<Step> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        if !step.is_equal {
            hunk.push(step.clone());
            continue;
        }
        let (is_first, is_last) = (i == 0, i + 1 == steps.len());
        let keep_start = if is_first { 0 } else { CONTEXT };
        let keep_end = if is_last { 0 } else { CONTEXT };
        if step.old.len() <= keep_start + keep_end {
            hunk.push(step.clone());
            continue;
        }
        let part = |from: usize, to: usize| Step {
            is_equal: true,
            old: step.old.start + from..step.old.start + to,
            new: step.new.start + from..step.new.start + to,
        };
        if !is_first {
            hunk.push(part(0, keep_start));
            hunks.push(std::mem::take(&mut hunk));
        }
        if !is_last {
            hunk.push(part(step.old.len() - keep_end, step.old.len()));
        }
    }
    hunks.push(hunk);
    hunks.retain(|hunk| hunk.iter().any(|step| !step.is_equal));
    hunks
}

fn hunk_text(hunk: &[Step], old: &[String], new: &[String]) -> String {
    let (first, last) = (&hunk[0], &hunk[hunk.len() - 1]);
    let mut text = format!(
        "@@ -{} +{} @@\n",
        range_text(first.old.start..last.old.end),
        range_text(first.new.start..last.new.end)
    );
    let mut add = |mark: char, lines: &[String]| {
        for line in lines {
            text.push(mark);
            text.push_str(line);
            text.push('\n');
        }
    };
    for step in hunk {
        if step.is_equal {
            add(' ', &old[step.old.clone()]);
        } else {
            add('-', &old[step.old.clone()]);
            add('+', &new[step.new.clone()]);
        }
    }
    text
}

fn range_text(range: Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        length => format!("{},{length}", range.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_changed_line_is_shown_with_its_neighbours() {
        let old = lines("a b c d e f g h");
        let new = lines("a b c d x f g h");
        assert_eq!(
            unified(&old, &new),
            "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+x\n f\n g\n h\n"
        );
    }

    #[test]
    fn distant_changes_are_shown_apart() {
        let old: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        let mut new = old.clone();
        new[0] = "x".to_owned();
        new[19] = "y".to_owned();
        let text = unified(&old, &new);
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
        assert!(text.starts_with("@@ -1,4 +1,4 @@\n-0\n+x\n 1\n"), "{text}");
        assert!(text.ends_with(" 18\n-19\n+y\n"), "{text}");
    }

    #[test]
    fn of_several_runs_the_longest_is_kept() {
        let old = lines("1 a 2 b c 3");
        let new = lines("b c a");
        assert_eq!(
            unified(&old, &new),
            "@@ -1,6 +1,3 @@\n-1\n-a\n-2\n b\n c\n-3\n+a\n"
        );
    }

    #[test]
    fn added_lines_stand_behind_those_before() {
        assert_eq!(
            unified(&lines("a"), &lines("a b")),
            "@@ -1 +1,2 @@\n a\n+b\n"
        );
        assert_eq!(unified(&[], &lines("a")), "@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(unified(&lines("a b"), &lines("a b")), "");
    }
}
