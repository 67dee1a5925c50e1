//! Amounts of resources: `100m` of a cpu, `2Gi` of memory.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

const NANOS: i128 = 1_000_000_000;

/// The largest amount, in billionths: a whole one in any unit.
const LARGEST: i128 = 10i128.pow(38);

/// An amount, exact to a billionth.
///
/// Reads and prints as Kubernetes does: `1000m` becomes `1`, `1024Ki` becomes
/// `1Mi`, and an amount keeps the family of its suffix through sums. Two
/// amounts are equal if they have the same value, however they were written.
///
/// Amounts beyond 10^29 are taken for the largest one.
#[derive(Clone, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
    /// The text it was read from, where Kubernetes shows that again.
    text: Option<Box<str>>,
}

/// The family of suffixes an amount is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    Decimal,
    /// `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`.
    Binary,
    /// `e3`, `e6`, …
    Exponent,
}

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It has not the form of an amount.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// Its suffix is not a known one.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// It has no digits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity {
        nanos: 0,
        format: Format::Decimal,
        text: None,
    };

    /// A whole amount.
    pub fn from_units(units: i64, format: Format) -> Self {
        Quantity {
            nanos: i128::from(units) * NANOS,
            format,
            text: None,
        }
    }

    /// An amount in thousandths.
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Quantity {
            nanos: i128::from(milli) * (NANOS / 1000),
            format,
            text: None,
        }
    }

    /// The amount rounded away from zero to a whole one; capped at what an `i64` holds.
    pub fn units(&self) -> i64 {
        clamp(round_away(self.nanos, NANOS))
    }

    /// The amount in thousandths, rounded away from zero; capped at what an `i64` holds.
    pub fn milli(&self) -> i64 {
        clamp(round_away(self.nanos, NANOS / 1000))
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The amount if it is whole and an `i64` holds it.
    pub fn as_integer(&self) -> Option<i64> {
        if self.nanos % NANOS != 0 {
            return None;
        }
        i64::try_from(self.nanos / NANOS).ok()
    }

    /// The amount as nearly as a float has it.
    pub fn as_float(&self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// The family of its suffix.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Rounds away from zero to a multiple of a thousandth; if that changes it, how it was
    /// written is forgotten.
    ///
    /// Kubernetes does so with the amounts of most lists of resources.
    pub fn round_up_to_milli(&mut self) {
        let milli = NANOS / 1000;
        let rounded = round_away(self.nanos, milli) * milli;
        if rounded != self.nanos {
            self.nanos = rounded;
            self.text = None;
        }
    }

    /// Adds an amount. A zero takes over the other's suffix family.
    pub fn add(&mut self, other: &Quantity) {
        self.change(other, other.nanos);
    }

    /// Takes an amount away. A zero takes over the other's suffix family.
    pub fn sub(&mut self, other: &Quantity) {
        self.change(other, -other.nanos);
    }

    fn change(&mut self, other: &Quantity, nanos: i128) {
        if self.is_zero() {
            self.format = other.format;
        }
        let sum = self.nanos.saturating_add(nanos);
        self.nanos = sum.clamp(-LARGEST, LARGEST);
        self.text = None;
    }

    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let whole = self.nanos / NANOS;
        let binary = self.format == Format::Binary
            && self.nanos % NANOS == 0
            && whole.unsigned_abs() >= 1024;
        if binary {
            let (mut amount, mut suffix) = (whole, 0);
            while amount % 1024 == 0 && suffix < BINARY.len() - 1 {
                amount /= 1024;
                suffix += 1;
            }
            return format!("{amount}{}", BINARY[suffix]);
        }
        let (mut amount, mut exponent) = (self.nanos, -9);
        let last = if self.format == Format::Exponent {
            i32::MAX
        } else {
            18
        };
        while amount % 1000 == 0 && exponent < last {
            amount /= 1000;
            exponent += 3;
        }
        if self.format == Format::Exponent {
            return if exponent == 0 {
                amount.to_string()
            } else {
                format!("{amount}e{exponent}")
            };
        }
        let suffix = DECIMAL[((exponent + 9) / 3) as usize];
        format!("{amount}{suffix}")
    }
}

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn round_away(value: i128, by: i128) -> i128 {
    value / by + (value % by).signum()
}

