//! Values that are a number or a share: `maxSurge: 1`, `maxSurge: 25%`.

use serde_json::Value;

use crate::go_text::go_quote;

/// Which way a share of something is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up.
    Up,
    /// Down.
    Down,
}

/// Why a value is neither a number nor a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value for IntOrString: {0}")]
pub struct ScaleError(String);

/// The number itself, or the percentage of `total` that a text like `25%` is.
pub fn scaled_value(value: &Value, total: i64, rounding: Rounding) -> Result<i64, ScaleError> {
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    let Some(text) = value.as_str() else {
        return Err(ScaleError(
            "invalid type: neither int nor percentage".to_owned(),
        ));
    };
    let Some(percent) = text.strip_suffix('%') else {
        return Err(ScaleError(
            "invalid type: string is not a percentage".to_owned(),
        ));
    };
    let percent: i64 = percent.parse().map_err(|_| {
        ScaleError(format!(
            "invalid value {}: strconv.Atoi: parsing {}: invalid syntax",
            go_quote(text),
            go_quote(percent)
        ))
    })?;
    let hundredths = i128::from(percent) * i128::from(total);
    let share = match rounding {
        Rounding::Down => hundredths.div_euclid(100),
        Rounding::Up => -(-hundredths).div_euclid(100),
    };
    Ok(share.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shares_round_as_asked() {
        let cases = [
            (json!(3), 10, Rounding::Up, 3),
            (json!("25%"), 10, Rounding::Up, 3),
            (json!("25%"), 10, Rounding::Down, 2),
            (json!("0%"), 10, Rounding::Up, 0),
            (json!("100%"), 7, Rounding::Down, 7),
            (json!("-25%"), 10, Rounding::Up, -2),
        ];
        for (value, total, rounding, expected) in cases {
            assert_eq!(
                scaled_value(&value, total, rounding),
                Ok(expected),
                "{value}"
            );
        }
    }

    #[test]
    fn other_values_are_refused() {
        let refused = |value: Value| {
            scaled_value(&value, 1, Rounding::Up)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(json!("25")),
            "invalid value for IntOrString: invalid type: string is not a percentage"
        );
        assert_eq!(
            refused(json!("x%")),
            "invalid value for IntOrString: invalid value \"x%\": strconv.Atoi: parsing \"x\": invalid syntax"
        );
        assert_eq!(
            refused(json!(true)),
            "invalid value for IntOrString: invalid type: neither int nor percentage"
        );
    }
}
