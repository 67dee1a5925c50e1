//! The admission policies of the cluster with their bindings, compiled when they change.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go`: `calculatePolicyData`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go`: `compilePolicy`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/compilation.go`: `compilePolicy`

use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_apimachinery::admission_expressions::{
    ANNOTATION, CONDITION, Environment, MESSAGE, apply_configuration, json_patch,
};
use sendo_apimachinery::cel::Composed;
use sendo_apimachinery::{GroupVersion, GroupVersionKind, LabelSelector};
use sendo_store::Entry;
use serde_json::Value;

use super::expressions::{self, Expression};
use crate::access::follow::View;

const VALIDATING: &str = "/registry/admissionregistration.k8s.io/validatingadmissionpolicies/";
const VALIDATING_BINDINGS: &str =
    "/registry/admissionregistration.k8s.io/validatingadmissionpolicybindings/";
const MUTATING: &str = "/registry/admissionregistration.k8s.io/mutatingadmissionpolicies/";
const MUTATING_BINDINGS: &str =
    "/registry/admissionregistration.k8s.io/mutatingadmissionpolicybindings/";

/// Where policies and bindings are kept.
pub(crate) const PREFIXES: &[&str] =
    &[VALIDATING, VALIDATING_BINDINGS, MUTATING, MUTATING_BINDINGS];

/// A policy, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) constraints: Resources,
    /// Whether what goes wrong with it refuses nothing.
    pub(crate) ignores_failure: bool,
    /// The kind of its parameters.
    pub(crate) parameters: Option<GroupVersionKind>,
    pub(crate) composed: Composed,
    /// What must hold for it to count.
    pub(crate) conditions: Vec<Expression>,
    pub(crate) validations: Vec<Validation>,
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) mutations: Vec<Mutation>,
    /// Whether it is evaluated again after something else has changed the object.
    pub(crate) is_reinvoked: bool,
}

/// What objects must fulfil.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) expression: Expression,
    pub(crate) message: String,
    pub(crate) message_expression: Option<Expression>,
    /// Why a request is refused that does not; empty for the usual reason.
    pub(crate) reason: String,
}

/// What is noted of a request in the audit log.
#[derive(Debug)]
pub(crate) struct Annotation {
    pub(crate) key: String,
    pub(crate) value: Expression,
}

/// A change of objects.
#[derive(Debug)]
pub(crate) struct Mutation {
    pub(crate) kind: MutationKind,
    pub(crate) expression: Expression,
}

/// What the expression of a mutation makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MutationKind {
    ApplyConfiguration,
    JsonPatch,
}

/// The requests that a policy or binding is about.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) rules: Vec<Value>,
    pub(crate) excluded: Vec<Value>,
    /// Whether a rule matches requests for the same objects in another version too.
    pub(crate) matches_equivalents: bool,
    pub(crate) namespaces: LabelSelector,
    pub(crate) objects: LabelSelector,
}

/// A binding of a policy.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) resources: Option<Resources>,
    pub(crate) parameters: Option<ParameterReference>,
    pub(crate) actions: Vec<String>,
}

/// The parameters that a binding evaluates its policy with.
#[derive(Debug)]
pub(crate) struct ParameterReference {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Which there are, where they are not named.
    pub(crate) selector: LabelSelector,
    /// Whether a request is refused if there are none.
    pub(crate) demands_one: bool,
}

/// A policy that counts: one with a binding.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) policy: Arc<Policy>,
    /// By name.
    pub(crate) bindings: Vec<Arc<Binding>>,
}

/// All policies that count, by name.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    policies: BTreeMap<String, Arc<Policy>>,
    bindings: BTreeMap<String, Arc<Binding>>,
    validating: Arc<[Bound]>,
    mutating: Arc<[Bound]>,
}

impl Policies {
    pub(crate) fn validating(&self) -> Arc<[Bound]> {
        Arc::clone(&self.validating)
    }

    pub(crate) fn mutating(&self) -> Arc<[Bound]> {
        Arc::clone(&self.mutating)
    }

    /// Whether no policy counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.validating.is_empty() && self.mutating.is_empty()
    }

    fn collect(&mut self) {
        self.validating = self.bound(VALIDATING, VALIDATING_BINDINGS);
        self.mutating = self.bound(MUTATING, MUTATING_BINDINGS);
    }

    fn bound(&self, policies: &str, bindings: &str) -> Arc<[Bound]> {
        let bindings_of = |policy: &Policy| {
            below(&self.bindings, bindings)
                .filter(|binding| binding.policy == policy.name)
                .cloned()
                .collect::<Vec<_>>()
        };
        let all = below(&self.policies, policies).map(|policy| Bound {
            policy: Arc::clone(policy),
            bindings: bindings_of(policy),
        });
        all.filter(|bound| !bound.bindings.is_empty()).collect()
    }
}

fn below<'m, T>(all: &'m BTreeMap<String, T>, prefix: &'m str) -> impl Iterator<Item = &'m T> {
    let range = all.range(prefix.to_owned()..);
    range
        .take_while(move |(key, _)| key.starts_with(prefix))
        .map(|(_, value)| value)
}

