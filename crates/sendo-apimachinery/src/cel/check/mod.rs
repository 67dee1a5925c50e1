//! Types of all parts of an expression, and the functions that calls mean.

mod literals;

use std::collections::{BTreeMap, BTreeSet};

use super::functions::{self, Chosen, Function};
use super::issues::{Issue, Issues};
use super::syntax::{Expr, Fold, Kind, Literal, Member, Parsed};
use super::types::{Bindings, Type, most_general};
use super::value::{field_type, is_made};
use super::{Declared, Type as T, Variables};
use crate::structural::Pattern;

/// What was found out about the nodes of a tree, by their ids.
#[derive(Debug)]
pub(super) struct Checked {
    types: Vec<Type>,
    calls: Vec<Option<Resolved>>,
    /// The variables that are named.
    pub(super) variables: BTreeSet<String>,
    /// The patterns that are written in the expression.
    pub(super) patterns: BTreeMap<String, Pattern>,
    /// The selections that are no fields, but variables with a dot in their name.
    qualified: BTreeSet<u32>,
}

/// What a call means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolved {
    pub(super) function: &'static Function,
    /// Whether the target is a value, and not the first part of the function's name.
    pub(super) on_target: bool,
}

impl Checked {
    pub(super) fn type_of(&self, expr: &Expr) -> &Type {
        &self.types[expr.id as usize]
    }

    pub(super) fn call(&self, expr: &Expr) -> Option<Resolved> {
        self.calls[expr.id as usize]
    }

    /// The variable with a dot in its name that a selection is.
    pub(super) fn qualified(&self, expr: &Expr) -> Option<String> {
        match self.qualified.contains(&expr.id) {
            true => qualified_name(expr),
            false => None,
        }
    }
}

/// Finds the type of every node, or what is wrong.
pub(super) fn check(parsed: &Parsed, variables: &Variables<'_>) -> Result<Checked, Issues> {
    let size = parsed.offsets.len();
    let mut checker = Checker {
        parsed,
        variables,
        scopes: Vec::new(),
        bindings: Bindings::default(),
        types: vec![T::Dyn; size],
        calls: vec![None; size],
        named: BTreeSet::new(),
        patterns: BTreeMap::new(),
        qualified: BTreeSet::new(),
        issues: Vec::new(),
    };
    checker.check(&parsed.root);
    if checker.issues.is_empty() {
        checker.check_literals(&parsed.root, false);
    }
    if !checker.issues.is_empty() {
        return Err(Issues::new(&parsed.source, checker.into_issues()));
    }
    let bindings = &checker.bindings;
    let types = checker
        .types
        .iter()
        .map(|kind| bindings.resolve_fully(kind))
        .collect();
    Ok(Checked {
        types,
        calls: checker.calls,
        variables: checker.named,
        patterns: checker.patterns,
        qualified: checker.qualified,
    })
}

struct Checker<'p, 'v> {
    parsed: &'p Parsed,
    variables: &'v Variables<'v>,
    scopes: Vec<(&'p str, Type)>,
    bindings: Bindings,
    types: Vec<Type>,
    calls: Vec<Option<Resolved>>,
    named: BTreeSet<String>,
    patterns: BTreeMap<String, Pattern>,
    qualified: BTreeSet<u32>,
    issues: Vec<Issue>,
}

impl<'p> Checker<'p, '_> {
    fn report(&mut self, at: &Expr, message: String) {
        let offset = self.parsed.offsets.get(at.id);
        self.issues.push(Issue { offset, message });
    }

    /// The issues. Types of objects are named from the value that the expression is about.
    fn into_issues(self) -> Vec<Issue> {
        let mut issues = self.issues;
        if let Some(root) = self.variables.sizes.and_then(Declared::type_name)
            && root != Declared::ROOT
        {
            for issue in &mut issues {
                issue.message = issue.message.replace(root, Declared::ROOT);
            }
        }
        issues
    }

    fn mismatch(&mut self, at: &Expr, expected: &Type, found: &Type) {
        let expected = self.bindings.resolve(expected);
        let found = self.bindings.resolve(found);
        self.report(
            at,
            format!("expected type '{expected}' but found '{found}'"),
        );
    }

