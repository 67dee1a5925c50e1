//! Changes of text files in the form of `diff -u`.

use std::fmt::Write as _;
use std::path::Path;

/// How many lines around a change are shown.
const CONTEXT: usize = 3;

/// A line of one text or of both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The change of one file; a side that is `None` has no such file.
pub(super) fn unified_diff(path: &Path, before: Option<&str>, after: Option<&str>) -> String {
    let name = |side: &str, text: Option<&str>| match text {
        Some(_) => format!("{side}/{}", path.display()),
        None => "/dev/null".to_owned(),
    };
    let lines = align(before.unwrap_or_default(), after.unwrap_or_default());
    let mut diff = format!("--- {}\n+++ {}\n", name("a", before), name("b", after));
    for (from, to) in hunks(&lines) {
        let count = |lines: &[Line], is_old: bool| {
            let counted = |line: &&Line| match line {
                Line::Same(_) => true,
                Line::Removed(_) => is_old,
                Line::Added(_) => !is_old,
            };
            lines.iter().filter(counted).count()
        };
        let range = |is_old: bool| {
            let (skipped, shown) = (
                count(&lines[..from], is_old),
                count(&lines[from..to], is_old),
            );
            // An empty range is named by the line before it.
            format!("{},{shown}", skipped + usize::from(shown > 0))
        };
        let _ = writeln!(diff, "@@ -{} +{} @@", range(true), range(false));
        for line in &lines[from..to] {
            let _ = match line {
                Line::Same(text) => writeln!(diff, " {text}"),
                Line::Removed(text) => writeln!(diff, "-{text}"),
                Line::Added(text) => writeln!(diff, "+{text}"),
            };
        }
    }
    diff
}

/// The lines of both texts, with as many in common as there can be.
fn align<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    // common[i][j]: how many lines old[i..] and new[j..] have in common.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let mut lines = Vec::new();
    let (mut i, mut j) = (0, 0);
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
fn hunks(lines: &[Line]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if matches!(line, Line::Same(_)) {
            continue;
        }
        let from = at.saturating_sub(CONTEXT);
        let to = (at + CONTEXT + 1).min(lines.len());
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
        let diff = unified_diff(Path::new("x"), Some(before), Some(after));
        let expected = "--- a/x\n+++ b/x\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+new\n 6\n 7\n 8\n";
        assert_eq!(diff, expected);
    }

    #[test]
    fn a_file_that_comes_or_goes_has_one_side() {
        let new = unified_diff(Path::new("x"), None, Some("a\n"));
        assert_eq!(new, "--- /dev/null\n+++ b/x\n@@ -0,0 +1,1 @@\n+a\n");
        let gone = unified_diff(Path::new("x"), Some("a\n"), None);
        assert_eq!(gone, "--- a/x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n");
    }
}