fn clamp(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::parse(text)?;
        let suffix = Suffix::parse(parts.suffix).ok_or(QuantityError::Suffix)?;
        let mut format = suffix.format;
        let mut nanos = parts.nanos(&suffix);
        if parts.needs_big_numbers(&suffix) {
            if !parts.has_digits {
                return Err(QuantityError::Numeric);
            }
            if format == Format::Binary {
                nanos = nanos.min(i128::from(i64::MAX) * NANOS);
                // A fraction of a byte has no binary suffix.
                if (1..NANOS).contains(&nanos) {
                    format = Format::Decimal;
                }
            }
        }
        let text = parts.is_shown_again(&suffix).then(|| text.into());
        let nanos = if parts.negative { -nanos } else { nanos };
        Ok(Quantity {
            nanos,
            format,
            text,
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// A text taken apart: sign, digits before and after the point, suffix.
struct Parts<'a> {
    negative: bool,
    has_digits: bool,
    /// Without leading zeros; `0` if none is left.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn parse(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let has_digits = !(whole.is_empty() && fraction.is_empty());
        let whole = Some(whole.trim_start_matches('0'))
            .filter(|w| !w.is_empty())
            .unwrap_or("0");
        Ok(Parts {
            negative,
            has_digits,
            whole,
            fraction,
            suffix,
        })
    }

    /// All digits; those of an amount without a fraction need no copy.
    fn digits(&self) -> Cow<'a, str> {
        match self.fraction {
            "" => Cow::Borrowed(self.whole),
            fraction => Cow::Owned([self.whole, fraction].concat()),
        }
    }

    /// The size in billionths; what is smaller than one but not nothing counts as one.
    fn nanos(&self, suffix: &Suffix) -> i128 {
        let exponent = self.exponent(suffix);
        let digits = self.digits();
        let digits = digits.trim_start_matches('0');
        // Zeros at the end are part of the exponent, so that many of them are no burden.
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return 0;
        }
        let exponent = exponent.saturating_add((digits.len() - significant.len()) as i64);
        let Ok(mantissa) = significant.parse::<i128>() else {
            return self.of_many_digits(significant, exponent, suffix);
        };
        scale(mantissa, exponent.saturating_add(9), suffix.binary_exponent)
    }

    /// More digits than a number holds: those beyond a billionth only round up.
    fn of_many_digits(&self, digits: &str, exponent: i64, suffix: &Suffix) -> i128 {
        let kept = 36.min(digits.len());
        let cut = (digits.len() - kept) as i64;
        let mantissa = digits[..kept].parse::<i128>().unwrap_or(i128::MAX);
        let size = scale(
            mantissa,
            exponent.saturating_add(9).saturating_add(cut),
            suffix.binary_exponent,
        );
        size.saturating_add(1).min(LARGEST)
    }

    /// Whether Kubernetes reads it with big numbers rather than with one of 64 bits.
    fn needs_big_numbers(&self, suffix: &Suffix) -> bool {
        match suffix.format {
            Format::Decimal | Format::Exponent => {
                self.whole.len() + self.fraction.len() > 18 || self.exponent(suffix) < -9
            }
            Format::Binary => {
                let digits_of_suffix = i64::from(suffix.binary_exponent) * 3 / 10;
                !self.fraction.is_empty() || (self.whole.len() as i64) + digits_of_suffix > 14
            }
        }
    }

    /// Whether Kubernetes takes the text for canonical and shows it again.
    fn is_shown_again(&self, suffix: &Suffix) -> bool {
        if self.needs_big_numbers(suffix) {
            return false;
        }
        let digits = self.digits();
        match suffix.format {
            Format::Decimal | Format::Exponent => {
                self.exponent(suffix) % 3 == 0
                    && !digits.ends_with("000")
                    && !digits.starts_with('0')
            }
            Format::Binary => digits.parse::<i64>().is_ok_and(|value| value & 7 != 0),
        }
    }

    /// The power of ten that the digits taken together are multiplied with.
    fn exponent(&self, suffix: &Suffix) -> i64 {
        suffix.decimal_exponent - self.fraction.len() as i64
    }
}

/// `mantissa * 10^exponent * 2^binary`, rounded up, capped.
fn scale(mantissa: i128, exponent: i64, binary: u32) -> i128 {
    let mantissa = mantissa.saturating_mul(1 << binary);
    match u32::try_from(exponent) {
        Ok(exponent) => 10i128
            .checked_pow(exponent)
            .map_or(LARGEST, |p| mantissa.saturating_mul(p).min(LARGEST)),
        Err(_) => {
            let divisor = u32::try_from(-exponent)
                .ok()
                .and_then(|exponent| 10i128.checked_pow(exponent));
            divisor.map_or(1, |divisor| round_away(mantissa, divisor).min(LARGEST))
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

struct Suffix {
    format: Format,
    decimal_exponent: i64,
    binary_exponent: u32,
}

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        if let Some(place) = DECIMAL.iter().position(|suffix| *suffix == text) {
            let decimal_exponent = place as i64 * 3 - 9;
            return Some(Suffix {
                format: Format::Decimal,
                decimal_exponent,
                binary_exponent: 0,
            });
        }
        if let Some(place) = BINARY.iter().position(|suffix| *suffix == text) {
            let binary_exponent = place as u32 * 10;
            return Some(Suffix {
                format: Format::Binary,
                decimal_exponent: 0,
                binary_exponent,
            });
        }
        let exponent = text.strip_prefix(['e', 'E'])?;
        let decimal_exponent = i64::from(exponent.parse::<i32>().ok()?);
        Some(Suffix {
            format: Format::Exponent,
            decimal_exponent,
            binary_exponent: 0,
        })
    }
}

#[cfg(test)]
mod tests;
