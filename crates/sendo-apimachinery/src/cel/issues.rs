//! What is wrong with an expression, and where.

use std::fmt;

/// How many issues are reported at most.
const MOST: usize = 100;
/// How long a line may be to be shown.
const LONGEST_LINE: usize = 16_384;

/// Why an expression does not compile.
///
/// Shown as cel-go shows it: each issue with its offset and the line it is in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Issues {
    text: String,
}

/// One thing that is wrong at an offset, counted in characters.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub(super) offset: u32,
    pub(super) message: String,
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Issues {
    pub(super) fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        let left_off = issues.len().saturating_sub(MOST);
        issues.truncate(MOST);
        issues.sort_by_key(|issue| issue.offset);
        let mut lines: Vec<String> = issues.iter().map(|issue| shown(source, issue)).collect();
        if left_off > 0 {
            lines.push(format!("{left_off} more errors were truncated"));
        }
        Issues {
            text: lines.join("\n"),
        }
    }
}

fn shown(source: &str, issue: &Issue) -> String {
    if source.is_empty() {
        return format!("ERROR: <input>:1:0: {}", issue.message);
    }
    let mut rest = issue.offset as usize;
    let mut lines = source.split('\n').enumerate();
    let (number, line) = loop {
        match lines.next() {
            Some((_, line)) if rest > line.chars().count() => rest -= line.chars().count() + 1,
            Some(found) => break found,
            None => break (0, ""),
        }
    };
    let head = format!(
        "ERROR: <input>:{}:{}: {}",
        number + 1,
        rest + 1,
        issue.message
    );
    if line.len() > LONGEST_LINE {
        return head;
    }
    let mut mark = String::new();
    let mut chars = line.chars();
    for c in chars.by_ref().take(rest) {
        mark.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
    }
    let wide = chars.next().is_some_and(|c| c.len_utf8() > 1);
    mark.push(if wide { '\u{ff3e}' } else { '^' });
    format!("{head}\n | {}\n | {mark}", line.replace('\t', " "))
}
