//! From text to tokens.

use super::issues::Issue;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// An operator, a bracket or a keyword.
    Mark(&'static str),
    Ident(String),
    /// A name in backquotes.
    Quoted(String),
    Int(String),
    Uint(String),
    Float(String),
    Text(Vec<u8>),
    Bytes(Vec<u8>),
    End,
}

/// A token with its offset in characters and the text it came from.
#[derive(Clone, Debug)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) offset: u32,
    pub(super) text: String,
}

/// Longer marks come before those they begin with.
const MARKS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

/// Reads all tokens; what is no token is reported and skipped.
pub(super) fn tokens(source: &str) -> (Vec<Lexeme>, Vec<Issue>) {
    let mut lexer = Lexer {
        chars: source.chars().collect(),
        at: 0,
        issues: Vec::new(),
    };
    let mut spots = Vec::new();
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        if start == lexer.chars.len() {
            spots.push(Lexeme {
                token: Token::End,
                offset: start as u32,
                text: "<EOF>".to_owned(),
            });
            return (spots, lexer.issues);
        }
        match lexer.next() {
            Some(token) => spots.push(Lexeme {
                token,
                offset: start as u32,
                text: lexer.text(start, lexer.at),
            }),
            None => {
                // The text that was tried, with the character it failed at.
                lexer.at = (lexer.at + 1).min(lexer.chars.len());
                let message = format!(
                    "Syntax error: token recognition error at: '{}'",
                    lexer.text(start, lexer.at)
                );
                lexer.issues.push(Issue {
                    offset: start as u32,
                    message,
                });
            }
        }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    issues: Vec<Issue>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars[from..to].iter().collect()
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek(0) {
            if matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
                self.at += 1;
            } else if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    /// The next token; at what it stopped if there is none.
    fn next(&mut self) -> Option<Token> {
        let c = self.peek(0)?;
        if let Some(prefix) = self.string_prefix() {
            return self.string(prefix);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let start = self.at;
            while self
                .peek(0)
                .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
            {
                self.at += 1;
            }
            let name = self.text(start, self.at);
            return Some(match KEYWORDS.iter().find(|keyword| **keyword == name) {
                Some(keyword) => Token::Mark(keyword),
                None => Token::Ident(name),
            });
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Some(self.number());
        }
        if c == '`' {
            return self.quoted();
        }
        let mark = MARKS.iter().find(|mark| {
            mark.chars()
                .enumerate()
                .all(|(i, c)| self.peek(i) == Some(c))
        });
        match mark {
            Some(mark) => {
                self.at += mark.len();
                Some(Token::Mark(mark))
            }
            None => {
                if matches!(c, '=' | '|' | '&') {
                    self.at += 1;
                }
                None
            }
        }
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                lexer.at += 1;
            }
        };
        if self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            while self.peek(0).is_some_and(|c| c.is_ascii_hexdigit()) {
                self.at += 1;
            }
        } else {
            digits(self);
            let mut float = false;
            if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
                float = true;
                self.at += 1;
                digits(self);
            }
            if matches!(self.peek(0), Some('e' | 'E')) {
                let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
                if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                    float = true;
                    self.at += 1 + sign;
                    digits(self);
                }
            }
            if float {
                return Token::Float(self.text(start, self.at));
            }
        }
        let text = self.text(start, self.at);
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Token::Uint(text);
        }
        Token::Int(text)
    }

    fn quoted(&mut self) -> Option<Token> {
        let start = self.at + 1;
        self.at += 1;
        loop {
            match self.peek(0)? {
                '`' if self.at > start => {
                    self.at += 1;
                    return Some(Token::Quoted(self.text(start, self.at - 1)));
                }
                c if c.is_ascii_alphanumeric() || "_.-/ ".contains(c) => self.at += 1,
                _ => return None,
            }
        }
    }

    /// The prefix before the quote of a string that begins here.
    fn string_prefix(&self) -> Option<Prefix> {
        let mut prefix = Prefix::default();
        for ahead in 0..3 {
            match self.peek(ahead)? {
                '"' | '\'' => {
                    prefix.length = ahead;
                    return Some(prefix);
                }
                'r' | 'R' if !prefix.raw => prefix.raw = true,
                'b' | 'B' if !prefix.bytes && !prefix.raw => prefix.bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn string(&mut self, prefix: Prefix) -> Option<Token> {
        self.at += prefix.length;
        let quote = self.peek(0)?;
        let start = self.at;
        if self.peek(1) == Some(quote) && self.peek(2) == Some(quote) {
            if let Some(token) = self.quoted_text(&prefix, quote, true) {
                return Some(token);
            }
            // Then two of the three are a text without anything in it.
            self.at = start;
        }
        self.quoted_text(&prefix, quote, false)
    }

    fn quoted_text(&mut self, prefix: &Prefix, quote: char, triple: bool) -> Option<Token> {
        self.at += if triple { 3 } else { 1 };
        let mut content = Vec::new();
        loop {
            let c = self.peek(0)?;
            let closes = c == quote
                && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote)));
            if closes {
                self.at += if triple { 3 } else { 1 };
                break;
            }
            if !triple && matches!(c, '\n' | '\r') {
                return None;
            }
            if c == '\\' && !prefix.raw {
                self.escape(prefix, &mut content)?;
                continue;
            }
            self.at += 1;
            content.extend(c.encode_utf8(&mut [0; 4]).bytes());
        }
        Some(if prefix.bytes {
            Token::Bytes(content)
        } else {
            Token::Text(content)
        })
    }

    fn escape(&mut self, prefix: &Prefix, content: &mut Vec<u8>) -> Option<()> {
        let c = self.peek(1)?;
        let simple = match c {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '"' | '\'' | '\\' | '?' | '`' => Some(c as u8),
            _ => None,
        };
        if let Some(byte) = simple {
            content.push(byte);
            self.at += 2;
            return Some(());
        }
        let (skip, length, radix) = match c {
            'x' | 'X' => (2, 2, 16),
            'u' if !prefix.bytes => (2, 4, 16),
            'U' if !prefix.bytes => (2, 8, 16),
            '0'..='3' => (1, 3, 8),
            _ => {
                self.at += 1;
                return None;
            }
        };
        let mut code: u32 = 0;
        for i in 0..length {
            match self.peek(skip + i).and_then(|c| c.to_digit(radix)) {
                Some(digit) => code = code * radix + digit,
                None => {
                    self.at += skip + i;
                    return None;
                }
            }
        }
        if prefix.bytes {
            content.push(u8::try_from(code).ok()?);
        } else {
            let c = char::from_u32(code)?;
            content.extend(c.encode_utf8(&mut [0; 4]).bytes());
        }
        self.at += skip + length;
        Some(())
    }
}

#[derive(Debug, Default)]
struct Prefix {
    raw: bool,
    bytes: bool,
    length: usize,
}
