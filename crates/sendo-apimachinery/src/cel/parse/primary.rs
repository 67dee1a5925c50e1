//! Operands: literals, names, calls, lists, maps and messages.

use super::{Parser, Result, STARTS};
use crate::cel::escape::is_reserved;
use crate::cel::lex::{Lexeme, Token};
use crate::cel::macros;
use crate::cel::syntax::{Entry, Expr, Item, Kind, Literal, Member};

impl Parser {
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let Lexeme { token, offset, .. } = self.lexeme().clone();
        let literal = match token {
            Token::Int(text) => match int(&text) {
                Some(value) => Literal::Int(value),
                None => return Err(self.report(offset, "invalid int literal")),
            },
            Token::Uint(text) => match uint(&text) {
                Some(value) => Literal::Uint(value),
                None => return Err(self.report(offset, "invalid uint literal")),
            },
            Token::Float(text) => match double(&text) {
                Some(value) => Literal::Double(value),
                None => return Err(self.report(offset, "invalid double literal")),
            },
            Token::Text(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Literal::Text(text),
                Err(_) => return Err(self.report(offset, "invalid UTF-8 string")),
            },
            Token::Bytes(bytes) => Literal::Bytes(bytes),
            Token::Mark("true") => Literal::Bool(true),
            Token::Mark("false") => Literal::Bool(false),
            Token::Mark("null") => Literal::Null,
            Token::Mark("(") => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Mark("[") => return self.list(offset),
            Token::Mark("{") => return self.map(offset),
            Token::Mark(".") => {
                self.at += 1;
                return match &self.lexeme().token {
                    Token::Ident(_) => self.named(),
                    _ => Err(self.mismatched("IDENTIFIER")),
                };
            }
            Token::Ident(_) => return self.named(),
            Token::Mark(_) | Token::Quoted(_) | Token::End => return self.no_value(),
        };
        self.at += 1;
        self.node(offset, Kind::Literal(literal))
    }

    /// Tells that no value begins here. If one does right behind, reading goes on with that.
    fn no_value(&mut self) -> Result<Expr> {
        if self.lexeme().token == Token::End || !self.begins_value(self.at + 1) {
            return Err(self.mismatched(STARTS));
        }
        let text = self.lexeme().text.clone();
        self.syntax(format!("extraneous input '{text}' expecting {STARTS}"));
        self.at += 1;
        self.primary()
    }

    /// A variable, a call or a message.
    fn named(&mut self) -> Result<Expr> {
        let Lexeme { token, offset, .. } = self.lexeme().clone();
        let Token::Ident(name) = token else {
            return Err(self.mismatched("IDENTIFIER"));
        };
        if let Some(name) = self.message_name() {
            return self.message(name);
        }
        self.at += 1;
        if is_reserved(name.as_str()) {
            return Err(self.report(offset, format!("reserved identifier: {name}")));
        }
        if self.is("(") {
            let open = self.lexeme().offset;
            let args = self.arguments()?;
            return macros::global_call(self, open, name, args);
        }
        self.node(offset, Kind::Ident(name))
    }

    /// The dotted name of a message literal that begins here.
    fn message_name(&self) -> Option<String> {
        let mut at = self.at;
        let mut name = String::new();
        loop {
            match &self.spots[at].token {
                Token::Ident(part) => name.push_str(part),
                _ => return None,
            }
            match self.spots[at + 1].token {
                Token::Mark("{") => return Some(name),
                Token::Mark(".") => name.push('.'),
                _ => return None,
            }
            at += 2;
        }
    }

    fn message(&mut self, name: String) -> Result<Expr> {
        while !self.is("{") {
            self.at += 1;
        }
        let offset = self.lexeme().offset;
        self.at += 1;
        let fields = self.until("}", |parser| {
            let optional = parser.take("?").is_some();
            let Lexeme { token, offset, .. } = parser.lexeme().clone();
            let name = match token {
                Token::Ident(name) => name,
                Token::Quoted(_) => return Err(parser.report(offset, "unsupported syntax: '`'")),
                _ => return Err(parser.mismatched("{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")),
            };
            parser.at += 1;
            let colon = parser.lexeme().offset;
            parser.expect(":")?;
            Ok(Member {
                id: parser.offsets.add(colon),
                name,
                value: parser.expr()?,
                optional,
            })
        })?;
        self.node(offset, Kind::Struct { name, fields })
    }

    fn list(&mut self, offset: u32) -> Result<Expr> {
        self.at += 1;
        let items = self.until("]", |parser| {
            let optional = parser.take("?").is_some();
            let value = parser.expr()?;
            Ok(Item { value, optional })
        })?;
        self.node(offset, Kind::List(items))
    }

    fn map(&mut self, offset: u32) -> Result<Expr> {
        self.at += 1;
        let entries = self.until("}", |parser| {
            let optional = parser.take("?").is_some();
            let key = parser.expr()?;
            parser.expect(":")?;
            let value = parser.expr()?;
            Ok(Entry {
                key,
                value,
                optional,
            })
        })?;
        self.node(offset, Kind::Map(entries))
    }

    /// What commas separate, and may follow, up to the closing mark.
    fn until<T>(
        &mut self,
        close: &'static str,
        mut one: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while self.take(close).is_none() {
            all.push(one(self)?);
            if self.take(",").is_none() {
                self.close(close)?;
                break;
            }
        }
        Ok(all)
    }
}

pub(super) fn int(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
        None => text.parse().ok(),
    }
}

fn uint(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(super) fn double(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