    fn undeclared(&mut self, at: &Expr, name: &str) {
        self.report(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        );
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    fn check(&mut self, expr: &'p Expr) -> Type {
        let kind = match &expr.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => T::Null,
                Literal::Bool(_) => T::Bool,
                Literal::Int(_) => T::Int,
                Literal::Uint(_) => T::Uint,
                Literal::Double(_) => T::Double,
                Literal::Text(_) => T::Text,
                Literal::Bytes(_) => T::Bytes,
            },
            Kind::Ident(name) => match self.lookup(name) {
                Some(kind) => kind,
                None => {
                    self.undeclared(expr, name);
                    T::Error
                }
            },
            Kind::Select {
                operand,
                field,
                test,
            } => self.check_select(expr, operand, field, *test),
            Kind::Call {
                function,
                target,
                args,
            } => self.check_call(expr, function, target.as_deref(), args),
            Kind::List(items) => self.check_list(items),
            Kind::Map(entries) => self.check_map(entries),
            Kind::Struct { name, fields } => self.check_message(expr, name, fields),
            Kind::Fold(fold) => self.check_fold(fold),
        };
        self.types[expr.id as usize] = kind.clone();
        kind
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        if let Some((_, kind)) = self.scopes.iter().rev().find(|(own, _)| *own == name) {
            return Some(kind.clone());
        }
        if let Some(kind) = self.variables.get(name) {
            self.named.insert(name.to_owned());
            return Some(kind.clone());
        }
        functions::type_named(name)
    }

    fn check_select(&mut self, expr: &'p Expr, operand: &'p Expr, field: &str, test: bool) -> Type {
        if !test && let Some(name) = qualified_name(expr) {
            if let Some(kind) = self.variables.get(&name) {
                self.named.insert(name);
                self.qualified.insert(expr.id);
                return kind.clone();
            }
            if let Some(kind) = functions::type_named(&name) {
                return kind;
            }
        }
        let kind = self.check_field(expr, operand, field, false);
        if test { T::Bool } else { kind }
    }

    /// The type of a field; optional if selected as such, or a field of an optional object.
    fn check_field(
        &mut self,
        expr: &'p Expr,
        operand: &'p Expr,
        field: &str,
        optional: bool,
    ) -> Type {
        let of = self.check(operand);
        let of = self.bindings.resolve(&of);
        let (of, is_optional) = match of {
            T::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let kind = match &of {
            T::Map(entry) => entry.1.clone(),
            T::Object(object) => match object.selected(field) {
                Some(declared) => declared.kind.clone(),
                None => {
                    self.report(expr, format!("undefined field '{field}'"));
                    T::Error
                }
            },
            T::Variable(_) => {
                self.bindings.unify(&T::Dyn, &of);
                T::Dyn
            }
            T::Dyn | T::Error => T::Dyn,
            T::Made(name) => match field_type(name, field) {
                Some(kind) => kind,
                None => {
                    self.report(expr, format!("undefined field '{field}'"));
                    T::Error
                }
            },
            T::Named(_) => {
                self.report(expr, format!("undefined field '{field}'"));
                T::Error
            }
            other => {
                self.report(
                    expr,
                    format!("type '{other}' does not support field selection"),
                );
                T::Dyn
            }
        };
        if is_optional || optional {
            T::optional(kind)
        } else {
            kind
        }
    }

    fn check_call(
        &mut self,
        expr: &'p Expr,
        name: &'p str,
        target: Option<&'p Expr>,
        args: &'p [Expr],
    ) -> Type {
        if name == "_?._"
            && let [operand, field] = args
            && let Kind::Literal(Literal::Text(text)) = &field.kind
        {
            self.types[field.id as usize] = T::Text;
            let kind = self.check_field(expr, operand, text, true);
            self.resolve_to(expr, name, false);
            return kind;
        }
        for arg in args {
            self.check(arg);
        }
        if let Some(target) = target {
            if let Some(prefix) = qualified_name(target)
                && let Some(function) = functions::function(&format!("{prefix}.{name}"))
                && (self.variables.patches || !functions::is_of_patches(function.name))
            {
                return self.choose_overload(expr, function, None, args);
            }
            self.check(target);
        }
        match functions::function(name) {
            Some(function) => self.choose_overload(expr, function, target, args),
            None => {
                self.undeclared(expr, name);
                T::Error
            }
        }
    }

    fn resolve_to(&mut self, expr: &Expr, name: &str, on_target: bool) {
        if let Some(function) = functions::function(name) {
            self.calls[expr.id as usize] = Some(Resolved {
                function,
                on_target,
            });
        }
    }

    fn choose_overload(
        &mut self,
        expr: &'p Expr,
        function: &'static Function,
        target: Option<&'p Expr>,
        args: &'p [Expr],
    ) -> Type {
        let given: Vec<&Expr> = target.into_iter().chain(args).collect();
        let types: Vec<Type> = given.iter().map(|arg| self.type_of(arg)).collect();
        if matches!(function.name, "_&&_" | "_||_") {
            let mut sound = true;
            for (arg, kind) in given.iter().zip(&types) {
                if !self.bindings.unify(kind, &T::Bool) {
                    self.mismatch(arg, &T::Bool, kind);
                    sound = false;
                }
            }
            self.resolve_to(expr, function.name, false);
            return if sound { T::Bool } else { T::Error };
        }
        let mut result: Option<Type> = None;
        for overload in function.overloads {
            if overload.member != target.is_some() || overload.args.len() != types.len() {
                continue;
            }
            let mut chosen = Chosen::default();
            let wanted: Vec<Type> = overload
                .args
                .iter()
                .map(|sig| sig.instantiate(&mut chosen, &mut self.bindings))
                .collect();
            let gives = overload.result.instantiate(&mut chosen, &mut self.bindings);
            let pairs: Vec<(&Type, &Type)> = types.iter().zip(&wanted).collect();
            if !self.bindings.unify_all(&pairs) {
                continue;
            }
            let gives = self.bindings.resolve(&gives);
            result = Some(match result {
                None => gives,
                Some(before) if before.is_dyn() || before == gives => before,
                Some(_) => T::Dyn,
            });
        }
        let Some(result) = result else {
            let types: Vec<String> = types
                .iter()
                .map(|kind| self.bindings.resolve_fully(kind).to_string())
                .collect();
            let signature = match target {
                Some(_) => format!("{}.({})", types[0], types[1..].join(", ")),
                None => format!("({})", types.join(", ")),
            };
            let name = function.name;
            self.report(
                expr,
                format!("found no matching overload for '{name}' applied to '{signature}'"),
            );
            return T::Error;
        };
        self.calls[expr.id as usize] = Some(Resolved {
            function,
            on_target: target.is_some(),
        });
        result
    }

    /// The type of several values in a row; whether they may differ is checked later.
    fn join(&mut self, before: Option<Type>, kind: Type) -> Type {
        let Some(before) = before else {
            return kind;
        };
        if self.bindings.unify(&before, &kind) {
            return most_general(&before, &kind);
        }
        T::Dyn
    }

    /// The type inside of an optional value.
    fn unwrapped(&mut self, at: &Expr, kind: Type) -> Type {
        match kind {
            T::Optional(inner) => (*inner).clone(),
            kind => {
                if !kind.is_dyn() {
                    self.mismatch(at, &T::optional(kind.clone()), &kind);
                }
                kind
            }
        }
    }

    fn check_list(&mut self, items: &'p [super::syntax::Item]) -> Type {
        let mut common = None;
        for item in items {
            let mut kind = self.check(&item.value);
            if item.optional {
                kind = self.unwrapped(&item.value, kind);
            }
            common = Some(self.join(common, kind));
        }
        T::list(common.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn check_map(&mut self, entries: &'p [super::syntax::Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.check(&entry.key);
            keys = Some(self.join(keys, key));
            let mut value = self.check(&entry.value);
            if entry.optional {
                value = self.unwrapped(&entry.value, value);
            }
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        T::map(key, values.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn check_message(&mut self, expr: &'p Expr, name: &str, fields: &'p [Member]) -> Type {
        if !self.variables.patches || !is_made(name) {
            self.undeclared(expr, name);
            return T::Error;
        }
        for field in fields {
            let kind = self.check(&field.value);
            let kind = match field.optional {
                true => self.unwrapped(&field.value, kind),
                false => kind,
            };
            let offset = self.parsed.offsets.get(field.id);
            let field = &field.name;
            let Some(wanted) = field_type(name, field) else {
                let message = format!("undefined field '{field}'");
                self.issues.push(Issue { offset, message });
                continue;
            };
            if !self.bindings.unify(&wanted, &kind) {
                let kind = self.bindings.resolve(&kind);
                let message = format!(
                    "expected type of field '{field}' is '{wanted}' but provided type is '{kind}'"
                );
                self.issues.push(Issue { offset, message });
            }
        }
        T::Made(name.into())
    }

    fn check_fold(&mut self, fold: &'p Fold) -> Type {
        let range = self.check(&fold.range);
        let accumulated = self.check(&fold.init);
        let range = self.bindings.resolve(&range);
        let two = fold.second.is_some();
        let (first, second) = match &range {
            T::List(item) if two => (T::Int, (**item).clone()),
            T::List(item) => ((**item).clone(), T::Dyn),
            T::Map(entry) => (entry.0.clone(), entry.1.clone()),
            T::Dyn | T::Error | T::Variable(_) => {
                self.bindings.unify(&T::Dyn, &range);
                (T::Dyn, T::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(&fold.range, message);
                (T::Error, T::Error)
            }
        };
        let outside = self.scopes.len();
        self.scopes.push((&fold.accumulator, accumulated.clone()));
        self.scopes.push((&fold.variable, first));
        if let Some(name) = &fold.second {
            self.scopes.push((name, second));
        }
        let condition = self.check(&fold.condition);
        if !self.bindings.unify(&T::Bool, &condition) {
            self.mismatch(&fold.condition, &T::Bool, &condition);
        }
        let step = self.check(&fold.step);
        if !self.bindings.unify(&accumulated, &step) {
            self.mismatch(&fold.step, &accumulated, &step);
        }
        self.scopes.truncate(outside + 1);
        let result = self.check(&fold.result);
        self.scopes.truncate(outside);
        self.bindings.resolve(&result)
    }
}

/// The dotted name that an expression spells.
pub(super) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select {
            operand,
            field,
            test: false,
        } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}
