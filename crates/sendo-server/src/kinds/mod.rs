//! The rules of each kind: defaults, what a write may set, validation, selectable fields,
//! conversion between versions.
//!
//! The verbs treat all kinds alike and take what differs from [`rules`]. A kind without rules of
//! its own has [`Rules::NEUTRAL`], which change and refuse nothing.
//!
//! The order in which a write runs them is that of the steps in `write/mod.rs`. All functions
//! but `default` and `convert` see objects in their storage version.
//!
//! # Sources
//!
//! The rules reproduce those of Kubernetes. The module documentation of every
//! file with rules ends with the list of the sources it follows:
//!
//! ```text
//! Follows Kubernetes <release>:
//! - `<path>`: `<name>`, `<name>`
//! - `<path>`
//! ```
//!
//! A path is that of a file in the repository `kubernetes/kubernetes`, or below
//! `$GOROOT` in the standard library of the Go release that builds it. The parts
//! below `staging/src/k8s.io/` are published as Go modules of the same name, those
//! below `vendor/` are the modules in `go.mod`. The names are the functions or
//! types in that file that hold the rules, together with what they call; without
//! names the whole file holds them. To move to another release, compare these
//! files between both releases. The test `sources` keeps the lists complete and,
//! given a copy of the sources, checks that every path and name exists there.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/create.go`: `BeforeCreate`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/update.go`: `BeforeUpdate`
//! - `staging/src/k8s.io/apimachinery/pkg/runtime/conversion.go`:
//!   `DefaultMetaV1FieldSelectorConversion`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/deprecation/deprecation.go`: `WarningMessage`

mod admission;
pub(crate) mod api_service;
mod autoscaling;
mod batch;
mod certificates;
mod check;
mod classes;
mod config_map;
mod custom_resource_definition;
mod devices;
mod diff;
mod event;
mod flow_control;
mod internal;
pub(crate) mod key_pair;
mod lease;
mod limits;
mod namespace;
mod network;
mod node;
mod ordered;
pub(crate) mod pod;
mod policy;
mod quota;
mod rbac;
pub(crate) mod resources;
mod secret;
mod service_account;
mod storage;
mod storage_migration;
pub(crate) mod value;
mod workloads;
mod writes;

pub(crate) use admission::webhook_client;
pub(crate) use network::service;

use jiff::Timestamp;
use sendo_apimachinery::field::Error;
use sendo_apimachinery::go_quote;
use sendo_world::Random;
use serde_json::Value;
use value::Read as _;

use crate::request::user::User;

/// What the functions of a kind need besides the objects: time, randomness, the request's
/// apiVersion and its user.
#[derive(Debug)]
pub struct Cx<'a> {
    /// The time of the request.
    pub now: Timestamp,
    /// The source of new ids.
    pub random: &'a Random,
    /// The apiVersion of the request: some kinds validate their versions differently.
    pub api_version: &'a str,
    /// Who sent the request.
    pub user: &'a User,
}

impl Cx<'_> {
    /// The time of the request in the format of objects: RFC 3339 with whole seconds.
    pub(crate) fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// The rules of one kind. Every field has a default: see [`Rules::NEUTRAL`].
