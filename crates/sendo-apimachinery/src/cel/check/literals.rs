//! What is refused although its types fit: literals that a function will never
//! take, mixtures of types, and clauses that do not fit what they format.

use super::{Checker, T};
use crate::cel::library::convert;
use crate::cel::library::format::{Piece, Template, out_of_range, wrong_for_clause};
use crate::cel::syntax::{Expr, Kind, Literal};
use crate::cel::types::Type;
use crate::structural::Pattern;

impl<'p> Checker<'p, '_> {
    /// Checks an expression whose types fit. Values to be formatted may be of any types.
    pub(super) fn check_literals(&mut self, expr: &'p Expr, formatted: bool) {
        let mut formats = false;
        if let Kind::Call {
            function,
            target,
            args,
        } = &expr.kind
        {
            self.check_argument(function, args);
            formats = function == "format";
            if formats
                && let Some(Kind::Literal(Literal::Text(template))) =
                    target.as_ref().map(|target| &target.kind)
                && let [values] = args.as_slice()
                && let Kind::List(items) = &values.kind
            {
                let values: Vec<&Expr> = items.iter().map(|item| &item.value).collect();
                self.check_template(expr, template, &values);
            }
        }
        if !formatted {
            self.check_mixture(expr);
        }
        expr.each_child(&mut |child| self.check_literals(child, formatted || formats));
    }

    fn check_argument(&mut self, function: &str, args: &'p [Expr]) {
        let Some(arg) = args.first() else {
            return;
        };
        let Kind::Literal(literal) = &arg.kind else {
            return;
        };
        let sound = match (function, literal) {
            ("matches" | "find" | "findAll", Literal::Text(text)) => match Pattern::new(text) {
                Ok(pattern) => {
                    self.patterns.insert(text.clone(), pattern);
                    true
                }
                // The others are refused when the program is made.
                Err(_) => function != "matches",
            },
            ("duration", Literal::Text(text)) => convert::parse_duration(text).is_some(),
            ("timestamp", Literal::Text(text)) => convert::parse_timestamp(text).is_some(),
            ("timestamp", Literal::Int(seconds)) => convert::timestamp_at(*seconds).is_some(),
            _ => true,
        };
        if !sound {
            self.report(arg, format!("invalid {function} argument"));
        }
    }

    /// A template that is filled with a list of values, as `'%d'.format([1])`.
    fn check_template(&mut self, call: &'p Expr, template: &str, values: &[&'p Expr]) {
        let mut filled = 0;
        for piece in Template::parse(template) {
            let value = match piece {
                Piece::Text(_) => continue,
                Piece::Cut => None,
                _ => values.get(filled).copied(),
            };
            let (at, why) = match (value, piece.clause()) {
                (None, Ok(_)) => (call, out_of_range(filled)),
                (_, Err(why)) => (call, why),
                (Some(value), Ok(clause)) => match self.unfit(clause.verb, value) {
                    Some((at, why)) => (at, format!("error during formatting: {why}")),
                    None => {
                        filled += 1;
                        continue;
                    }
                },
            };
            self.report(at, why);
            return;
        }
        if values.len() > filled {
            let message = format!(
                "too many arguments supplied to string.format (expected {filled}, got {})",
                values.len()
            );
            self.report(call, message);
        }
    }

    /// The value that a clause cannot show, and why.
    fn unfit(&self, verb: char, value: &'p Expr) -> Option<(&'p Expr, String)> {
        let kind = self.bindings.resolve_fully(&self.type_of(value));
        let fits = match verb {
            _ if kind.is_dyn() => true,
            's' => !matches!(
                kind,
                T::Object(_) | T::Made(_) | T::Named(_) | T::Optional(_)
            ),
            'd' | 'o' => matches!(kind, T::Int | T::Uint),
            'f' | 'e' => matches!(kind, T::Double | T::Text),
            'b' => matches!(kind, T::Int | T::Uint | T::Bool),
            _ => matches!(kind, T::Int | T::Uint | T::Text | T::Bytes),
        };
        if !fits {
            return Some((value, wrong_for_clause(verb, &runtime_name(&kind))));
        }
        match (&value.kind, verb) {
            (Kind::List(items), 's') => items.iter().find_map(|item| self.unfit(verb, &item.value)),
            (Kind::Map(entries), 's') => entries.iter().find_map(|entry| {
                let key = self.unfit(verb, &entry.key);
                key.or_else(|| self.unfit(verb, &entry.value))
            }),
            _ => None,
        }
    }

    /// Lists and maps whose parts are of several types.
    fn check_mixture(&mut self, expr: &'p Expr) {
        let columns: [Vec<(&Expr, bool)>; 2] = match &expr.kind {
            Kind::List(items) => {
                let items = items.iter().map(|item| (&item.value, item.optional));
                [items.collect(), Vec::new()]
            }
            Kind::Map(entries) => [
                entries.iter().map(|entry| (&entry.key, false)).collect(),
                entries
                    .iter()
                    .map(|entry| (&entry.value, entry.optional))
                    .collect(),
            ],
            _ => return,
        };
        for column in columns {
            let mut first: Option<Type> = None;
            for (part, optional) in column {
                let mut kind = self.bindings.resolve_fully(&self.type_of(part));
                if let (true, T::Optional(inner)) = (optional, &kind) {
                    kind = (**inner).clone();
                }
                match &first {
                    Some(first) if *first != kind => {
                        self.mismatch(part, &first.clone(), &kind);
                        break;
                    }
                    Some(_) => {}
                    None => first = Some(kind),
                }
            }
        }
    }
}

/// The name of a type without what it holds.
fn runtime_name(kind: &Type) -> String {
    match kind {
        T::List(_) => "list".to_owned(),
        T::Map(_) => "map".to_owned(),
        T::Optional(_) => "optional_type".to_owned(),
        T::Kind(_) => "type".to_owned(),
        T::Null => "null_type".to_owned(),
        T::Duration => "google.protobuf.Duration".to_owned(),
        T::Timestamp => "google.protobuf.Timestamp".to_owned(),
        other => other.to_string(),
    }
}
