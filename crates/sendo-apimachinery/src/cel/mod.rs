//! The Common Expression Language (CEL) of Kubernetes.
//!
//! An expression is processed in four steps, each with a module of its own:
//!
//! ```text
//! text ──parse──▶ syntax tree ──check──▶ types and functions ──cost──▶ a bound ──▶ Program
//!                                                                                    │ eval, with a budget
//! ```
//!
//! [`Program::compile`] does the first three once; [`Program::eval`] runs for each object, and
//! stops when its budget of steps is spent. No expression can make either run without bound:
//! depth, steps, texts and lists have limits, and patterns run in time linear in the text.
//!
//! Functions are those of Kubernetes 1.36: the standard ones, strings, lists,
//! sets, optionals, two-variable comprehensions, regular expressions, URLs,
//! quantities, addresses, versions and named formats.

mod activation;
mod check;
mod constant;
mod cost;
mod declare;
mod escape;
mod eval;
mod functions;
mod issues;
mod lex;
mod library;
mod macros;
mod parse;
mod syntax;
mod types;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use activation::{Activation, Composed};
pub(crate) use declare::with_resource_fields;
pub use declare::{Declared, MAX_REQUEST, ObjectType};
pub use escape::{escape, unescape};
pub use eval::Fault;
pub(crate) use functions::{AUTHORIZER, RESOURCE_CHECK};
pub use issues::Issues;
pub use types::Type;
pub use value::{
    Account, Authorization, Check, CheckTarget, Decision, JSON_PATCH, Key, List, Made, Map, OBJECT,
    ResourceCheck, Text, Value,
};

use syntax::Parsed;

/// The type of the variable that has composed variables as fields.
const COMPOSED: &str = "kubernetes.variables";

/// The most one evaluation may cost.
pub const CALL_LIMIT: u64 = 1_000_000;

/// An expression that was read, checked and priced.
#[derive(Debug)]
pub struct Program {
    parsed: Parsed,
    checked: check::Checked,
    max_cost: u64,
}

/// The variables that an expression may name.
///
/// A variable of a [`Declared`] type has bounds on the size of its parts, from
/// which the price of an expression follows.
#[derive(Debug, Default)]
pub struct Variables<'d> {
    types: BTreeMap<&'static str, Type>,
    /// What sizes are looked up in, whatever the variable a path begins with.
    sizes: Option<&'d Declared>,
    /// Whether expressions may make objects and patches.
    patches: bool,
}

impl<'d> Variables<'d> {
    /// No variables, with sizes looked up in `sizes`.
    pub fn new(sizes: &'d Declared) -> Self {
        Variables {
            types: BTreeMap::new(),
            sizes: Some(sizes),
            patches: false,
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, kind: Type) -> Self {
        self.types.insert(name, kind);
        self
    }

    /// Adds what patches are made with: `Object{}`, `JSONPatch{}` and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// Adds composed variables, as the fields of the variable `variables`.
    #[must_use]
    pub fn with_composed(self, composed: &Composed) -> Self {
        let field = |(name, kind): (&str, Type)| {
            let declared = Declared {
                kind,
                element: None,
                max_elements: 0,
                min_size: 0,
            };
            (name.to_owned(), Arc::new(declared))
        };
        let object = ObjectType {
            name: COMPOSED.to_owned(),
            fields: composed.types().map(field).collect(),
        };
        self.with(activation::VARIABLES, Type::Object(Arc::new(object)))
    }

    fn get(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }
}

/// What came of an evaluation.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The value, or why there is none.
    pub result: Result<Value<'a>, Fault>,
    /// What it cost.
    pub cost: u64,
}

/// Why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It cannot be read, or does not fit its types.
    #[error("compilation failed: {0}")]
    Issues(#[from] Issues),
    /// A part that is known before it runs has no value.
    #[error("instantiation failed: {0}")]
    Constant(#[from] Fault),
}

impl Program {
    /// Reads, checks and prices an expression.
    pub fn compile(source: &str, variables: &Variables<'_>) -> Result<Self, CompileError> {
        let parsed = parse::parse(source)?;
        let checked = check::check(&parsed, variables)?;
        constant::check(&parsed.root, &checked)?;
        let max_cost = cost::estimate(&parsed, &checked, variables);
        Ok(Program {
            parsed,
            checked,
            max_cost,
        })
    }

    /// The type of its value.
    pub fn output(&self) -> &Type {
        self.checked.type_of(&self.parsed.root)
    }

    /// Whether it names a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.variables.contains(variable)
    }

    /// The most that an evaluation can cost, as far as sizes are known.
    pub fn max_cost(&self) -> u64 {
        self.max_cost
    }

    /// Evaluates it. A variable that is not in `variables` is an error where it is used.
    ///
    /// Stops as soon as it has cost more than `limit`.
    pub fn eval<'a>(&'a self, variables: &[(&'static str, Value<'a>)], limit: u64) -> Outcome<'a> {
        eval::run(&self.parsed, &self.checked, variables, limit)
    }
}

#[cfg(test)]
mod tests;
