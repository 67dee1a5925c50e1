//! The diff of expected and printed lines.

use std::fmt;

use super::pattern::Pattern;

/// How many equal lines are shown around those that differ.
const CONTEXT: usize = 3;

/// What was printed, line by line, against what was expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Printed as expected.
    Same(String),
    /// Expected and not printed.
    Missing(String),
    /// Printed and not expected.
    Extra(String),
}

impl Difference {
    /// The alignment with the fewest lines that are missing or too many.
    pub(crate) fn new(expected: &Pattern, printed: &str) -> Self {
        let printed: Vec<_> = printed.trim_end().lines().map(str::trim_end).collect();
        let wanted = expected.lines();
        let agrees: Vec<_> = wanted.iter().map(|line| line.matches(&printed)).collect();
        // cost[i][j]: what is left to change from the i-th expected line and
        // the j-th printed one on.
        let mut cost = vec![vec![0; printed.len() + 1]; wanted.len() + 1];
        for i in (0..=wanted.len()).rev() {
            for j in (0..=printed.len()).rev() {
                let mut best = usize::MAX;
                if i < wanted.len() {
                    best = cost[i + 1][j] + usize::from(!wanted[i].is_gap());
                }
                if j < printed.len() {
                    let in_gap = i < wanted.len() && wanted[i].is_gap();
                    best = best.min(cost[i][j + 1] + usize::from(!in_gap));
                }
                if i < wanted.len() && j < printed.len() && agrees[i][j] {
                    best = best.min(cost[i + 1][j + 1]);
                }
                cost[i][j] = if best == usize::MAX { 0 } else { best };
            }
        }
        let mut lines = Vec::new();
        let (mut i, mut j) = (0, 0);
        while i < wanted.len() || j < printed.len() {
            let here = cost[i][j];
            let both = i < wanted.len() && j < printed.len();
            if both && agrees[i][j] && cost[i + 1][j + 1] == here {
                lines.push(Line::Same(printed[j].to_owned()));
                (i, j) = (i + 1, j + 1);
            } else if both && wanted[i].is_gap() && cost[i][j + 1] == here {
                lines.push(Line::Same(printed[j].to_owned()));
                j += 1;
            } else if i < wanted.len() && wanted[i].is_gap() {
                i += 1;
            } else if i < wanted.len() && cost[i + 1][j] + 1 == here {
                lines.push(Line::Missing(wanted[i].text().to_owned()));
                i += 1;
            } else {
                lines.push(Line::Extra(printed[j].to_owned()));
                j += 1;
            }
        }
        Self { lines }
    }

    fn is_shown(&self, place: usize) -> bool {
        let from = place.saturating_sub(CONTEXT);
        let to = (place + CONTEXT + 1).min(self.lines.len());
        let mut around = self.lines[from..to].iter();
        around.any(|line| !matches!(line, Line::Same(_)))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hidden = 0;
        for (place, line) in self.lines.iter().enumerate() {
            if !self.is_shown(place) {
                hidden += 1;
                continue;
            }
            if std::mem::take(&mut hidden) > 0 {
                writeln!(f, "  ⋮")?;
            }
            match line {
                Line::Same(text) => writeln!(f, "    {text}")?,
                Line::Missing(text) => writeln!(f, "  - {text}")?,
                Line::Extra(text) => writeln!(f, "  + {text}")?,
            }
            if let (Some(Line::Missing(wanted)), Line::Extra(got)) =
                (place.checked_sub(1).map(|before| &self.lines[before]), line)
            {
                let equal = wanted.chars().zip(got.chars());
                let column = equal.take_while(|(a, b)| a == b).count();
                writeln!(f, "    {}^", " ".repeat(column))?;
            }
        }
        match hidden {
            0 => Ok(()),
            _ => writeln!(f, "  ⋮"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Names;
    use super::*;

    fn difference(expected: &str, printed: &str) -> String {
        let lines: Vec<_> = expected.lines().map(str::to_owned).collect();
        let pattern = Pattern::new(&lines, &Names::new()).unwrap();
        Difference::new(&pattern, printed).to_string()
    }

    #[test]
    fn a_changed_line_is_shown_with_the_place_of_the_change() {
        assert_eq!(
            difference(
                "NAME   AGE\nweb    <age>\nend",
                "NAME   AGE\nwrb    5s\nend\n"
            ),
            "    NAME   AGE\n  - web    <age>\n  + wrb    5s\n     ^\n    end\n"
        );
    }

    #[test]
    fn a_missing_line_does_not_affect_the_others() {
        assert_eq!(difference("a\nb\nc", "a\nc"), "    a\n  - b\n    c\n");
        assert_eq!(difference("a\nc", "a\nb\nc"), "    a\n  + b\n    c\n");
        assert_eq!(difference("a", ""), "  - a\n");
    }

    #[test]
    fn a_gap_matches_any_lines() {
        assert_eq!(
            difference("a\n...\nd\ne", "a\nb\nc\nd\n"),
            "  ⋮\n    b\n    c\n    d\n  - e\n"
        );
    }

    #[test]
    fn long_runs_of_equal_lines_are_left_out() {
        let lines = "1\n2\n3\n4\n5\n6";
        assert_eq!(
            difference(&format!("{lines}\nx"), lines),
            "  ⋮\n    4\n    5\n    6\n  - x\n"
        );
    }
}
