//! The functions that expressions may call, and what each takes and gives.

mod admission;
mod extensions;
mod standard;

use std::sync::Arc;

use super::cost::Price;
use super::library::Run;
use super::types::{Bindings, Type};

/// A function with its forms.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) price: Price,
    pub(super) form: Form,
    pub(super) overloads: &'static [Overload],
}

/// How a function runs.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// On the values of its arguments.
    Call(Run),
    /// The evaluator decides which arguments are evaluated, or how failures among them count.
    Special(Special),
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Form::Call(_) => f.write_str("Call"),
            Form::Special(special) => special.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    And,
    Or,
    Conditional,
    NotStrictlyFalse,
    Index,
    OptionalIndex,
    OptionalSelect,
    OptionalOr,
    OptionalOrValue,
}

/// One form of a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// Whether it is called on its first argument.
    pub(super) member: bool,
    pub(super) args: &'static [Sig],
    pub(super) result: Sig,
}

/// A type as declarations write it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sig {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Dyn,
    /// The first type that a call chooses.
    A,
    /// The second.
    B,
    List(&'static Sig),
    Map(&'static Sig, &'static Sig),
    Optional(&'static Sig),
    Kind(&'static Sig),
    Named(&'static str),
}

impl Sig {
    /// The type, with what a call chooses taken from `chosen`.
    pub(super) fn instantiate(self, chosen: &mut Chosen, bindings: &mut Bindings) -> Type {
        match self {
            Sig::Bool => Type::Bool,
            Sig::Int => Type::Int,
            Sig::Uint => Type::Uint,
            Sig::Double => Type::Double,
            Sig::Text => Type::Text,
            Sig::Bytes => Type::Bytes,
            Sig::Duration => Type::Duration,
            Sig::Timestamp => Type::Timestamp,
            Sig::Dyn => Type::Dyn,
            Sig::A => chosen.a.get_or_insert_with(|| bindings.fresh()).clone(),
            Sig::B => chosen.b.get_or_insert_with(|| bindings.fresh()).clone(),
            Sig::List(item) => Type::list(item.instantiate(chosen, bindings)),
            Sig::Map(key, value) => {
                let key = key.instantiate(chosen, bindings);
                Type::map(key, value.instantiate(chosen, bindings))
            }
            Sig::Optional(value) => Type::optional(value.instantiate(chosen, bindings)),
            Sig::Kind(of) => Type::Kind(Some(Arc::new(of.instantiate(chosen, bindings)))),
            Sig::Named(name) => Type::Named(name),
        }
    }
}

/// The types that one call chose.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    a: Option<Type>,
    b: Option<Type>,
}

/// The function of a name.
pub(super) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS
        .iter()
        .flat_map(|part| part.iter())
        .find(|function| function.name == name)
}

/// Whether a function is there only where patches are made.
pub(super) fn is_of_patches(name: &str) -> bool {
    name == admission::ESCAPE_KEY
}

/// The type that a name denotes as a value.
pub(super) fn type_named(name: &str) -> Option<Type> {
    let kind = match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::Text,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        "type" => Type::Kind(None),
        _ => Type::Named([IP, CIDR].into_iter().find(|known| *known == name)?),
    };
    Some(Type::Kind(Some(Arc::new(kind))))
}

pub(super) const QUANTITY: &str = "kubernetes.Quantity";
pub(super) const URL: &str = "kubernetes.URL";
pub(super) const IP: &str = "net.IP";
pub(super) const CIDR: &str = "net.CIDR";
pub(super) const SEMVER: &str = "kubernetes.Semver";
pub(super) const FORMAT: &str = "kubernetes.NamedFormat";

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(super) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(super) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(super) const DECISION: &str = "kubernetes.authorization.Decision";

static FUNCTIONS: [&[Function]; 8] = [
    standard::OPERATORS,
    standard::CONVERSIONS,
    standard::STANDARD,
    extensions::STRINGS_AND_LISTS,
    standard::OPTIONALS,
    extensions::KUBERNETES,
    admission::AUTHORIZATION,
    admission::PATCHES,
];

/// A form that is called by its name.
const fn global(args: &'static [Sig], result: Sig) -> Overload {
    Overload {
        member: false,
        args,
        result,
    }
}

/// A form that is called on its first argument.
const fn member(args: &'static [Sig], result: Sig) -> Overload {
    Overload {
        member: true,
        args,
        result,
    }
}

const fn call(
    name: &'static str,
    price: Price,
    run: Run,
    overloads: &'static [Overload],
) -> Function {
    Function {
        name,
        price,
        form: Form::Call(run),
        overloads,
    }
}

const fn special(
    name: &'static str,
    price: Price,
    special: Special,
    overloads: &'static [Overload],
) -> Function {
    Function {
        name,
        price,
        form: Form::Special(special),
        overloads,
    }
}
