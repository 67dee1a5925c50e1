//! Differences between two objects, as text.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// How many equal lines are shown around a difference.
const CONTEXT: usize = 3;

/// A unified diff of two values, written as JSON with one space of indentation.
///
/// Refusals of a change to a fixed spec end in it, so that whoever sent the
/// change sees which of its fields was meant.
pub(super) fn unified(old: &Value, new: &Value) -> String {
    let (old, new) = (lines(old), lines(new));
    let edits = edits(&old, &new);
    hunks(&edits)
        .into_iter()
        .map(|hunk| hunk_text(&edits[hunk]))
        .collect()
}

fn lines(value: &Value) -> Vec<String> {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" "));
    value
        .serialize(&mut serializer)
        .expect("a JSON value is written to memory");
    String::from_utf8_lossy(&text)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// A line of the old text, of the new one, or of both, with its place in each.
struct Edit<'a> {
    mark: char,
    line: &'a str,
    old: usize,
    new: usize,
}

/// The shortest way from one list of lines to another, by longest common subsequence.
///
/// Equal lines at both ends are taken off first: what remains is a few lines.
fn edits<'a>(old: &'a [String], new: &'a [String]) -> Vec<Edit<'a>> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = (old.len() - start).min(new.len() - start);
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(rest)
        .take_while(|(a, b)| a == b)
        .count();
    let (a, b) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut common = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = match a[i] == b[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let mut edits: Vec<Edit<'_>> = (0..start)
        .map(|i| Edit {
            mark: ' ',
            line: &old[i],
            old: i,
            new: i,
        })
        .collect();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let (old, new) = (start + i, start + j);
        if i < a.len() && j < b.len() && a[i] == b[j] {
            edits.push(Edit {
                mark: ' ',
                line: &a[i],
                old,
                new,
            });
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || common[i + 1][j] >= common[i][j + 1]) {
            edits.push(Edit {
                mark: '-',
                line: &a[i],
                old,
                new,
            });
            i += 1;
        } else {
            edits.push(Edit {
                mark: '+',
                line: &b[j],
                old,
                new,
            });
            j += 1;
        }
    }
    let tail = (0..end).map(|k| (old.len() - end + k, new.len() - end + k));
    edits.extend(tail.map(|(i, j)| Edit {
        mark: ' ',
        line: &old[i],
        old: i,
        new: j,
    }));
    edits
}

/// The ranges of edits to show: each change with its context, joined where contexts meet.
fn hunks(edits: &[Edit<'_>]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (i, _) in edits
        .iter()
        .enumerate()
        .filter(|(_, edit)| edit.mark != ' ')
    {
        let range = i.saturating_sub(CONTEXT)..(i + CONTEXT + 1).min(edits.len());
        match hunks.last_mut() {
            Some(last) if range.start <= last.end => last.end = range.end,
            _ => hunks.push(range),
        }
    }
    hunks
}

fn hunk_text(edits: &[Edit<'_>]) -> String {
    let count = |mark: char| edits.iter().filter(|edit| edit.mark != mark).count();
    let first = &edits[0];
    let header = format!(
        "@@ -{},{} +{},{} @@\n",
        first.old + 1,
        count('+'),
        first.new + 1,
        count('-')
    );
    let lines = edits
        .iter()
        .map(|edit| format!("{}{}\n", edit.mark, edit.line));
    header + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_changed_member_is_shown_with_its_neighbours() {
        let old = json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8});
        let mut new = old.clone();
        new["e"] = 50.into();
        assert_eq!(
            unified(&old, &new),
            "@@ -3,7 +3,7 @@\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4,\n- \"e\": 5,\n+ \"e\": 50,\n  \"f\": 6,\n  \"g\": 7,\n  \"h\": 8\n"
        );
    }

    #[test]
    fn distant_changes_are_shown_apart() {
        let old = json!((0..20).collect::<Vec<i32>>());
        let mut new = old.clone();
        new[0] = 100.into();
        new[19] = 100.into();
        let text = unified(&old, &new);
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
    }

    #[test]
    fn equal_objects_have_no_difference() {
        assert_eq!(unified(&json!({"a": 1}), &json!({"a": 1})), "");
    }
}
