//! Validation of numbers: minimum, maximum, `multipleOf`.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{CheckResult, SchemaAt};
use crate::field::{BadValue, Error};
use crate::go_text::go_float;

/// Checks the bounds of a number.
///
/// A whole number is compared with bounds and factors cut to whole numbers, as
/// real servers do, unless the bound is none that the type can have.
pub(super) fn check(at: &SchemaAt<'_>, number: &Number) -> CheckResult {
    let constraints = &at.schema.constraints;
    let figure = Figure::from_number(number);
    let mut outcome = CheckResult::default();
    outcome.errors.extend(out_of_range(at, figure, "Checked"));
    if let Some(factor) = constraints.multiple_of {
        let misfit = out_of_range(at, Figure::Float(factor), "MultipleOf");
        let figure = if misfit.is_some() {
            figure.as_float()
        } else {
            figure
        };
        outcome.errors.extend(misfit);
        outcome
            .errors
            .extend(multiple_of(at, number, figure, factor));
    }
    let bounds = [
        (
            constraints.minimum,
            constraints.exclusive_minimum,
            Bound::Minimum,
        ),
        (
            constraints.maximum,
            constraints.exclusive_maximum,
            Bound::Maximum,
        ),
    ];
    for (limit, exclusive, bound) in bounds {
        let Some(limit) = limit else {
            continue;
        };
        let misfit = out_of_range(at, Figure::Float(limit), bound.name());
        let figure = if misfit.is_some() {
            figure.as_float()
        } else {
            figure
        };
        outcome.errors.extend(misfit);
        if !bound.holds(figure, limit, exclusive) {
            let rule = format!(
                "should be {} {}",
                bound.words(exclusive),
                shown(figure, limit)
            );
            outcome
                .errors
                .push(at.invalid(Value::Number(number.clone()), rule));
        }
    }
    outcome.matches += 1;
    outcome
}

#[derive(Clone, Copy)]
enum Figure {
    Whole(i64),
    Float(f64),
}

impl Figure {
    fn from_number(number: &Number) -> Self {
        match number.as_i64() {
            Some(whole) => Figure::Whole(whole),
            None => Figure::Float(number.as_f64().unwrap_or(f64::MAX)),
        }
    }

    fn as_float(self) -> Self {
        match self {
            Figure::Whole(whole) => Figure::Float(whole as f64),
            float => float,
        }
    }
}

/// A limit as it is shown beside a number: cut to a whole one beside a whole one.
fn shown(figure: Figure, limit: f64) -> String {
    match figure {
        Figure::Whole(_) => (limit as i64).to_string(),
        Figure::Float(_) => go_float(limit),
    }
}

#[derive(Clone, Copy)]
enum Bound {
    Minimum,
    Maximum,
}

impl Bound {
    fn name(self) -> &'static str {
        match self {
            Bound::Minimum => "Minimum boundary",
            Bound::Maximum => "Maximum boundary",
        }
    }

    fn words(self, exclusive: bool) -> &'static str {
        match (self, exclusive) {
            (Bound::Minimum, false) => "greater than or equal to",
            (Bound::Minimum, true) => "greater than",
            (Bound::Maximum, false) => "less than or equal to",
            (Bound::Maximum, true) => "less than",
        }
    }

    fn holds(self, figure: Figure, limit: f64, exclusive: bool) -> bool {
        let order = match figure {
            Figure::Whole(whole) => Some(whole.cmp(&(limit as i64))),
            Figure::Float(float) => float.partial_cmp(&limit),
        };
        let wanted = match self {
            Bound::Minimum => Ordering::Greater,
            Bound::Maximum => Ordering::Less,
        };
        order == Some(wanted) || (!exclusive && order == Some(Ordering::Equal))
    }
}

fn multiple_of(at: &SchemaAt<'_>, number: &Number, figure: Figure, factor: f64) -> Option<Error> {
    let (positive, fits) = match figure {
        Figure::Whole(number) => {
            let factor = factor as i64;
            (factor > 0, factor > 0 && number % factor == 0)
        }
        Figure::Float(number) => {
            let times = if factor < 1.0 {
                1.0 / factor * number
            } else {
                number / factor
            };
            (factor > 0.0, is_whole(times))
        }
    };
    let shown = shown(figure, factor);
    if !positive {
        let text = format!(
            "factor MultipleOf declared for {} must be positive: {shown}",
            at.name
        );
        return Some(Error::invalid(&at.field(), BadValue::Raw(shown), text));
    }
    let rule = format!("should be a multiple of {shown}");
    (!fits).then(|| at.invalid(Value::Number(number.clone()), rule))
}

/// `Checked value must be of type integer …`, if a number does not fit the schema's type and format.
fn out_of_range(at: &SchemaAt<'_>, figure: Figure, what: &str) -> Option<Error> {
    // Of several types none has a range of its own.
    if at.schema.int_or_string {
        return None;
    }
    let type_name = at.schema.types().first().copied().unwrap_or_default();
    let format = at.schema.constraints.format.as_str();
    let whole = match figure {
        Figure::Whole(whole) => Some(i128::from(whole)),
        Figure::Float(float) if float.fract() == 0.0 && float.abs() < 1e30 => Some(float as i128),
        Figure::Float(_) => None,
    };
    let fits = match (type_name, format) {
        ("integer", "int32") => whole.is_some_and(|n| i32::try_from(n).is_ok()),
        ("integer", "uint32") => whole.is_some_and(|n| u32::try_from(n).is_ok()),
        ("integer", "uint64") => whole.is_some_and(|n| u64::try_from(n).is_ok()),
        ("integer", _) => whole.is_some_and(|n| i64::try_from(n).is_ok()),
        (_, "float" | "float32") => match figure {
            Figure::Whole(_) => true,
            Figure::Float(float) => float.abs() <= f64::from(f32::MAX),
        },
        _ => true,
    };
    if fits {
        return None;
    }
    let kind = match format {
        "" => format!("{type_name} (default format)"),
        format => format!("{type_name} with format {format}"),
    };
    let text = format!("{what} value must be of type {kind} in {}", at.name);
    Some(at.about_all(text))
}

/// Whether a float is a whole number that JSON can hold exactly.
pub(super) fn is_whole(value: f64) -> bool {
    value.is_finite() && value.abs() <= 9_007_199_254_740_991.0 && value.fract().abs() < 1e-9
}
