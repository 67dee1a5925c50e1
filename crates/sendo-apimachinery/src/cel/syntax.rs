//! The syntax tree.

use super::issues::{Issue, Issues};

/// How deep an expression may be nested, after macros were expanded.
///
/// Checking and evaluation recurse this far and no further, whatever thread they run on.
pub(super) const MAX_DEPTH: u16 = 250;

/// An expression with the offsets of its parts.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) source: String,
    pub(super) root: Expr,
    pub(super) offsets: Offsets,
}

/// The position of each node in the source, in characters, by its id.
#[derive(Debug, Default)]
pub(super) struct Offsets(Vec<u32>);

impl Offsets {
    /// An id for a node at an offset.
    pub(super) fn add(&mut self, offset: u32) -> u32 {
        let id = self.0.len();
        self.0.push(offset);
        id as u32
    }

    pub(super) fn get(&self, id: u32) -> u32 {
        self.0[id as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A node of the tree.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) id: u32,
    depth: u16,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Debug)]
pub(super) enum Kind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        /// Whether only its presence is tested (`has`).
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    /// A message of a named type.
    Struct {
        name: String,
        fields: Vec<Member>,
    },
    Fold(Box<Fold>),
}

/// An item of a list; left out if it is optional and empty.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// An entry of a map; left out if its value is optional and empty.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A field of a message; left out if its value is optional and empty.
#[derive(Debug)]
pub(super) struct Member {
    /// What issues of the field point to.
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A comprehension: what all macros over lists and maps become.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Expr,
    pub(super) variable: String,
    pub(super) second: Option<String>,
    pub(super) accumulator: String,
    pub(super) init: Expr,
    pub(super) condition: Expr,
    pub(super) step: Expr,
    pub(super) result: Expr,
}

impl Fold {
    /// Whether it only gives a name to a value.
    pub(super) fn is_binding(&self) -> bool {
        matches!(&self.range.kind, Kind::List(items) if items.is_empty())
            && matches!(self.condition.kind, Kind::Literal(Literal::Bool(false)))
            && self.accumulator != super::macros::ACCUMULATOR
    }
}

impl Expr {
    /// A node; refused if it is nested too deep.
    pub(super) fn new(id: u32, kind: Kind) -> Result<Self, TooDeep> {
        let mut depth = 0;
        each_child(&kind, &mut |child| depth = depth.max(child.depth));
        if depth >= MAX_DEPTH {
            return Err(TooDeep);
        }
        Ok(Expr {
            id,
            depth: depth + 1,
            kind,
        })
    }

    /// How deep it is nested.
    pub(super) fn depth(&self) -> u16 {
        self.depth
    }

    /// Calls `look` with each child.
    pub(super) fn each_child<'e>(&'e self, look: &mut impl FnMut(&'e Expr)) {
        each_child(&self.kind, look);
    }

    /// A copy with ids of its own.
    pub(super) fn copy(&self, offsets: &mut Offsets) -> Expr {
        let id = offsets.add(offsets.get(self.id));
        let mut boxed = |expr: &Expr| Box::new(expr.copy(offsets));
        let kind = match &self.kind {
            Kind::Literal(literal) => Kind::Literal(literal.clone()),
            Kind::Ident(name) => Kind::Ident(name.clone()),
            Kind::Select {
                operand,
                field,
                test,
            } => Kind::Select {
                operand: boxed(operand),
                field: field.clone(),
                test: *test,
            },
            Kind::Call {
                function,
                target,
                args,
            } => Kind::Call {
                function: function.clone(),
                target: target.as_deref().map(boxed),
                args: args.iter().map(|arg| arg.copy(offsets)).collect(),
            },
            Kind::List(items) => Kind::List(
                items
                    .iter()
                    .map(|item| Item {
                        value: item.value.copy(offsets),
                        optional: item.optional,
                    })
                    .collect(),
            ),
            Kind::Map(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|entry| Entry {
                        key: entry.key.copy(offsets),
                        value: entry.value.copy(offsets),
                        optional: entry.optional,
                    })
                    .collect(),
            ),
            Kind::Struct { name, fields } => Kind::Struct {
                name: name.clone(),
                fields: fields
                    .iter()
                    .map(|field| Member {
                        id: offsets.add(offsets.get(field.id)),
                        name: field.name.clone(),
                        value: field.value.copy(offsets),
                        optional: field.optional,
                    })
                    .collect(),
            },
            Kind::Fold(fold) => Kind::Fold(Box::new(Fold {
                range: fold.range.copy(offsets),
                variable: fold.variable.clone(),
                second: fold.second.clone(),
                accumulator: fold.accumulator.clone(),
                init: fold.init.copy(offsets),
                condition: fold.condition.copy(offsets),
                step: fold.step.copy(offsets),
                result: fold.result.copy(offsets),
            })),
        };
        Expr {
            id,
            depth: self.depth,
            kind,
        }
    }
}

fn each_child<'e>(kind: &'e Kind, look: &mut impl FnMut(&'e Expr)) {
    match kind {
        Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => look(operand),
        Kind::Call { target, args, .. } => {
            if let Some(target) = target {
                look(target);
            }
            args.iter().for_each(look);
        }
        Kind::List(items) => items.iter().for_each(|item| look(&item.value)),
        Kind::Map(entries) => {
            for entry in entries {
                look(&entry.key);
                look(&entry.value);
            }
        }
        Kind::Struct { fields, .. } => fields.iter().for_each(|field| look(&field.value)),
        Kind::Fold(fold) => {
            for part in [
                &fold.range,
                &fold.init,
                &fold.condition,
                &fold.step,
                &fold.result,
            ] {
                look(part);
            }
        }
    }
}

/// An expression is nested too deep.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooDeep;

impl TooDeep {
    pub(super) fn issues(self, source: &str) -> Issues {
        let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
        Issues::new(source, vec![Issue { offset: 0, message }])
    }
}
