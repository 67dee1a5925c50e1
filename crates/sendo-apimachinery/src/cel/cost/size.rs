//! Ranges of sizes and costs, with arithmetic that stops at the largest number.

use std::ops::Add;

/// How large a value can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// What something can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    pub(super) const UNKNOWN: Size = Size {
        min: 0,
        max: u64::MAX,
    };
    /// The union of no sizes.
    pub(super) const NONE: Size = Size {
        min: u64::MAX,
        max: 0,
    };

    pub(super) fn fixed(size: u64) -> Self {
        Size {
            min: size,
            max: size,
        }
    }

    pub(super) fn union(self, other: Size) -> Self {
        Size {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    pub(super) fn plus(self, other: Size) -> Self {
        Size {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn multiplied(self, other: Size) -> Self {
        Size {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// The cost of something for each element.
    pub(super) fn times(self, each: Cost) -> Cost {
        Cost {
            min: self.min.saturating_mul(each.min),
            max: self.max.saturating_mul(each.max),
        }
    }

    pub(super) fn scale(self, factor: f64) -> Cost {
        Cost {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }
}

impl Cost {
    pub(super) fn fixed(cost: u64) -> Self {
        Cost {
            min: cost,
            max: cost,
        }
    }

    pub(super) fn union(self, other: Cost) -> Self {
        Cost {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    pub(super) fn times(self, other: Cost) -> Self {
        Cost {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    pub(super) fn scale(self, factor: f64) -> Self {
        Cost {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }
}

/// A number times a factor, rounded up. Conversion to an integer stops at the largest.
fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

/// How large a text can become when parts of it are replaced.
pub(super) fn replaced(text: Size, part: Size, by: Size) -> Size {
    let (mut count, mut kept) = (Size::fixed(0), Size::fixed(0));
    if part.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if by.max <= part.min {
        kept.max = text.max;
    } else {
        count.max = (text.max as f64 / part.min as f64).ceil() as u64;
    }
    if part.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if part.max <= by.min {
        kept.min = text.min;
    } else {
        count.min = (text.min as f64 / part.max as f64).ceil() as u64;
    }
    count.multiplied(by).plus(kept)
}
