//! What expressions cost: a bound before they run, and the price of each step while they do.
//!
//! Units, factors and rules are those of cel-go and of Kubernetes' own functions,
//! so that an expression is too expensive here exactly when it is there.

mod actual;
mod price;
mod size;

use std::collections::BTreeMap;

pub(super) use actual::{actual, actual_size};
use size::{Cost, Size};

use super::Variables;
use super::check::{Checked, Resolved, qualified_name};
use super::functions::type_named;
use super::syntax::{Expr, Fold, Kind, Literal, Parsed};
use super::types::Type;

/// What a character of a text costs to look at.
const PER_CHARACTER: f64 = 0.1;
/// What a character of a pattern multiplies the cost of its text by.
const PER_PATTERN_CHARACTER: f64 = 0.25;
pub(super) const NEW_LIST: u64 = 10;
pub(super) const NEW_MAP: u64 = 30;
pub(super) const NEW_OBJECT: u64 = 40;

/// How a call is priced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Price {
    /// Nothing beside its arguments.
    Free,
    Unit,
    Logic,
    Conditional,
    Equality,
    Comparison,
    Add,
    In,
    Index,
    /// Nothing but a name for a value of another type.
    Dyn,
    /// Texts to bytes and back; other conversions are a unit.
    Transcode,
    Contains,
    /// A text's beginning or end.
    Ends,
    Matches,
    Find,
    /// Each item, or character, once.
    ListScan,
    /// A text once, with a text of its size as the result.
    Rewrite,
    /// A text some times.
    Scan(f64),
    Replace,
    Split,
    Join,
    Format,
    Quote,
    Slice,
    Flatten,
    Sort,
    SortBy,
    Range,
    Reverse,
    Distinct,
    Sets(f64),
    ContainsIp,
    ContainsCidr,
    Validate,
    /// A question to the authoriser.
    AuthorizationCheck,
    /// A selector that is read.
    Selector,
}

/// What a question to the authoriser costs: an expression may ask two.
const AUTHORIZATION_CHECK: u64 = 350_000;
/// How many requirements a selector may have, and what each costs.
const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
const PER_REQUIREMENT: f64 = (NEW_LIST + NEW_OBJECT) as f64;

/// What it costs to read a selector of a size.
fn selector(text: Size) -> Cost {
    let requirements = text.scale(REQUIREMENTS_PER_CHARACTER);
    Cost::fixed(NEW_LIST) + text.scale(PER_CHARACTER) + requirements.scale(PER_REQUIREMENT)
}

/// The most an expression can cost.
pub(super) fn estimate(parsed: &Parsed, checked: &Checked, variables: &Variables<'_>) -> u64 {
    let mut estimator = Estimator {
        checked,
        variables,
        locals: Vec::new(),
        paths: BTreeMap::new(),
        sizes: BTreeMap::new(),
        entries: BTreeMap::new(),
    };
    estimator.cost(&parsed.root).max
}

/// The way to a value from a variable: the names of fields, and marks for the rest.
type ExprPath = Vec<String>;

const ITEMS: &str = "@items";
const VALUES: &str = "@values";
const KEYS: &str = "@keys";
const INDICES: &str = "@indices";

/// Bounds on what a list or map holds.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn union(self, other: Entries) -> Entries {
        Entries {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

struct Local<'p> {
    name: &'p str,
    way: ExprPath,
    size: Option<Size>,
    entries: Option<Entries>,
}

struct Estimator<'p, 'v> {
    checked: &'p Checked,
    variables: &'v Variables<'v>,
    locals: Vec<Local<'p>>,
    paths: BTreeMap<u32, ExprPath>,
    sizes: BTreeMap<u32, Size>,
    entries: BTreeMap<u32, Entries>,
}

