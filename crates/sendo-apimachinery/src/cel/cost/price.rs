//! What a call can cost, from the sizes that its arguments can have.

use super::size::{self, Cost, Size};
use super::{
    AUTHORIZATION_CHECK, Estimator, ITEMS, NEW_LIST, PER_CHARACTER, PER_PATTERN_CHARACTER, Price,
    extended, selector,
};
use crate::cel::check::Resolved;
use crate::cel::functions;
use crate::cel::syntax::{Expr, Kind, Literal};
use crate::cel::types::Type;

/// The longest pattern of a named format.
const LONGEST_FORMAT_PATTERN: f64 = 128.0;
const LONGEST_FORMAT: u64 = 64;

impl<'p> Estimator<'p, '_> {
    /// The price of a call with its arguments, and the size of its result where it is known.
    pub(super) fn price(
        &mut self,
        expr: &'p Expr,
        resolved: Resolved,
        target: Option<&'p Expr>,
        args: &'p [Expr],
        costs: &[Cost],
    ) -> (Cost, Option<Size>) {
        let arguments = costs.iter().fold(Cost::fixed(0), |sum, cost| sum + *cost);
        let all: Vec<&'p Expr> = target.into_iter().chain(args).collect();
        let sizes: Vec<Size> = all.iter().map(|arg| self.size_or_unknown(arg)).collect();
        let types: Vec<&Type> = all.iter().map(|arg| self.checked.type_of(arg)).collect();
        let unit = Cost::fixed(1);
        let listed =
            |size: Size, factor: f64| (size.scale(factor) + Cost::fixed(1 + NEW_LIST), Some(size));
        let (own, size) = match resolved.function.price {
            Price::Free => (Cost::fixed(0), None),
            Price::Unit | Price::Index | Price::Dyn => (unit, self.passed_on(resolved, expr, args)),
            Price::Logic => {
                let max = costs[0] + costs[1];
                return (
                    Cost {
                        min: costs[0].min,
                        max: max.max,
                    },
                    None,
                );
            }
            Price::Conditional => {
                if let (Some(one), Some(other)) =
                    (self.entries_of(&args[1]), self.entries_of(&args[2]))
                {
                    self.entries.insert(expr.id, one.union(other));
                }
                let cost = costs[0] + costs[1].union(costs[2]);
                return (cost, Some(sizes[1].union(sizes[2])));
            }
            Price::Equality => (equality(&types, &sizes), None),
            Price::Comparison => {
                let sized = |kind: &Type| matches!(kind, Type::Text | Type::Bytes);
                let open = |kind: &Type| matches!(kind, Type::Dyn);
                if types.iter().all(|kind| sized(kind)) {
                    (least(&sizes), None)
                } else if types.iter().all(|kind| sized(kind) || open(kind)) {
                    (least(&sizes).union(unit), None)
                } else {
                    (unit, None)
                }
            }
            Price::Add => self.price_of_addition(expr, args, &types, &sizes),
            Price::In => match types[1] {
                Type::Map(_) => (unit, None),
                Type::Dyn => (sizes[1].scale(1.0).union(unit), None),
                _ => (sizes[1].scale(1.0), None),
            },
            Price::Transcode => {
                // What is only known when it is there may be either.
                let (cost, open) = match types[0] {
                    Type::Dyn => (sizes[0].scale(PER_CHARACTER).union(unit), true),
                    _ => (sizes[0].scale(PER_CHARACTER), false),
                };
                match resolved.function.name {
                    "bytes" if open || matches!(types[0], Type::Text) => (
                        cost,
                        Some(Size {
                            min: sizes[0].min,
                            max: sizes[0].max.saturating_mul(4),
                        }),
                    ),
                    "string" if open || matches!(types[0], Type::Bytes) => (
                        cost,
                        Some(Size {
                            min: sizes[0].min / 4,
                            max: sizes[0].max,
                        }),
                    ),
                    _ => (unit, None),
                }
            }
            Price::Contains => {
                let (text, part) = (sizes[0].scale(PER_CHARACTER), sizes[1].scale(PER_CHARACTER));
                (text.times(part), None)
            }
            Price::Ends => (sizes[1].scale(PER_CHARACTER), None),
            Price::Matches if target.is_none() => (unit, None),
            Price::Matches | Price::Find => {
                let text = sizes[0].plus(Size::fixed(1)).scale(PER_CHARACTER);
                let cost = text.times(sizes[1].scale(PER_PATTERN_CHARACTER));
                let size = Size {
                    min: 0,
                    max: sizes[0].max,
                };
                (
                    cost,
                    (resolved.function.price == Price::Find).then_some(size),
                )
            }
            Price::ListScan => match types[0] {
                Type::List(item) => {
                    let mut each = unit;
                    if matches!(**item, Type::Text | Type::Bytes) {
                        each = each + self.item_size(all[0]).scale(PER_CHARACTER);
                    }
                    (sizes[0].times(each), None)
                }
                _ => (sizes[0].scale(PER_CHARACTER), None),
            },
            Price::Rewrite => (sizes[0].scale(PER_CHARACTER), Some(sizes[0])),
            // An address range's own address is there without reading anything.
            Price::Scan(_) if matches!(types[0], Type::Named(_)) => (unit, None),
            Price::Scan(times) => (sizes[0].scale(times * PER_CHARACTER), None),
            Price::Replace => {
                let size = size::replaced(sizes[0], sizes[1], sizes[2]);
                (sizes[0].scale(2.0 * PER_CHARACTER), Some(size))
            }
            Price::Split => {
                let most = match args.get(1).map(|arg| &arg.kind) {
                    Some(Kind::Literal(Literal::Int(most))) => *most as u64,
                    _ => sizes[0].max,
                };
                let size = Size { min: 0, max: most };
                (sizes[0].scale(2.0 * PER_CHARACTER), Some(size))
            }
            Price::Join => {
                let mut size = sizes[0].multiplied(self.item_size(all[0]));
                if let Some(separator) = sizes.get(1) {
                    let between = Size {
                        min: sizes[0].min.saturating_sub(1),
                        max: sizes[0].max.saturating_sub(1),
                    };
                    size = size.plus(separator.multiplied(between));
                }
                (size.scale(PER_CHARACTER), Some(size))
            }
            Price::Format => (sizes[0].scale(PER_CHARACTER), None),
            Price::Quote => {
                let size = Size {
                    min: sizes[0].min.saturating_add(2),
                    max: sizes[0].max.saturating_mul(2).saturating_add(2),
                };
                (sizes[0].scale(PER_CHARACTER), Some(size))
            }
            Price::Slice => {
                let start = whole(&args[0]).unwrap_or(0);
                let end = whole(&args[1]).unwrap_or(sizes[0].max);
                listed(Size::fixed(end.wrapping_sub(start)), 1.0)
            }
            Price::Flatten => {
                let depth = args.first().map_or(1, |arg| whole(arg).unwrap_or(u64::MAX));
                listed(sizes[0], depth as f64)
            }
            Price::Sort | Price::SortBy | Price::Distinct => {
                let keys = usize::from(resolved.function.price == Price::SortBy);
                let of_text = matches!(types[keys], Type::List(item) if matches!(**item, Type::Text | Type::Bytes));
                let factor = if of_text && resolved.function.price != Price::Distinct {
                    2.0 + PER_CHARACTER
                } else {
                    2.0
                };
                listed(sizes[keys].multiplied(sizes[keys]), factor)
            }
            Price::Range => listed(Size::fixed(whole(&args[0]).unwrap_or(u64::MAX)), 1.0),
            Price::Reverse => listed(sizes[0], 1.0),
            Price::Sets(factor) => (sizes[0].multiplied(sizes[1]).scale(factor) + unit, None),
            Price::ContainsIp | Price::ContainsCidr => {
                let address = Size { min: 4, max: 16 };
                let mut cost = address.plus(address).scale(PER_CHARACTER);
                if resolved.function.price == Price::ContainsCidr {
                    cost = cost + address.scale(PER_CHARACTER) + unit;
                }
                if !matches!(types[1], Type::Named(_)) {
                    cost = cost + sizes[1].scale(PER_CHARACTER);
                }
                (cost, None)
            }
            Price::AuthorizationCheck => (Cost::fixed(AUTHORIZATION_CHECK), None),
            Price::Selector => (selector(sizes[1]), None),
            Price::Validate => {
                let factor = LONGEST_FORMAT_PATTERN * PER_PATTERN_CHARACTER;
                (sizes[1].scale(PER_CHARACTER).scale(factor), None)
            }
        };
        (own + arguments, size)
    }

    /// The size that the schema declares for items of a list; unbounded if the list is not of the object.
    fn item_size(&self, list: &Expr) -> Size {
        let way = self.way(list);
        if way.is_empty() {
            return Size::UNKNOWN;
        }
        self.declared_size(&extended(way, ITEMS))
            .unwrap_or(Size::UNKNOWN)
    }

    fn price_of_addition(
        &mut self,
        expr: &'p Expr,
        args: &'p [Expr],
        types: &[&Type],
        sizes: &[Size],
    ) -> (Cost, Option<Size>) {
        let total = sizes[0].plus(sizes[1]);
        let sized = types
            .iter()
            .any(|kind| matches!(kind, Type::Text | Type::Bytes | Type::List(_)));
        let open = types.iter().all(|kind| matches!(kind, Type::Dyn));
        if (sized || open)
            && let (Some(one), Some(other)) = (self.entries_of(&args[0]), self.entries_of(&args[1]))
        {
            self.entries.insert(expr.id, one.union(other));
        }
        if types.iter().any(|kind| matches!(kind, Type::List(_))) {
            (Cost::fixed(1), Some(total))
        } else if sized {
            (total.scale(PER_CHARACTER), Some(total))
        } else if open {
            (
                total.scale(PER_CHARACTER).union(Cost::fixed(1)),
                Some(total),
            )
        } else {
            (Cost::fixed(1), None)
        }
    }
}

/// An integer literal of the expression; negative ones count as none.
fn whole(expr: &Expr) -> Option<u64> {
    match expr.kind {
        Kind::Literal(Literal::Int(number)) => Some(u64::try_from(number).unwrap_or(0)),
        _ => None,
    }
}

/// Comparing two values looks at no more than the smaller.
fn least(sizes: &[Size]) -> Cost {
    let max = sizes[0].max.min(sizes[1].max);
    Cost {
        min: u64::from(max > 0),
        max,
    }
    .scale(PER_CHARACTER)
}

fn equality(types: &[&Type], sizes: &[Size]) -> Cost {
    match (types[0], types[1]) {
        (Type::Named(one), Type::Named(other)) if one == other => match *one {
            functions::FORMAT => Cost {
                min: 1,
                max: LONGEST_FORMAT,
            }
            .scale(PER_CHARACTER),
            functions::URL => Cost {
                min: 1,
                max: sizes[1].max,
            }
            .scale(PER_CHARACTER),
            _ => Cost::fixed(1),
        },
        _ => least(sizes),
    }
}
