//! From tokens to a tree: operators here, what they stand between in [`primary`].

mod primary;

use super::issues::{Issue, Issues};
use super::lex::{self, Lexeme, Token};
use super::macros;
use super::syntax::{Expr, Kind, Literal, Offsets, Parsed, TooDeep};

/// How many characters an expression may have.
const MAX_SIZE: usize = 100_000;
/// How deep brackets may be nested.
const MAX_NESTING: usize = 100;

/// What a value can begin with.
const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Reads an expression.
pub(super) fn parse(source: &str) -> Result<Parsed, Issues> {
    let size = source.chars().count();
    if size > MAX_SIZE {
        let message =
            format!("expression code point size exceeds limit: size: {size}, limit {MAX_SIZE}");
        return Err(Issues::new(source, vec![Issue { offset: 0, message }]));
    }
    let (spots, issues) = lex::tokens(source);
    let mut parser = Parser {
        source: source.chars().collect(),
        spots,
        at: 0,
        nesting: 0,
        offsets: Offsets::default(),
        issues,
    };
    let root = parser.whole();
    match root {
        Ok(root) if parser.issues.is_empty() => Ok(Parsed {
            source: source.to_owned(),
            root,
            offsets: parser.offsets,
        }),
        Err(Stop::TooDeep(error)) => Err(error.issues(source)),
        _ => Err(Issues::new(source, parser.issues)),
    }
}

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The error is among the issues.
    Reported,
    TooDeep(TooDeep),
}

impl From<TooDeep> for Stop {
    fn from(error: TooDeep) -> Self {
        Stop::TooDeep(error)
    }
}

pub(super) struct Parser {
    source: Vec<char>,
    spots: Vec<Lexeme>,
    at: usize,
    nesting: usize,
    pub(super) offsets: Offsets,
    issues: Vec<Issue>,
}

type Result<T, E = Stop> = std::result::Result<T, E>;

impl Parser {
    fn whole(&mut self) -> Result<Expr> {
        let root = self.expr()?;
        if self.lexeme().token != Token::End {
            let text = self.lexeme().text.clone();
            let what = match self.spots[self.at + 1].token {
                Token::End => "extraneous",
                _ => "mismatched",
            };
            return Err(self.syntax(format!("{what} input '{text}' expecting <EOF>")));
        }
        Ok(root)
    }