#[derive(Debug)]
pub struct Rules {
    /// Sets the defaults of a decoded object, in the version its `apiVersion` names.
    pub default: fn(&mut Value),
    /// Resets fields that a creation may not set (status, generation) and sets fields that follow
    /// from others.
    ///
    /// The object has its name, uid and creation time already.
    pub prepare_for_create: fn(&Cx<'_>, &mut Value),
    /// Restores from `old` the fields that an update may not change, and increments the generation.
    pub prepare_for_update: fn(&Cx<'_>, &mut Value, &Value),
    /// Errors of a new object, metadata included, in the order Kubernetes reports them.
    pub validate: fn(&Cx<'_>, &Value) -> Vec<Error>,
    /// Errors of a changed object (`new`, `old`), metadata included.
    pub validate_update: fn(&Cx<'_>, &Value, &Value) -> Vec<Error>,
    /// [`Rules::prepare_for_update`] for a write through `/status`.
    pub prepare_for_status_update: fn(&Cx<'_>, &mut Value, &Value),
    /// [`Rules::validate_update`] for a write through `/status`.
    pub validate_status_update: fn(&Cx<'_>, &Value, &Value) -> Vec<Error>,
    /// Updates through other subresources that take the whole object (`ephemeralcontainers`,
    /// `resize`, `finalize`, `approval`).
    pub subresources: &'static [(&'static str, Update)],
    /// `Warning` texts for a creation that is accepted.
    pub warnings_on_create: fn(&Value) -> Vec<String>,
    /// `Warning` texts for a change (`new`, `old`) that is accepted.
    pub warnings_on_update: fn(&Value, &Value) -> Vec<String>,
    /// Normalizes an accepted object before it is stored.
    pub canonicalize: fn(&mut Value),
    /// The fields that a field selector may name in addition to `metadata.name`, and to
    /// `metadata.namespace` for kinds with [`UnknownFields::NotKnown`].
    pub selectable_fields: &'static [SelectableField],
    /// The error message for a field selector on any other field.
    pub unknown_fields: UnknownFields,
    /// An annotation that is a field in other versions of the kind. PartialObjectMetadata, which
    /// belongs to no version, omits it.
    pub field_annotation: Option<&'static str>,
    /// Whether PUT creates an object that does not exist.
    pub create_on_update: bool,
    /// Whether PUT without a resourceVersion is accepted.
    pub allow_unconditional_update: bool,
    /// The grace period of a deletion (object, requested period), for kinds with graceful deletion.
    ///
    /// `None` for kinds whose objects are removed at once.
    pub grace_period: Option<fn(&Value, Option<i64>) -> i64>,
    /// What happens to dependents if a deletion has no propagation policy.
    pub dependents: Dependents,
    /// The `Warning` of every request for a deprecated kind.
    pub deprecation: Option<&'static str>,
    /// Converts an object from one apiVersion (second argument) to another (third).
    ///
    /// The result carries the new `apiVersion`.
    pub convert: fn(&Value, &str, &str) -> Value,
}

/// A field that a field selector may name, and the function that reads it.
pub type SelectableField = (&'static str, fn(&Value) -> String);

const NAME: SelectableField = ("metadata.name", |object| {
    object.at("metadata").text("name").to_owned()
});

/// For [`Rules::selectable_fields`] of namespaced kinds that name their own fields.
pub(crate) const NAMESPACE: SelectableField = ("metadata.namespace", |object| {
    object.at("metadata").text("namespace").to_owned()
});

/// How an update through a subresource is prepared and validated.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// Restores from the old object every field that this subresource may not change.
    pub prepare: fn(&Cx<'_>, &mut Value, &Value),
    /// Errors of the changed object (`new`, `old`).
    pub validate: fn(&Cx<'_>, &Value, &Value) -> Vec<Error>,
}

/// How a kind refuses a field selector on a field that is not selectable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UnknownFields {
    /// The kind has its own conversion of field labels: `field label not supported: X`.
    NotSupported,
    /// The same, with the message of Jobs.
    NotSupportedFor(&'static str),
    /// The same, with the message of ResourceSlices.
    NotSupportedForKind(&'static str),
    /// The default conversion of field labels: only name and namespace, which its message says.
    NotKnown,
}

/// What happens to dependents if a deletion has no propagation policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dependents {
    /// They are deleted after their owner (background).
    Collected,
    /// They are orphaned.
    Orphaned,
    /// They are orphaned, and the response has this `Warning`, even if there is nothing to delete.
    OrphanedWithWarning(&'static str),
}

impl Rules {
    /// The rules of a kind that has none of its own: nothing is defaulted, reset or refused;
    /// updates may be unconditional and never create; deletion responds with a Status.
    pub const NEUTRAL: Rules = Rules {
        default: |_| {},
        prepare_for_create: |_, _| {},
        prepare_for_update: |_, _, _| {},
        validate: |_, _| Vec::new(),
        validate_update: |_, _, _| Vec::new(),
        prepare_for_status_update: |_, _, _| {},
        validate_status_update: |_, _, _| Vec::new(),
        subresources: &[],
        warnings_on_create: |_| Vec::new(),
        warnings_on_update: |_, _| Vec::new(),
        canonicalize: |_| {},
        selectable_fields: &[],
        unknown_fields: UnknownFields::NotKnown,
        field_annotation: None,
        create_on_update: false,
        allow_unconditional_update: true,
        grace_period: None,
        dependents: Dependents::Collected,
        deprecation: None,
        convert: |object, _, to| value::with_api_version(object, to),
    };

    /// The update through `subresource`, if that takes the whole object and is not `status`.
    pub fn subresource(&self, subresource: &str) -> Option<&Update> {
        let found = self
            .subresources
            .iter()
            .find(|(name, _)| *name == subresource);
        found.map(|(_, update)| update)
    }

    /// The function that reads the value that a field selector on `field` compares.
    ///
    /// # Errors
    /// The error message, if the field is not selectable.
    pub fn select(&self, field: &str) -> Result<fn(&Value) -> String, String> {
        let common: &[SelectableField] = match self.unknown_fields {
            UnknownFields::NotKnown => &[NAME, NAMESPACE],
            _ => &[NAME],
        };
        let mut fields = common.iter().chain(self.selectable_fields);
        match fields.find(|(name, _)| *name == field) {
            Some((_, read)) => Ok(*read),
            None => Err(match self.unknown_fields {
                UnknownFields::NotSupported => format!("field label not supported: {field}"),
                UnknownFields::NotSupportedFor(kind) => {
                    format!("field label {} not supported for {kind}", go_quote(field))
                }
                UnknownFields::NotSupportedForKind(kind) => {
                    format!("field label not supported for {kind}: {field}")
                }
                UnknownFields::NotKnown => format!(
                    "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                    go_quote(field)
                ),
            }),
        }
    }
}

/// The rules of a kind; [`Rules::NEUTRAL`] for kinds that have none of their own.
pub fn rules(group: &str, kind: &str) -> &'static Rules {
    let found = match group {
        "" => core_rules(kind),
        "apps" => workloads::rules(kind),
        "batch" => batch::rules(kind),
        "discovery.k8s.io" | "networking.k8s.io" => network::rules(kind),
        "storage.k8s.io" => storage::rules(kind),
        _ => other_rules(group, kind),
    };
    found.unwrap_or(const { &Rules::NEUTRAL })
}

fn core_rules(kind: &str) -> Option<&'static Rules> {
    Some(match kind {
        "ConfigMap" => const { &config_map::RULES },
        "Event" => const { &event::RULES },
        "LimitRange" => const { &limits::LIMIT_RANGE },
        "Namespace" => const { &namespace::RULES },
        "Node" => const { &node::RULES },
        "Pod" => const { &pod::RULES },
        "ResourceQuota" => const { &limits::RESOURCE_QUOTA },
        "Secret" => const { &secret::RULES },
        "ServiceAccount" => const { &service_account::RULES },
        "Endpoints" | "Service" => return network::rules(kind),
        "PersistentVolume" | "PersistentVolumeClaim" => return storage::rules(kind),
        "PodTemplate" | "ReplicationController" => return workloads::rules(kind),
        "ComponentStatus" => const { &COMPONENT_STATUS },
        _ => return None,
    })
}

fn other_rules(group: &str, kind: &str) -> Option<&'static Rules> {
    Some(match (group, kind) {
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            const { &admission::MUTATING_POLICY }
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            const { &admission::MUTATING_BINDING }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            const { &admission::VALIDATING_BINDING }
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            const { &admission::MUTATING_WEBHOOKS }
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            const { &admission::VALIDATING_POLICY }
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            const { &admission::VALIDATING_WEBHOOKS }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            const { &custom_resource_definition::RULES }
        }
        ("apiregistration.k8s.io", "APIService") => const { &api_service::RULES },
        ("autoscaling", "HorizontalPodAutoscaler") => const { &autoscaling::RULES },
        ("certificates.k8s.io", "CertificateSigningRequest") => const { &certificates::RULES },
        ("coordination.k8s.io", "Lease") => const { &lease::RULES },
        ("events.k8s.io", "Event") => const { &event::EVENTS_RULES },
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => const { &flow_control::FLOW_SCHEMA },
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            const { &flow_control::PRIORITY_LEVEL }
        }
        ("node.k8s.io", "RuntimeClass") => const { &classes::RUNTIME_CLASS },
        ("policy", "PodDisruptionBudget") => const { &policy::RULES },
        ("rbac.authorization.k8s.io", "ClusterRole") => const { &rbac::CLUSTER_ROLE },
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            const { &rbac::CLUSTER_ROLE_BINDING }
        }
        ("rbac.authorization.k8s.io", "Role") => const { &rbac::ROLE },
        ("rbac.authorization.k8s.io", "RoleBinding") => const { &rbac::ROLE_BINDING },
        ("resource.k8s.io", "DeviceClass") => const { &devices::DEVICE_CLASS },
        ("resource.k8s.io", "ResourceClaim") => const { &devices::CLAIM },
        ("resource.k8s.io", "ResourceClaimTemplate") => const { &devices::CLAIM_TEMPLATE },
        ("resource.k8s.io", "ResourceSlice") => const { &devices::SLICE },
        ("scheduling.k8s.io", "PriorityClass") => const { &classes::PRIORITY_CLASS },
        ("storagemigration.k8s.io", "StorageVersionMigration") => {
            const { &storage_migration::RULES }
        }
        _ => return None,
    })
}

const COMPONENT_STATUS: Rules = Rules {
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    ..Rules::NEUTRAL
};
