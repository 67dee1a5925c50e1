//! Expressions of admission: those of match conditions, validating and mutating policies.
//!
//! An [`Environment`] says what an expression may name and compiles it; an
//! [`Activation`] with the values of [`Inputs`] runs it.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/compile.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/composition.go`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/activation.go`
//! - `staging/src/k8s.io/apiserver/pkg/apis/cel/config.go`

mod types;

use std::sync::Arc;

use serde_json::Value as Json;

use crate::cel::{
    Activation, Authorization, CompileError, Composed, JSON_PATCH, OBJECT, Program, ResourceCheck,
    Type, Value, Variables,
};

/// What all expressions of one policy with one binding, or its parameters, may cost.
pub const BUDGET: u64 = 10_000_000;
/// What all match conditions of one webhook or policy may cost.
pub const MATCH_BUDGET: u64 = 2_500_000;

/// What an expression may name.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The type of `object` and `oldObject`.
    pub object: Type,
    /// The type of `params`; `None` if there are none.
    pub params: Option<Type>,
    /// Whether `authorizer` is there.
    pub authorizer: bool,
    /// Whether patches can be made.
    pub patches: bool,
    request: Type,
    namespace: Type,
}

impl Environment {
    /// An environment with `object`, `oldObject`, `request`, `namespaceObject` and `authorizer`,
    /// and with `params` if there are some.
    pub fn new(params: bool) -> Self {
        Environment {
            object: Type::Dyn,
            params: params.then_some(Type::Dyn),
            authorizer: true,
            patches: false,
            request: types::request(),
            namespace: types::namespace(),
        }
    }

    /// The same without `authorizer`, as messages have it.
    pub fn of_messages(&self) -> Self {
        Environment {
            authorizer: false,
            ..self.clone()
        }
    }

    /// The same with what patches are made with.
    pub fn of_mutations(&self) -> Self {
        Environment {
            patches: true,
            ..self.clone()
        }
    }

    fn variables(&self, composed: Option<&Composed>) -> Variables<'static> {
        let mut variables = Variables::default()
            .with("object", self.object.clone())
            .with("oldObject", self.object.clone())
            .with("request", self.request.clone())
            .with("namespaceObject", self.namespace.clone());
        if let Some(params) = &self.params {
            variables = variables.with("params", params.clone());
        }
        if self.authorizer {
            variables = variables
                .with("authorizer", types::authorizer())
                .with(REQUEST_RESOURCE, types::resource_check());
        }
        if self.patches {
            variables = variables.with_patches();
        }
        match composed {
            Some(composed) => variables.with_composed(composed),
            None => variables,
        }
    }

    /// Compiles an expression whose value is of one of these types; of any, if there are none.
    pub fn compile(
        &self,
        source: &str,
        wanted: &[Type],
        composed: Option<&Composed>,
    ) -> Result<Program, String> {
        let program = Program::compile(source, &self.variables(composed));
        let program = program.map_err(|error| match error {
            CompileError::Issues(_) => error.to_string(),
            CompileError::Constant(_) => format!("program {error}"),
        })?;
        let found = program.output();
        if wanted.is_empty() || wanted.contains(found) {
            return Ok(program);
        }
        let found = declared_name(found);
        let names: Vec<String> = wanted.iter().map(declared_name).collect();
        Err(match names.as_slice() {
            [wanted] => format!("must evaluate to {wanted} but got {found}"),
            several => {
                let several = several.join(" ");
                format!("must evaluate to one of [{several}] but got {found}")
            }
        })
    }

    /// Compiles an expression only to find what does not fit its types.
    pub fn check(&self, source: &str, composed: &Composed) -> Result<(), String> {
        match Program::compile(source, &self.variables(Some(composed))) {
            Ok(_) | Err(CompileError::Constant(_)) => Ok(()),
            Err(CompileError::Issues(issues)) => Err(issues.to_string()),
        }
    }

    /// Compiles the variables of a policy, each of which may use those before it.
    pub fn compose<'s>(&self, variables: impl IntoIterator<Item = (&'s str, &'s str)>) -> Composed {
        let mut composed = Composed::default();
        for (name, source) in variables {
            let program = self.compile(source, &[], Some(&composed));
            composed.add(name, program);
        }
        composed
    }
}

/// A type as cel-go declares it, which differs from the way its issues show it.
fn declared_name(kind: &Type) -> String {
    match kind {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::List(item) => format!("list({})", declared_name(item)),
        Type::Map(entry) => {
            let (key, value) = (declared_name(&entry.0), declared_name(&entry.1));
            format!("map({key}, {value})")
        }
        Type::Optional(inner) => format!("optional_type({})", declared_name(inner)),
        other => other.to_string(),
    }
}

/// The name of the variable for the resource of the request.
const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// The type of the values that say whether something holds.
pub const CONDITION: &[Type] = &[Type::Bool];
/// The type of messages.
pub const MESSAGE: &[Type] = &[Type::Text];
/// The types of audit annotations.
pub const ANNOTATION: &[Type] = &[Type::Text, Type::Null];

/// The type of an apply configuration.
pub fn apply_configuration() -> [Type; 1] {
    [Type::Made(OBJECT.into())]
}

/// The type of a JSON patch.
pub fn json_patch() -> [Type; 1] {
    [Type::list(Type::Made(JSON_PATCH.into()))]
}

/// What expressions are about. What is absent is null.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The object in the version that was matched.
    pub object: &'a Json,
    /// What it was before.
    pub old_object: &'a Json,
    /// The request, as an AdmissionReview shows it.
    pub request: &'a Json,
    /// The parameters.
    pub params: &'a Json,
    /// The namespace of the request.
    pub namespace: &'a Json,
    /// The resource of the request.
    pub resource: &'a ResourceCheck,
}

impl<'a> Inputs<'a> {
    /// The variables of expressions, with those that a policy composes.
    pub fn activation(self, composed: Option<&'a Composed>) -> Activation<'a> {
        let authorization = |value| Value::Authorization(Arc::new(value));
        let resource = Authorization::Resource(None, self.resource.clone());
        let variables = vec![
            ("object", Value::untyped(self.object)),
            ("oldObject", Value::untyped(self.old_object)),
            ("request", Value::untyped(self.request)),
            ("params", Value::untyped(self.params)),
            ("namespaceObject", Value::untyped(self.namespace)),
            ("authorizer", authorization(Authorization::Authorizer(None))),
            (REQUEST_RESOURCE, authorization(resource)),
        ];
        Activation::new(variables, composed)
    }
}

#[cfg(test)]
mod tests;