    fn lexeme(&self) -> &Lexeme {
        &self.spots[self.at]
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.lexeme().token, Token::Mark(own) if own == mark)
    }

    /// Takes a mark if it is next, and returns its offset.
    fn take(&mut self, mark: &str) -> Option<u32> {
        if !self.is(mark) {
            return None;
        }
        let offset = self.lexeme().offset;
        self.at += 1;
        Some(offset)
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        if self.take(mark).is_some() {
            return Ok(());
        }
        // The mark is reported as missing if the current token could follow it.
        let forgotten = match mark {
            ":" => self.begins_value(self.at),
            _ => !self.is(":"),
        };
        if !forgotten {
            return Err(self.mismatched(&format!("'{mark}'")));
        }
        let text = self.lexeme().text.clone();
        Err(self.syntax(format!("missing '{mark}' at '{text}'")))
    }

    /// Ends a list, a map or a message behind one of its parts.
    fn close(&mut self, mark: &str) -> Result<()> {
        match self.take(mark) {
            Some(_) => Ok(()),
            None => Err(self.mismatched(&format!("{{'{mark}', ','}}"))),
        }
    }

    /// Whether a value can begin with a token.
    fn begins_value(&self, at: usize) -> bool {
        match &self.spots[at].token {
            Token::Mark(mark) => matches!(
                *mark,
                "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"
            ),
            Token::Quoted(_) | Token::End => false,
            _ => true,
        }
    }

    /// The text of two neighbours with the blanks between them; the end has none.
    fn text_between(&self, first: usize, second: usize) -> String {
        let (first, second) = (&self.spots[first], &self.spots[second]);
        if second.token == Token::End {
            return first.text.clone();
        }
        let end = first.offset as usize + first.text.chars().count();
        let between = self.source.get(end..second.offset as usize);
        let between = between.unwrap_or_default().iter();
        let blanks: String = between.filter(|c| c.is_whitespace()).collect();
        format!("{}{blanks}{}", first.text, second.text)
    }

    fn syntax(&mut self, message: String) -> Stop {
        let offset = self.lexeme().offset;
        self.report(offset, format!("Syntax error: {message}"))
    }

    fn mismatched(&mut self, expected: &str) -> Stop {
        let text = self.lexeme().text.clone();
        self.syntax(format!("mismatched input '{text}' expecting {expected}"))
    }

    pub(super) fn report(&mut self, offset: u32, message: impl Into<String>) -> Stop {
        self.issues.push(Issue {
            offset,
            message: message.into(),
        });
        Stop::Reported
    }

    /// A node at an offset.
    pub(super) fn node(&mut self, offset: u32, kind: Kind) -> Result<Expr> {
        let id = self.offsets.add(offset);
        Ok(Expr::new(id, kind)?)
    }

    /// A call of a function without a target.
    pub(super) fn call(&mut self, offset: u32, function: &str, args: Vec<Expr>) -> Result<Expr> {
        let kind = Kind::Call {
            function: function.to_owned(),
            target: None,
            args,
        };
        self.node(offset, kind)
    }

    fn expr(&mut self) -> Result<Expr> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(TooDeep.into());
        }
        let condition = self.logic("||", "_||_")?;
        let expr = match self.take("?") {
            None => condition,
            Some(offset) => {
                let first = self.logic("||", "_||_")?;
                self.expect(":")?;
                let second = self.expr()?;
                self.call(offset, "_?_:_", vec![condition, first, second])?
            }
        };
        self.nesting -= 1;
        Ok(expr)
    }

    /// A row of terms joined by `||` or `&&`, as a balanced tree.
    fn logic(&mut self, mark: &str, function: &str) -> Result<Expr> {
        let term = |parser: &mut Self| match mark {
            "||" => parser.logic("&&", "_&&_"),
            _ => parser.relation(),
        };
        let mut terms = vec![term(self)?];
        let mut offsets = Vec::new();
        while let Some(offset) = self.take(mark) {
            offsets.push(offset);
            terms.push(term(self)?);
        }
        self.balance(
            function,
            &mut terms.into_iter().map(Some).collect::<Vec<_>>(),
            &offsets,
        )
    }

    fn balance(
        &mut self,
        function: &str,
        terms: &mut [Option<Expr>],
        offsets: &[u32],
    ) -> Result<Expr> {
        if terms.len() == 1 {
            return terms[0].take().ok_or(Stop::Reported);
        }
        let middle = terms.len().div_ceil(2);
        let (low, high) = terms.split_at_mut(middle);
        let first = self.balance(function, low, &offsets[..middle - 1])?;
        let second = self.balance(function, high, &offsets[middle..])?;
        self.call(offsets[middle - 1], function, vec![first, second])
    }

    fn relation(&mut self) -> Result<Expr> {
        let mut left = self.sum()?;
        loop {
            let Token::Mark(mark) = self.lexeme().token else {
                return Ok(left);
            };
            let function = match mark {
                "<" => "_<_",
                "<=" => "_<=_",
                ">=" => "_>=_",
                ">" => "_>_",
                "==" => "_==_",
                "!=" => "_!=_",
                "in" => "@in",
                _ => return Ok(left),
            };
            let offset = self.lexeme().offset;
            self.at += 1;
            let right = self.sum()?;
            left = self.call(offset, function, vec![left, right])?;
        }
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        loop {
            let (offset, function) = match (self.take("+"), self.is("-")) {
                (Some(offset), _) => (offset, "_+_"),
                (None, true) => {
                    let offset = self.lexeme().offset;
                    self.at += 1;
                    (offset, "_-_")
                }
                _ => return Ok(left),
            };
            let right = self.product()?;
            left = self.call(offset, function, vec![left, right])?;
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.unary()?;
        loop {
            let Token::Mark(mark) = self.lexeme().token else {
                return Ok(left);
            };
            let function = match mark {
                "*" => "_*_",
                "/" => "_/_",
                "%" => "_%_",
                _ => return Ok(left),
            };
            let offset = self.lexeme().offset;
            self.at += 1;
            let right = self.unary()?;
            left = self.call(offset, function, vec![left, right])?;
        }
    }

    fn unary(&mut self) -> Result<Expr> {
        let (mark, function) = if self.is("!") {
            ("!", "!_")
        } else if self.is("-") {
            if let Some(literal) = self.negative_literal()? {
                return self.member(literal);
            }
            ("-", "-_")
        } else {
            let primary = self.primary()?;
            return self.member(primary);
        };
        let offset = self.lexeme().offset;
        let mut count = 0usize;
        while self.take(mark).is_some() {
            count += 1;
        }
        let primary = self.primary()?;
        let operand = self.member(primary)?;
        if count.is_multiple_of(2) {
            return Ok(operand);
        }
        self.call(offset, function, vec![operand])
    }

    /// A number with its sign.
    fn negative_literal(&mut self) -> Result<Option<Expr>> {
        let offset = self.lexeme().offset;
        let literal = match &self.spots[self.at + 1].token {
            Token::Int(text) => match primary::int(&format!("-{text}")) {
                Some(value) => Literal::Int(value),
                None => return Err(self.report(offset, "invalid int literal")),
            },
            Token::Float(text) => match primary::double(&format!("-{text}")) {
                Some(value) => Literal::Double(value),
                None => return Err(self.report(offset, "invalid double literal")),
            },
            _ => return Ok(None),
        };
        self.at += 2;
        self.node(offset, Kind::Literal(literal)).map(Some)
    }

    fn member(&mut self, mut operand: Expr) -> Result<Expr> {
        loop {
            if let Some(offset) = self.take(".") {
                let optional = self.take("?").is_some();
                let after_dot = self.at;
                let (name, quoted) = match &self.lexeme().token {
                    Token::Ident(name) => (name.clone(), false),
                    Token::Quoted(name) => (name.clone(), true),
                    _ => {
                        let message = format!(
                            "no viable alternative at input '{}'",
                            self.text_between(after_dot - 1, after_dot)
                        );
                        return Err(self.syntax(message));
                    }
                };
                if quoted {
                    let offset = self.lexeme().offset;
                    return Err(self.report(offset, "unsupported syntax: '`'"));
                }
                self.at += 1;
                operand = if optional {
                    let field = self.node(offset, Kind::Literal(Literal::Text(name)))?;
                    self.call(offset, "_?._", vec![operand, field])?
                } else if self.is("(") {
                    let open = self.lexeme().offset;
                    let args = self.arguments()?;
                    macros::member_call(self, open, operand, name, args)?
                } else {
                    let kind = Kind::Select {
                        operand: Box::new(operand),
                        field: name,
                        test: false,
                    };
                    self.node(offset, kind)?
                };
            } else if let Some(offset) = self.take("[") {
                let function = match self.take("?") {
                    Some(_) => "_[?_]",
                    None => "_[_]",
                };
                if function == "_[_]" && self.is("]") {
                    return Err(self.mismatched(&STARTS.replace("'!', ", "'!', '?', ")));
                }
                let index = self.expr()?;
                self.expect("]")?;
                operand = self.call(offset, function, vec![operand, index])?;
            } else {
                return Ok(operand);
            }
        }
    }

    /// Arguments in brackets.
    fn arguments(&mut self) -> Result<Vec<Expr>> {
        self.expect("(")?;
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect(")")?;
        Ok(args)
    }
}
