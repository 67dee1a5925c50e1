//! `x-kubernetes-validations`: rules in CEL, compiled once for a schema, then run over its objects.
//!
//! Follows Kubernetes 1.36: `k8s.io/apiextensions-apiserver`, `pkg/apiserver/schema/cel`.

mod correlate;
mod run;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cel::{CompileError, Declared, Program, Type, Variables, escape, with_resource_fields};
use crate::field::Path;
use crate::structural::{Additional, Structural};

pub use run::ValidationResult;

/// The value that a rule is about.
const SELF: &str = "self";
/// What that value was before.
const OLD_SELF: &str = "oldSelf";

/// The rules of a schema and of all schemas in it, ready to run.
///
/// They are read from a schema that [`check`](crate::definition_schema::check()) accepted; a rule
/// that does not compile nevertheless refuses every object, and says why.
#[derive(Debug)]
pub struct Rules {
    /// The schema as rules see it.
    schema: Structural,
    root: Option<Node>,
}

/// The rules of one schema, and of those below that have some.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Rule>,
    items: Option<Box<Node>>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
}

/// One rule.
#[derive(Debug)]
pub(crate) struct Rule {
    text: String,
    message: String,
    reason: Option<String>,
    /// Where it points, below the value it is about.
    field_path: Option<String>,
    optional_old_self: bool,
    pub(crate) program: Result<Program, String>,
    message_expression: String,
    pub(crate) message_program: Option<Result<Program, String>>,
}

impl Rules {
    /// Compiles the rules of the schema of a resource.
    pub fn compile(schema: &Structural) -> Self {
        if !schema.has_validations() {
            return Rules {
                schema: Structural::default(),
                root: None,
            };
        }
        let declared = Declared::from_schema(schema, true);
        Rules {
            root: Node::compile(schema, declared.as_ref()),
            schema: visible(schema.clone(), true),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

impl Node {
    fn compile(schema: &Structural, declared: Option<&Declared>) -> Option<Node> {
        let mut node = Node::default();
        let declared = declared?;
        node.rules = schema
            .validations
            .iter()
            .map(|rule| Rule::compile(rule, schema, declared))
            .collect();
        if let Some(items) = &schema.items {
            node.items = Node::compile(items, declared.element.as_deref()).map(Box::new);
        }
        for (name, property) in &schema.properties {
            let of = declared_property(property, name, declared);
            if let Some(below) = Node::compile(property, of.as_ref()) {
                node.properties.insert(name.clone(), below);
            }
        }
        if let Some(Additional::Schema(values)) = &schema.additional_properties {
            node.additional = Node::compile(values, declared.element.as_deref()).map(Box::new);
        }
        let is_empty = node.rules.is_empty()
            && node.items.is_none()
            && node.properties.is_empty()
            && node.additional.is_none();
        (!is_empty).then_some(node)
    }
}

/// The declaration of a property; one whose name expressions cannot spell has its own.
pub(crate) fn declared_property(
    property: &Structural,
    name: &str,
    of: &Declared,
) -> Option<Declared> {
    match escape(name) {
        Some(escaped) => of.field(&escaped).map(|declared| (**declared).clone()),
        None => Declared::from_schema(property, property.embedded_resource),
    }
}

impl Rule {
    /// Compiles a rule of a schema.
    pub(crate) fn compile(rule: &Value, schema: &Structural, declared: &Declared) -> Rule {
        let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
        let optional_old_self = rule["optionalOldSelf"] == true;
        let old = match optional_old_self {
            true => Type::optional(declared.kind.clone()),
            false => declared.kind.clone(),
        };
        let variables = Variables::new(declared)
            .with(SELF, declared.kind.clone())
            .with(OLD_SELF, old);
        let program = compile(&text("rule"), &variables, &Type::Bool).map_err(|why| match why {
            Refusal::Compile(error @ CompileError::Constant(_)) => format!("program {error}"),
            Refusal::Compile(error) => error.to_string(),
            Refusal::WrongType => "cel expression must evaluate to a bool".to_owned(),
        });
        let message_expression = text("messageExpression");
        let message_program = (program.is_ok() && !message_expression.is_empty()).then(|| {
            compile(&message_expression, &variables, &Type::Text).map_err(|why| match why {
                Refusal::Compile(error) => format!("messageExpression {error}"),
                Refusal::WrongType => "messageExpression must evaluate to a string".to_owned(),
            })
        });
        Rule {
            field_path: normalized(&text("fieldPath"), schema),
            text: text("rule"),
            message: text("message"),
            reason: rule["reason"].as_str().map(str::to_owned),
            optional_old_self,
            program,
            message_expression,
            message_program,
        }
    }

    /// Whether it looks at the value from before.
    pub(crate) fn uses_old_self(&self) -> bool {
        self.program
            .as_ref()
            .is_ok_and(|program| program.uses(OLD_SELF))
    }

    /// What it is called in errors.
    fn shown(&self) -> &str {
        if self.message.is_empty() {
            self.text.trim()
        } else {
            self.message.trim()
        }
    }

    /// The error of an object that breaks it.
    fn complaint(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.text.trim())
        } else {
            self.message.trim().to_owned()
        }
    }
}

enum Refusal {
    Compile(CompileError),
    WrongType,
}

fn compile(source: &str, variables: &Variables<'_>, wanted: &Type) -> Result<Program, Refusal> {
    let program = Program::compile(source, variables).map_err(Refusal::Compile)?;
    if program.output() != wanted {
        return Err(Refusal::WrongType);
    }
    Ok(program)
}

/// A path like `.a['b'].c` as errors show it.
fn normalized(path: &str, schema: &Structural) -> Option<String> {
    if path.is_empty() {
        return None;
    }
    let mut shown = Path::root();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(bracket) = rest.strip_prefix("['") {
            let (quoted, after) = bracket.split_once("']")?;
            (name, rest) = (quoted.replace("\\'", "'").replace("\\\\", "\\"), after);
        } else {
            let dotted = rest.strip_prefix('.')?;
            let end = dotted.find(['.', '[']).unwrap_or(dotted.len());
            (name, rest) = (dotted[..end].to_owned(), &dotted[end..]);
        }
        if schema.properties.is_empty() {
            shown = shown.key(&name);
        } else {
            shown = shown.child(&name);
        }
        schema = schema.member(&name)?;
    }
    Some(shown.to_string())
}

/// A schema in which every resource has the fields that rules may always see.
fn visible(mut schema: Structural, is_resource: bool) -> Structural {
    let replace = |inner: &mut Structural| {
        let own = std::mem::take(inner);
        let is_resource = own.embedded_resource;
        *inner = visible(own, is_resource);
    };
    if is_resource {
        schema = with_resource_fields(schema);
    }
    if let Some(items) = &mut schema.items {
        replace(items);
    }
    schema.properties.values_mut().for_each(replace);
    if let Some(Additional::Schema(values)) = &mut schema.additional_properties {
        replace(values);
    }
    schema
}

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
