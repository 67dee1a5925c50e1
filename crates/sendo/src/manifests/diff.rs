//! Changes of a text in the form of `diff -u`.

use std::fmt::Write as _;

/// How many lines around a change are shown.
const CONTEXT: usize = 3;

/// How many pairs of lines are compared to find what two texts have in common; where there would
/// be more, all lines between the first difference and the last are shown as changed.
const MOST_PAIRS: usize = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The change of a text file in the form of `diff -u`, with three lines around what differs. A side
/// that is `None` has no such file.
pub fn unified_diff(file: &str, before: Option<&str>, after: Option<&str>) -> String {
    let side = |name: &str, text: Option<&str>| match text {
        Some(_) => format!("{name}/{file}"),
        None => "/dev/null".to_owned(),
    };
    let lines = align(before.unwrap_or_default(), after.unwrap_or_default());
    let mut text = format!("--- {}\n+++ {}\n", side("a", before), side("b", after));
    for (from, to) in hunks(&lines) {
        let old = |line: &&Line<'_>| !matches!(line, Line::Added(_));
        let new = |line: &&Line<'_>| !matches!(line, Line::Removed(_));
        let (skipped, shown) = (&lines[..from], &lines[from..to]);
        // An empty range is named by the line before it.
        let range =
            |skipped: usize, shown: usize| format!("{},{shown}", skipped + usize::from(shown > 0));
        let before = range(
            skipped.iter().filter(old).count(),
            shown.iter().filter(old).count(),
        );
        let after = range(
            skipped.iter().filter(new).count(),
            shown.iter().filter(new).count(),
        );
        let _ = writeln!(text, "@@ -{before} +{after} @@");
        for line in shown {
            let _ = match line {
                Line::Same(line) => writeln!(text, " {line}"),
                Line::Removed(line) => writeln!(text, "-{line}"),
                Line::Added(line) => writeln!(text, "+{line}"),
            };
        }
    }
    text
}

/// The lines of both texts, with as many in common as there can be.
fn align<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (removed, added) = (
        &old_rest[..old_rest.len() - end],
        &new_rest[..new_rest.len() - end],
    );
    let mut lines: Vec<Line<'a>> = old[..start].iter().map(|line| Line::Same(line)).collect();
    lines.extend(align_changed(removed, added));
    lines.extend(old[old.len() - end..].iter().map(|line| Line::Same(line)));
    lines
}

fn align_changed<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len().saturating_mul(new.len()) > MOST_PAIRS {
        let removed = old.iter().map(|line| Line::Removed(line));
        return removed
            .chain(new.iter().map(|line| Line::Added(line)))
            .collect();
    }
    // common[i][j]: how many lines old[i..] and new[j..] have in common.
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            lines.push(Line::Removed(old[i]));
            i += 1;
        } else {
            lines.push(Line::Added(new[j]));
            j += 1;
        }
    }
    lines
}

/// The runs of lines to show: changes with their context.
fn hunks(lines: &[Line<'_>]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    let changes = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !matches!(line, Line::Same(_)));
    for (at, _) in changes {
        let (from, to) = (
            at.saturating_sub(CONTEXT),
            (at + CONTEXT + 1).min(lines.len()),
        );
        match hunks.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => hunks.push((from, to)),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_three_lines_around_them() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = "1\n2\n3\n4\nnew\n6\n7\n8\n9\n";
        let diff = unified_diff("x", Some(before), Some(after));
        let expected = "--- a/x\n+++ b/x\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+new\n 6\n 7\n 8\n";
        assert_eq!(diff, expected);
    }

    #[test]
    fn a_file_that_comes_or_goes_has_one_side() {
        let new = unified_diff("x", None, Some("a\n"));
        assert_eq!(new, "--- /dev/null\n+++ b/x\n@@ -0,0 +1,1 @@\n+a\n");
        let gone = unified_diff("x", Some("a\n"), None);
        assert_eq!(gone, "--- a/x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n");
    }
}
