//! The attributes of a request that each step of admission is given.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/interfaces.go`: `Attributes`
//! - `staging/src/k8s.io/apiserver/pkg/admission/errors.go`: `NewForbidden`

use sendo_apimachinery::decode::FieldValidation;
use sendo_apimachinery::{GroupVersionKind, Meta, Status};
use serde_json::{Value, json};

use super::Reinvocation;
use crate::catalog::Resource;
use crate::request::delete_options::DeleteOptions;
use crate::request::options::WriteOptions;
use crate::request::user::User;
use crate::state::call::Call;

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Something is created: an object, or something below one that is not kept.
    Create,
    /// An object is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A way to a pod, a service or a node is opened.
    Connect,
}

impl Operation {
    /// Its word in rules and reviews.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// A request, as admission sees it. The object goes from step to step beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    /// The request: its user, resource, subresource, namespace and name.
    pub(crate) call: &'a Call<'a>,
    pub(crate) operation: Operation,
    /// What is stored, in its storage version, as the endpoint shows it. `None`
    /// where something is created or connected.
    pub(crate) old: Option<&'a Value>,
    pub(crate) options: Options<'a>,
    /// Whether the name of the object is one that the server draws.
    pub(crate) draws_name: bool,
    /// What is kept between the rounds of mutation; `None` while the object is validated.
    pub(crate) reinvocation: Option<&'a Reinvocation>,
}

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Options<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// A connection has none: its options are the object.
    None,
}

impl<'a> Attributes<'a> {
    /// A write of an object; `old` is what is stored, as its endpoint shows it.
    pub(crate) fn of_change(
        call: &'a Call<'a>,
        options: &'a WriteOptions,
        old: Option<&'a Value>,
    ) -> Self {
        Attributes {
            call,
            operation: match old {
                Some(_) => Operation::Update,
                None => Operation::Create,
            },
            old,
            options: Options::Write(options),
            draws_name: false,
            reinvocation: None,
        }
    }

    /// The creation of something that is not kept.
    pub(crate) fn of_creation(call: &'a Call<'a>, options: &'a WriteOptions) -> Self {
        Attributes {
            call,
            operation: Operation::Create,
            old: None,
            options: Options::Write(options),
            draws_name: false,
            reinvocation: None,
        }
    }

    /// The deletion of a stored object.
    pub(crate) fn of_deletion(
        call: &'a Call<'a>,
        old: &'a Value,
        options: &'a DeleteOptions,
    ) -> Self {
        Attributes {
            call,
            operation: Operation::Delete,
            old: Some(old),
            options: Options::Delete(options),
            draws_name: false,
            reinvocation: None,
        }
    }

    /// A connection.
    pub(crate) fn of_connection(call: &'a Call<'a>) -> Self {
        Attributes {
            call,
            operation: Operation::Connect,
            old: None,
            options: Options::None,
            draws_name: false,
            reinvocation: None,
        }
    }

