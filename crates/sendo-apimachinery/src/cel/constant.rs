//! Parts of an expression that are known before it runs, and fail already.

use super::CALL_LIMIT;
use super::check::Checked;
use super::eval::{Fault, Machine, Result};
use super::syntax::{Expr, Kind, Literal};
use crate::structural::Pattern;

/// The functions that make a value of another type.
const CONVERSIONS: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Runs conversions of literals, and reads patterns that are written out.
pub(super) fn check(expr: &Expr, checked: &Checked) -> Result<()> {
    let mut result = Ok(());
    expr.each_child(&mut |child| {
        if result.is_ok() {
            result = check(child, checked);
        }
    });
    result?;
    match &expr.kind {
        Kind::Call { function, args, .. } if matches!(function.as_str(), "find" | "findAll") => {
            match args.first().map(|arg| &arg.kind) {
                Some(Kind::Literal(Literal::Text(text))) => match Pattern::new(text) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Fault::new(error.to_string())),
                },
                _ => Ok(()),
            }
        }
        _ if is_conversion(expr) && is_constant(expr) => {
            Machine::new(checked, &[], CALL_LIMIT).eval(expr)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_conversion(expr: &Expr) -> bool {
    matches!(&expr.kind, Kind::Call { function, target: None, args }
        if args.len() == 1 && CONVERSIONS.contains(&function.as_str()))
}

fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Literal(_) => true,
        Kind::Call { args, .. } => is_conversion(expr) && args.iter().all(is_constant),
        Kind::List(items) => items
            .iter()
            .all(|item| !item.optional && is_constant(&item.value)),
        Kind::Map(entries) => entries
            .iter()
            .all(|entry| !entry.optional && is_constant(&entry.key) && is_constant(&entry.value)),
        _ => false,
    }
}
