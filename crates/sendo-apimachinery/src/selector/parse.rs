//! The parser of label selectors.

use std::collections::BTreeSet;

use super::SelectorError;
use super::labels::{Operator, Requirement, check_key};
use crate::field::Path;

/// Reads label selectors: `app=x,tier in (a,b),!old`.
pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key or a value, or the words `in` and `notin`, which may be either.
    Word(&'a str),
    /// A symbol: `!`, `=`, `==`, `!=`, `<`, `>`, `(`, `)`, `,`.
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    /// The token's text, as messages show it.
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

fn error<T>(text: String) -> Result<T, SelectorError> {
    Err(SelectorError(text))
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Parser {
            tokens: tokens(text),
            next: 0,
        }
    }

    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    pub(super) fn selector(mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                Token::End => return Ok(requirements),
                other => {
                    return error(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement = self
                .requirement()
                .map_err(|e| SelectorError(format!("unable to parse requirement: {e}")))?;
            requirements.push(requirement);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => {
                        return error(format!(
                            "found '{}', expected: identifier after ','",
                            other.text()
                        ));
                    }
                },
                other => {
                    return error(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut token = self.take();
        let negated = token == Token::Symbol("!");
        if negated {
            token = self.take();
        }
        let Token::Word(key) = token else {
            return error(format!("found '{}', expected: identifier", token.text()));
        };
        if let Some(fault) = check_key(key, &Path::root()) {
            return error(fault.to_string());
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, [""; 0]);
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Requirement::new(key, Operator::Exists, [""; 0]);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        Ok(match self.take() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => {
                return error(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    other.text()
                ));
            }
        })
    }

    /// The value behind `=` and its like; none is the empty one.
    fn exact_value(&mut self) -> Result<&'a str, SelectorError> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            Token::Word(value) => {
                self.take();
                Ok(value)
            }
            other => error(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// A list in parentheses; what is left out between commas is the empty value.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, SelectorError> {
        let open = self.take();
        if open != Token::Symbol("(") {
            return error(format!("found '{}' expected: '('", open.text()));
        }
        match self.peek() {
            Token::Symbol(")") => {
                self.take();
                return Ok(BTreeSet::from([""]));
            }
            Token::Word(_) | Token::Symbol(",") => {}
            other => {
                return error(format!(
                    "found '{}', expected: ',', ')' or identifier",
                    other.text()
                ));
            }
        }
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => {
                            return error(format!(
                                "found '{}', expected: ',' or ')'",
                                other.text()
                            ));
                        }
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.insert("");
                    }
                    if let Token::Symbol("," | ")") = self.peek() {
                        values.insert("");
                    }
                    if self.peek() == Token::Symbol(")") {
                        break;
                    }
                }
                other => {
                    return error(format!(
                        "found '{}', expected: ',', or identifier",
                        other.text()
                    ));
                }
            }
        }
        self.take();
        Ok(values)
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(blank);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if symbol(first) {
            1
        } else {
            rest.find(|c| symbol(c) || blank(c)).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        tokens.push(if symbol(first) {
            Token::Symbol(token)
        } else {
            Token::Word(token)
        });
        rest = after.trim_start_matches(blank);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use crate::selector::LabelSelector;

    #[test]
    fn texts_come_back_in_canonical_form() {
        let cases = [
            ("", ""),
            ("  a , b = c ", "a,b=c"),
            ("b,a", "a,b"),
            ("a==b", "a==b"),
            ("a!=b", "a!=b"),
            ("a=", "a="),
            ("a in (c,b)", "a in (b,c)"),
            ("a in ()", "a in ()"),
            ("a in (,)", "a in ()"),
            ("a in (b,,c)", "a in (,b,c)"),
            ("a notin (b,)", "a notin (,b)"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("a>1,b<2", "a>1,b<2"),
            ("!a", "!a"),
            ("x/y=z", "x/y=z"),
        ];
        for (text, canonical) in cases {
            assert_eq!(
                LabelSelector::parse(text).unwrap().to_string(),
                canonical,
                "{text}"
            );
        }
    }

    #[test]
    fn faults_are_reported_with_the_messages_of_kubernetes() {
        let cases = [
            (
                "a===b",
                "unable to parse requirement: found '=', expected: identifier",
            ),
            (
                "a in x",
                "unable to parse requirement: found 'x' expected: '('",
            ),
            (
                "!",
                "unable to parse requirement: found '', expected: identifier",
            ),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a>=x",
                "unable to parse requirement: found '=', expected: identifier",
            ),
            (
                "n>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                ",",
                "found ',', expected: !, identifier, or 'end of string'",
            ),
            (
                "=",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
            ("a,", "found '', expected: identifier after ','"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            (
                "a in (b c)",
                "unable to parse requirement: found 'c', expected: ',' or ')'",
            ),
            (
                "a in (b",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a in (=",
                "unable to parse requirement: found '=', expected: ',', ')' or identifier",
            ),
            (
                "a in (b,=",
                "unable to parse requirement: found '=', expected: ',', or identifier",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                LabelSelector::parse(text).unwrap_err().to_string(),
                expected,
                "{text}"
            );
        }
        let bad_key = LabelSelector::parse("-a=b").unwrap_err().to_string();
        assert!(
            bad_key.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part"
            )
        );
        let bad_value = LabelSelector::parse("a=-v").unwrap_err().to_string();
        assert!(
            bad_value
                .starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-v\":")
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = LabelSelector::parse(&text);
        }

        #[test]
        fn the_canonical_text_reads_back(text in "[ab!=<>(),in ]{0,30}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                let again = LabelSelector::parse(&selector.to_string()).unwrap();
                proptest::prop_assert_eq!(again.to_string(), selector.to_string());
            }
        }
    }
}
