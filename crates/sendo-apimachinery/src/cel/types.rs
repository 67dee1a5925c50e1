//! Types, and which may stand for which.

use std::fmt;
use std::sync::Arc;

use super::declare::ObjectType;

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    Text,
    /// `bytes`
    Bytes,
    /// `null_type`
    Null,
    /// `duration`
    Duration,
    /// `timestamp`
    Timestamp,
    /// Any type, known only when the expression runs.
    Dyn,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<(Type, Type)>),
    /// `optional_type(T)`
    Optional(Arc<Type>),
    /// An object with declared fields.
    Object(Arc<ObjectType>),
    /// An object that an expression makes, as `Object.spec`.
    Made(Arc<str>),
    /// A type of a library, as `kubernetes.Quantity`.
    Named(&'static str),
    /// The type of types.
    Kind(Option<Arc<Type>>),
    /// What is still to be found out.
    #[doc(hidden)]
    Variable(u32),
    /// The type of an expression whose error was reported already.
    #[doc(hidden)]
    Error,
}

impl Type {
    /// A list of `item`.
    pub fn list(item: Type) -> Self {
        Type::List(Arc::new(item))
    }

    /// A map from `key` to `value`.
    pub fn map(key: Type, value: Type) -> Self {
        Type::Map(Arc::new((key, value)))
    }

    /// An optional `value`.
    pub fn optional(value: Type) -> Self {
        Type::Optional(Arc::new(value))
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Whether null may stand for it.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Type::Null
                | Type::Duration
                | Type::Timestamp
                | Type::Optional(_)
                | Type::Object(_)
                | Type::Made(_)
                | Type::Named(_)
        )
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        use Type::*;
        match (self, other) {
            (List(one), List(other)) | (Optional(one), Optional(other)) => one == other,
            (Map(one), Map(other)) => one == other,
            (Object(one), Object(other)) => Arc::ptr_eq(one, other) || one.name == other.name,
            (Named(one), Named(other)) => one == other,
            (Made(one), Made(other)) => one == other,
            (Kind(one), Kind(other)) => one == other,
            (Variable(one), Variable(other)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::Text => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Dyn => f.write_str("dyn"),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Type::Optional(value) => write!(f, "optional_type({value})"),
            Type::Object(object) => f.write_str(&object.name),
            Type::Made(name) => f.write_str(name),
            Type::Named(name) => f.write_str(name),
            Type::Kind(None) => f.write_str("type"),
            Type::Kind(Some(of)) => write!(f, "type({of})"),
            Type::Variable(id) => write!(f, "_var{id}"),
            Type::Error => f.write_str("!error!"),
        }
    }
}

/// What type variables stand for, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// What was bound before, to go back to.
    trail: Vec<(u32, Option<Type>)>,
}

impl Bindings {
    /// A new variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Variable(self.bound.len() as u32 - 1)
    }

    fn get(&self, variable: u32) -> Option<&Type> {
        self.bound[variable as usize].as_ref()
    }

    fn set(&mut self, variable: u32, to: Type) {
        let before = self.bound[variable as usize].replace(to);
        self.trail.push((variable, before));
    }

    /// Whether values of the types can stand for each other, in pairs; binds variables if so.
    pub(super) fn unify_all(&mut self, pairs: &[(&Type, &Type)]) -> bool {
        let mark = self.trail.len();
        if pairs.iter().all(|(one, other)| self.assign(one, other)) {
            return true;
        }
        while self.trail.len() > mark {
            if let Some((variable, before)) = self.trail.pop() {
                self.bound[variable as usize] = before;
            }
        }
        false
    }

    /// Whether values of two types can stand for each other; binds variables if so.
    pub(super) fn unify(&mut self, one: &Type, other: &Type) -> bool {
        self.unify_all(&[(one, other)])
    }

    fn assign(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Variable(variable) = other {
            match self.substitute_variable(one, *variable) {
                (true, _) => return true,
                (false, true) => return false,
                _ => {}
            }
        }
        if let Type::Variable(variable) = one {
            return self.substitute_variable(other, *variable).0;
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (Type::Null, other) => other.is_nullable(),
            (one, Type::Null) => one.is_nullable(),
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.assign(one, other)
            }
            (Type::Map(one), Type::Map(other)) => {
                self.assign(&one.0, &other.0) && self.assign(&one.1, &other.1)
            }
            (Type::Kind(_), Type::Kind(_)) => true,
            (one, other) => one == other,
        }
    }

    /// Whether a type variable may be bound to `kind`, and whether it was bound already.
    fn substitute_variable(&mut self, kind: &Type, variable: u32) -> (bool, bool) {
        if *kind == Type::Variable(variable) {
            return (true, true);
        }
        if let Some(bound) = self.get(variable).cloned() {
            if *kind == bound {
                return (true, true);
            }
            if self.assign(kind, &bound) {
                let general = most_general(kind, &bound);
                if !self.refers(variable, &general) {
                    self.set(variable, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.refers(variable, kind) {
            return (false, false);
        }
        self.set(variable, kind.clone());
        (true, false)
    }

    /// Whether a type contains a variable.
    fn refers(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Variable(own) => {
                *own == variable
                    || self
                        .get(*own)
                        .is_some_and(|bound| self.refers(variable, bound))
            }
            Type::List(item) | Type::Optional(item) | Type::Kind(Some(item)) => {
                self.refers(variable, item)
            }
            Type::Map(entry) => self.refers(variable, &entry.0) || self.refers(variable, &entry.1),
            _ => false,
        }
    }

    /// A type with variables replaced by what they stand for; unknown ones stay.
    pub(super) fn resolve(&self, kind: &Type) -> Type {
        match kind {
            Type::Variable(variable) => match self.get(*variable) {
                Some(bound) => self.resolve(bound),
                None => kind.clone(),
            },
            Type::List(item) => Type::list(self.resolve(item)),
            Type::Optional(item) => Type::optional(self.resolve(item)),
            Type::Map(entry) => Type::map(self.resolve(&entry.0), self.resolve(&entry.1)),
            Type::Kind(Some(of)) => Type::Kind(Some(Arc::new(self.resolve(of)))),
            _ => kind.clone(),
        }
    }

    /// As [`resolve`](Self::resolve), with what is not known taken for any type.
    pub(super) fn resolve_fully(&self, kind: &Type) -> Type {
        match kind {
            Type::Variable(variable) => match self.get(*variable) {
                Some(bound) => self.resolve_fully(bound),
                None => Type::Dyn,
            },
            Type::List(item) => Type::list(self.resolve_fully(item)),
            Type::Optional(item) => Type::optional(self.resolve_fully(item)),
            Type::Map(entry) => {
                Type::map(self.resolve_fully(&entry.0), self.resolve_fully(&entry.1))
            }
            Type::Kind(Some(of)) => Type::Kind(Some(Arc::new(self.resolve_fully(of)))),
            _ => kind.clone(),
        }
    }
}

/// The one of two types that says less.
pub(super) fn most_general(one: &Type, other: &Type) -> Type {
    if says_no_more(one, other) {
        one.clone()
    } else {
        other.clone()
    }
}

fn says_no_more(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
            says_no_more(one, other)
        }
        (Type::Map(one), Type::Map(other)) => {
            says_no_more(&one.0, &other.0) && says_no_more(&one.1, &other.1)
        }
        (Type::Kind(_), Type::Kind(_)) => true,
        (one, other) => one == other,
    }
}
