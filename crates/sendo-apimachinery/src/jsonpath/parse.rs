//! The parser of JSONPath.

use serde_json::Value;

use super::{Comparison, Filter, JsonPath, Operand, PathError, Step};

/// How many paths may lie inside each other's filters.
const MAX_NESTING: usize = 16;

pub(super) fn path(text: &str) -> Result<JsonPath, PathError> {
    let inner = text
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .unwrap_or(text);
    if inner.is_empty() {
        return error("a path may not be empty");
    }
    let mut scan = Scan {
        rest: inner,
        nesting: 0,
    };
    let steps = scan.steps(true)?;
    if !scan.rest.is_empty() {
        return error(format!("unrecognized character in path: {}", scan.rest));
    }
    Ok(JsonPath { steps })
}

struct Scan<'t> {
    rest: &'t str,
    nesting: usize,
}

type Parsed<T> = Result<T, PathError>;

fn error<T>(message: impl Into<String>) -> Parsed<T> {
    Err(PathError(message.into()))
}

impl Scan<'_> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Reads steps as far as they go; `bare` allows the first name to lack its dot.
    fn steps(&mut self, bare: bool) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        if bare && !self.rest.starts_with(['.', '[']) {
            steps.push(self.name()?);
        }
        loop {
            if self.take("[") {
                steps.push(self.bracket()?);
            } else if self.take(".") {
                if self.rest.starts_with('.') {
                    return error("recursive descent is not supported");
                }
                if self.rest.is_empty() && steps.is_empty() {
                    break;
                }
                if !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else {
                break;
            }
        }
        Ok(steps)
    }

    /// A member's name up to the next step; a backslash takes the next character as it is.
    fn name(&mut self) -> Parsed<Step> {
        let mut name = String::new();
        let mut escaped = false;
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        for (i, c) in chars.by_ref() {
            if escaped {
                name.push(c);
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c.is_whitespace() || "|,[]().@=!<>{}'\"".contains(c) {
                end = i;
                break;
            } else {
                name.push(c);
            }
        }
        self.rest = &self.rest[end..];
        if name.is_empty() {
            return error("a name is missing");
        }
        Ok(if name == "*" {
            Step::All
        } else {
            Step::Member(name)
        })
    }

    /// The content of brackets, after the opening one.
    fn bracket(&mut self) -> Parsed<Step> {
        self.blanks();
        if self.take("?(") {
            let filter = self.filter()?;
            self.blanks();
            if !self.take(")") {
                return error("unterminated filter");
            }
            self.close()?;
            return Ok(Step::Filter(filter));
        }
        let mut steps = vec![self.selector()?];
        self.blanks();
        while self.take(",") {
            self.blanks();
            steps.push(self.selector()?);
            self.blanks();
        }
        self.close()?;
        Ok(if steps.len() == 1 {
            steps.remove(0)
        } else {
            Step::Union(steps)
        })
    }

    fn close(&mut self) -> Parsed<()> {
        self.blanks();
        if self.take("]") {
            Ok(())
        } else {
            error("unterminated array")
        }
    }

    fn selector(&mut self) -> Parsed<Step> {
        if self.take("*") {
            return Ok(Step::All);
        }
        if let Some(text) = self.quoted()? {
            return Ok(Step::Member(text));
        }
        let first = self.integer()?;
        if !self.take(":") {
            return first
                .map(Step::Index)
                .ok_or_else(|| PathError("invalid array index".into()));
        }
        let to = self.integer()?;
        let step = if self.take(":") {
            self.integer()?
        } else {
            None
        };
        match step.unwrap_or(1) {
            ..=0 => error("step must be > 0"),
            step => Ok(Step::Slice {
                from: first,
                to,
                step,
            }),
        }
    }

    fn integer(&mut self) -> Parsed<Option<i64>> {
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let sign = self.rest.len() - digits.len();
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return if sign > 0 {
                error("invalid array index")
            } else {
                Ok(None)
            };
        }
        let (number, rest) = self.rest.split_at(sign + length);
        self.rest = rest;
        number
            .parse()
            .map(Some)
            .map_err(|_| PathError("array index out of range".into()))
    }

    /// A text in single or double quotes; a backslash takes the next character as it is.
    fn quoted(&mut self) -> Parsed<Option<String>> {
        let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Ok(None);
        };
        let mut text = String::new();
        let mut escaped = false;
        for (i, c) in self.rest.char_indices().skip(1) {
            if escaped {
                text.push(c);
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                self.rest = &self.rest[i + 1..];
                return Ok(Some(text));
            } else {
                text.push(c);
            }
        }
        error("unterminated quoted string")
    }

    fn filter(&mut self) -> Parsed<Filter> {
        let left = self.operand()?;
        self.blanks();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let comparison = comparisons.into_iter().find(|(text, _)| self.take(text));
        let right = match comparison {
            Some((_, comparison)) => Some((comparison, self.operand()?)),
            None => None,
        };
        Ok(Filter { left, right })
    }

    fn operand(&mut self) -> Parsed<Operand> {
        self.blanks();
        if let Some(text) = self.quoted()? {
            return Ok(Operand::Constant(text.into()));
        }
        if self.take("@") {
            self.nesting += 1;
            if self.nesting > MAX_NESTING {
                return error("filters are nested too deeply");
            }
            let steps = self.steps(false)?;
            self.nesting -= 1;
            return Ok(Operand::Path(JsonPath { steps }));
        }
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || "=!<>)".contains(c));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match word {
            "true" => Ok(Operand::Constant(true.into())),
            "false" => Ok(Operand::Constant(false.into())),
            number => match (number.parse::<i64>(), number.parse::<f64>()) {
                (Ok(number), _) => Ok(Operand::Constant(number.into())),
                (_, Ok(number)) if number.is_finite() => Ok(Operand::Constant(Value::from(number))),
                _ => error(format!("cannot parse operand in filter: {word}")),
            },
        }
    }
}
