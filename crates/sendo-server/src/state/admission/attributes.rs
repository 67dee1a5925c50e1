//! The attributes of a request that each step of admission is given.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/interfaces.go`: `Attributes`
//! - `staging/src/k8s.io/apiserver/pkg/admission/errors.go`: `NewForbidden`

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

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