impl View for Policies {
    fn put(&mut self, entry: &Entry) {
        let object: Value =
            serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
        let key = entry.key.to_string();
        if key.starts_with(VALIDATING_BINDINGS) || key.starts_with(MUTATING_BINDINGS) {
            self.bindings.insert(key, Arc::new(read_binding(&object)));
        } else {
            let mutates = key.starts_with(MUTATING);
            self.policies
                .insert(key, Arc::new(read_policy(&object, mutates)));
        }
        self.collect();
    }

    fn remove(&mut self, key: &str) {
        self.bindings.remove(key);
        self.policies.remove(key);
        self.collect();
    }
}

fn read_policy(object: &Value, mutates: bool) -> Policy {
    let spec = &object["spec"];
    let kind = &spec["paramKind"];
    let parameters = kind.is_object().then(|| {
        let version = GroupVersion::parse(str(&kind["apiVersion"]));
        let version = version.unwrap_or_else(|| GroupVersion::new("", ""));
        GroupVersionKind::new(&version.group, &version.version, str(&kind["kind"]))
    });
    let environment = Environment::new(parameters.is_some());
    let variables = list(&spec["variables"]).iter();
    let variables = variables.map(|own| (str(&own["name"]), str(&own["expression"])));
    let composed = environment.compose(variables);
    let conditions = match &spec["matchConditions"] {
        Value::Null => Vec::new(),
        all => expressions::conditions(&environment, all, Some(&composed)),
    };
    let mut policy = Policy {
        name: text(&object["metadata"]["name"]),
        constraints: read_resources(&spec["matchConstraints"]),
        ignores_failure: spec["failurePolicy"] == "Ignore",
        parameters,
        composed,
        conditions,
        validations: Vec::new(),
        annotations: Vec::new(),
        mutations: Vec::new(),
        is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
    };
    let composed = Some(&policy.composed);
    if mutates {
        let environment = environment.of_mutations();
        let all = list(&spec["mutations"]).iter();
        policy.mutations = all
            .filter_map(|own| read_mutation(own, &environment, &policy.composed))
            .collect();
        return policy;
    }
    let messages = environment.of_messages();
    policy.validations = list(&spec["validations"])
        .iter()
        .map(|own| Validation {
            expression: Expression::compile(
                &environment,
                str(&own["expression"]),
                CONDITION,
                composed,
            ),
            message: text(&own["message"]),
            message_expression: match str(&own["messageExpression"]) {
                "" => None,
                source => Some(Expression::compile(&messages, source, MESSAGE, composed)),
            },
            reason: text(&own["reason"]),
        })
        .collect();
    policy.annotations = list(&spec["auditAnnotations"])
        .iter()
        .map(|own| {
            let source = str(&own["valueExpression"]);
            Annotation {
                key: text(&own["key"]),
                value: Expression::compile(&environment, source, ANNOTATION, composed),
            }
        })
        .collect();
    policy
}

fn read_mutation(own: &Value, environment: &Environment, composed: &Composed) -> Option<Mutation> {
    let (kind, holder, wanted) = match str(&own["patchType"]) {
        "ApplyConfiguration" => (
            MutationKind::ApplyConfiguration,
            &own["applyConfiguration"],
            apply_configuration(),
        ),
        "JSONPatch" => (MutationKind::JsonPatch, &own["jsonPatch"], json_patch()),
        // Validation has refused others.
        _ => return None,
    };
    let source = str(&holder["expression"]);
    Some(Mutation {
        kind,
        expression: Expression::compile(environment, source, &wanted, Some(composed)),
    })
}

fn read_binding(object: &Value) -> Binding {
    let spec = &object["spec"];
    let (reference, resources) = (&spec["paramRef"], &spec["matchResources"]);
    Binding {
        name: text(&object["metadata"]["name"]),
        policy: text(&spec["policyName"]),
        resources: resources.is_object().then(|| read_resources(resources)),
        parameters: reference.is_object().then(|| ParameterReference {
            namespace: text(&reference["namespace"]),
            name: text(&reference["name"]),
            selector: selector(&reference["selector"]),
            demands_one: reference["parameterNotFoundAction"] == "Deny",
        }),
        actions: list(&spec["validationActions"]).iter().map(text).collect(),
    }
}

fn read_resources(resources: &Value) -> Resources {
    Resources {
        rules: list(&resources["resourceRules"]).to_vec(),
        excluded: list(&resources["excludeResourceRules"]).to_vec(),
        matches_equivalents: resources["matchPolicy"] == "Equivalent",
        namespaces: selector(&resources["namespaceSelector"]),
        objects: selector(&resources["objectSelector"]),
    }
}

/// A selector; validation has refused those that cannot be read.
fn selector(selector: &Value) -> LabelSelector {
    match selector.is_object() {
        true => {
            LabelSelector::from_object(Some(selector)).unwrap_or_else(|_| LabelSelector::nothing())
        }
        false => LabelSelector::everything(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn str(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn text(value: &Value) -> String {
    str(value).to_owned()
}