    /// The user of the request.
    pub(crate) fn user(&self) -> &'a User {
        &self.call.request.user
    }

    /// The subresource; empty for the object itself.
    pub(crate) fn subresource(&self) -> &'a str {
        self.call.path.subresource.as_deref().unwrap_or_default()
    }

    /// The name in the path, or that of the object. Empty if one is still to be
    /// generated, and for each object that the deletion of a collection comes to.
    pub(crate) fn name<'o>(&self, object: &'o Value) -> &'o str
    where
        'a: 'o,
    {
        match self.call.name() {
            "" => Meta::new(object).name(),
            name => name,
        }
    }

    /// The name that the request has in Kubernetes: empty for an object whose name is
    /// drawn, even after it has been.
    pub(crate) fn requested_name<'o>(&self, object: &'o Value) -> &'o str
    where
        'a: 'o,
    {
        match self.draws_name {
            true => "",
            false => self.name(object),
        }
    }

    /// The namespace that it is in; that of a namespace is its own.
    pub(crate) fn namespace<'o>(&self, object: &'o Value) -> &'o str
    where
        'a: 'o,
    {
        match self.call.resource.is_core("namespaces") {
            true => self.name(object),
            false => self.call.namespace().unwrap_or_default(),
        }
    }

    /// The kind of its object in a version of its resource: that of the subresource, if it has
    /// one of its own.
    pub(crate) fn kind_in(&self, resource: &Resource) -> GroupVersionKind {
        let facts = &resource.facts;
        match facts.subresource(self.subresource()) {
            Some(own) => GroupVersionKind::new(&own.group, &own.version, &own.kind),
            None => GroupVersionKind::new(&facts.group, &facts.version, &facts.kind),
        }
    }

    /// Whether its object is one of the resource, and not of a kind that a subresource has.
    pub(crate) fn is_of_own_kind(&self) -> bool {
        self.kind_in(self.call.resource).kind == self.call.resource.facts.kind
    }

    /// Its options, as an object; null for a connection.
    pub(crate) fn options_object(&self) -> Value {
        let mut object = json!({"apiVersion": "meta.k8s.io/v1"});
        let query = &self.call.request.query;
        match self.options {
            Options::Write(options) => {
                object["kind"] = match self.operation {
                    Operation::Create => "CreateOptions",
                    _ => "UpdateOptions",
                }
                .into();
                if options.dry_run {
                    object["dryRun"] = json!(["All"]);
                }
                if !query.text("fieldManager").is_empty() {
                    object["fieldManager"] = query.text("fieldManager").into();
                }
                object["fieldValidation"] = match options.field_validation {
                    FieldValidation::Ignore => "Ignore",
                    FieldValidation::Warn => "Warn",
                    FieldValidation::Strict => "Strict",
                }
                .into();
                if query.text("fieldValidation").is_empty() {
                    object["fieldValidation"].take();
                }
            }
            Options::Delete(options) => {
                object["kind"] = "DeleteOptions".into();
                object["gracePeriodSeconds"] = options.grace_period_seconds.into();
                object["orphanDependents"] = options.orphan_dependents.into();
                object["propagationPolicy"] = options.propagation_policy.clone().into();
                if !options.dry_run.is_empty() {
                    object["dryRun"] = options.dry_run.clone().into();
                }
                if let Some(preconditions) = &options.preconditions {
                    let mut wanted = json!({});
                    let parts = [
                        ("uid", &preconditions.uid),
                        ("resourceVersion", &preconditions.resource_version),
                    ];
                    for (name, value) in parts {
                        if let Some(value) = value {
                            wanted[name] = value.as_str().into();
                        }
                    }
                    object["preconditions"] = wanted;
                }
            }
            Options::None => return Value::Null,
        }
        if let Value::Object(members) = &mut object {
            members.retain(|_, value| !value.is_null());
        }
        object
    }

    /// Whether nothing will come of it.
    pub(crate) fn is_dry_run(&self) -> bool {
        match self.options {
            Options::Write(options) => options.dry_run,
            Options::Delete(options) => options.is_dry_run(),
            Options::None => false,
        }
    }

    /// Whether this is about a built-in resource, or a subresource of it (empty for none).
    pub(crate) fn is_of(&self, group: &str, plural: &str, subresource: &str) -> bool {
        let facts = &self.call.resource.facts;
        facts.plural == plural
            && facts.group == group
            && self.call.resource.custom.is_none()
            && self.subresource() == subresource
    }

    /// The refusal of a request for a reason outside of its object (`NewForbidden`).
    pub(crate) fn forbid(&self, object: &Value, why: impl std::fmt::Display) -> Status {
        let name = match self.name(object) {
            "" => match Meta::new(object).generate_name() {
                "" => "Unknown",
                prefix => prefix,
            },
            name => name,
        };
        Status::forbidden(&self.call.resource.group_resource(), name, why)
    }
}