impl<'p> Estimator<'p, '_> {
    fn local(&self, name: &str) -> Option<&Local<'p>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn cost(&mut self, expr: &'p Expr) -> Cost {
        match &expr.kind {
            Kind::Literal(_) => Cost::fixed(0),
            Kind::Ident(name) => {
                let way = match self.local(name) {
                    Some(local) => local.way.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(expr.id, way);
                Cost::fixed(1)
            }
            Kind::Select {
                operand,
                field,
                test,
            } => {
                if let Some(name) = self.checked.qualified(expr) {
                    self.paths.insert(expr.id, vec![name]);
                    return Cost::fixed(1);
                }
                if let Type::Kind(Some(_)) = self.checked.type_of(expr)
                    && let Some(name) = qualified_name(expr)
                    && type_named(&name).is_some()
                {
                    self.paths.insert(expr.id, vec![name]);
                    return Cost::fixed(1);
                }
                let sum = self.cost(operand);
                if *test {
                    return sum;
                }
                let way = self.way(operand);
                self.paths.insert(expr.id, extended(way, field));
                match self.checked.type_of(operand) {
                    Type::Map(_) | Type::Object(_) | Type::Made(_) | Type::Named(_) => {
                        sum + Cost::fixed(1)
                    }
                    _ => sum,
                }
            }
            Kind::Call { target, args, .. } => self.cost_call(expr, target.as_deref(), args),
            Kind::List(items) => {
                let mut sum = Cost::fixed(NEW_LIST);
                let mut value = Size::NONE;
                for item in items {
                    sum = sum + self.cost(&item.value);
                    value = value.union(self.size_or_unknown(&item.value));
                }
                let entries = Entries {
                    is_list: true,
                    key: Size::fixed(1),
                    value: if items.is_empty() {
                        Size::fixed(0)
                    } else {
                        value
                    },
                };
                self.entries.insert(expr.id, entries);
                sum
            }
            Kind::Map(entries) => {
                let mut sum = Cost::fixed(NEW_MAP);
                let (mut key, mut value) = (Size::NONE, Size::NONE);
                for entry in entries {
                    sum = sum + self.cost(&entry.key) + self.cost(&entry.value);
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                if entries.is_empty() {
                    (key, value) = (Size::fixed(0), Size::fixed(0));
                }
                let entries = Entries {
                    is_list: false,
                    key,
                    value,
                };
                self.entries.insert(expr.id, entries);
                sum
            }
            Kind::Struct { fields, .. } => {
                fields.iter().fold(Cost::fixed(NEW_OBJECT), |sum, field| {
                    sum + self.cost(&field.value)
                })
            }
            Kind::Fold(fold) if fold.is_binding() => self.cost_binding(expr, fold),
            Kind::Fold(fold) => self.cost_fold(expr, fold),
        }
    }

    fn cost_binding(&mut self, expr: &'p Expr, fold: &'p Fold) -> Cost {
        let mut sum = self.cost(&fold.range) + self.cost(&fold.init);
        let local = Local {
            name: &fold.accumulator,
            way: self.way(&fold.init),
            size: self.size(&fold.init),
            entries: self.entries_of(&fold.init),
        };
        self.locals.push(local);
        sum = sum + self.cost(&fold.result);
        let (size, entries) = (self.size(&fold.result), self.entries_of(&fold.result));
        self.locals.pop();
        self.note(expr, size, entries);
        sum
    }

    fn cost_fold(&mut self, expr: &'p Expr, fold: &'p Fold) -> Cost {
        let mut sum = self.cost(&fold.range) + self.cost(&fold.init);
        let accumulator = Local {
            name: &fold.accumulator,
            way: self.way(&fold.init),
            size: self.size(&fold.init),
            entries: self.entries_of(&fold.init),
        };
        let outside = self.locals.len();
        self.locals.push(accumulator);
        self.push_loop_variables(fold);
        let each = self.cost(&fold.condition) + self.cost(&fold.step);
        let step_entries = self.entries_of(&fold.step);
        self.locals.truncate(outside + 1);
        sum = sum + self.cost(&fold.result);
        self.locals.truncate(outside);
        let count = self.size_or_unknown(&fold.range);
        sum = sum + count.times(each);
        match &fold.init.kind {
            Kind::Literal(_) => {
                let size = self.size(&fold.init);
                self.note(expr, size, None);
            }
            Kind::List(_) | Kind::Map(_) => self.note(expr, Some(count), step_entries),
            _ => {}
        }
        sum
    }

    fn push_loop_variables(&mut self, fold: &'p Fold) {
        let entries = self.entries_of(&fold.range);
        let way = self.way(&fold.range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(&fold.range), Type::List(_)),
        };
        let key = entries.map(|entries| entries.key);
        let value = entries.map(|entries| entries.value);
        let mut push = |name: &'p str, mark: &str, size: Option<Size>| {
            self.locals.push(Local {
                name,
                way: extended(way.clone(), mark),
                size,
                entries: None,
            });
        };
        match (&fold.second, is_list) {
            (Some(second), true) => {
                push(&fold.variable, INDICES, key);
                push(second, ITEMS, value);
            }
            (Some(second), false) => {
                push(&fold.variable, KEYS, key);
                push(second, VALUES, value);
            }
            (None, true) => push(&fold.variable, ITEMS, value),
            (None, false) => push(&fold.variable, KEYS, key),
        }
    }

    fn cost_call(&mut self, expr: &'p Expr, target: Option<&'p Expr>, args: &'p [Expr]) -> Cost {
        let Some(resolved) = self.checked.call(expr) else {
            return Cost::fixed(0);
        };
        let costs: Vec<Cost> = args.iter().map(|arg| self.cost(arg)).collect();
        let target = target.filter(|_| resolved.on_target);
        let mut sum = Cost::fixed(0);
        if let Some(target) = target {
            sum = self.cost(target);
        }
        let (own, mut size) = self.price(expr, resolved, target, args, &costs);
        sum = sum + own;
        if resolved.function.price == Price::Index
            && let [operand, _] = args
        {
            let mark = match self.checked.type_of(operand) {
                Type::List(_) => Some(ITEMS),
                Type::Map(_) => Some(VALUES),
                _ => None,
            };
            if let Some(mark) = mark.filter(|_| resolved.function.name == "_[_]") {
                size = self.entries_of(operand).map(|entries| entries.value);
                let way = extended(self.way(operand), mark);
                self.paths.insert(expr.id, way);
            }
        }
        if size.is_none() {
            size = self.size(expr);
        }
        self.note(expr, size, None);
        sum
    }

    /// The size of what a call hands through unchanged.
    fn passed_on(&mut self, resolved: Resolved, expr: &Expr, args: &'p [Expr]) -> Option<Size> {
        if resolved.function.price != Price::Dyn {
            return None;
        }
        let arg = args.first()?;
        if let Some(entries) = self.entries_of(arg) {
            self.entries.insert(expr.id, entries);
        }
        self.size(arg)
    }

    fn way(&self, expr: &Expr) -> ExprPath {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.way.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn note(&mut self, expr: &Expr, size: Option<Size>, entries: Option<Entries>) {
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Size {
        self.size(expr).unwrap_or(Size::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let own = match &expr.kind {
            Kind::Literal(Literal::Text(text)) => Some(text.chars().count()),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List(items) => Some(items.len()),
            Kind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = own {
            return Some(Size::fixed(size as u64));
        }
        if let Some(size) = self.declared_size(&self.way(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(Size::fixed(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    /// The size that the schema declares for what a way leads to.
    fn declared_size(&self, way: &[String]) -> Option<Size> {
        let (_, steps) = way.split_first()?;
        let mut at = self.variables.sizes?;
        for step in steps {
            at = match step.as_str() {
                ITEMS | VALUES => at.element.as_deref()?,
                // Names have no bound of their own, and nothing below them.
                KEYS => {
                    let is_map = matches!(at.kind, Type::Map(_));
                    let is_last = std::ptr::eq(step, steps.last()?);
                    return (is_map && is_last).then_some(Size::fixed(0));
                }
                name => at.field(name)?,
            };
        }
        Some(Size {
            min: 0,
            max: at.max_elements,
        })
    }
}

fn extended(mut way: ExprPath, step: &str) -> ExprPath {
    way.push(step.to_owned());
    way
}

fn is_scalar(kind: &Type) -> bool {
    match kind {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
