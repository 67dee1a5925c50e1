//! The `Tenant` resource, field by field as its users see it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which namespaces a tenant has, and who administers them.
// `kubectl explain` and the CRD show the comments below, so they speak to the
// users of the resource; comments to readers of the code have two slashes.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "multitenancy.example.dev",
    version = "v1alpha1",
    kind = "Tenant",
    status = "TenantStatus",
    derive = "PartialEq",
    doc = "A tenant of the cluster: its namespaces, and who administers them.",
    printcolumn = r#"{"name": "Prefix", "type": "string", "jsonPath": ".spec.namespacePrefix"}"#,
    printcolumn = r#"{"name": "Namespaces", "type": "integer", "jsonPath": ".status.namespaces"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
// Required in the schema alone: the webhook completes what is sent without a prefix.
#[schemars(extend("required" = ["namespacePrefix", "namespaces"]))]
pub struct TenantSpec {
    /// What the names of all namespaces of the tenant begin with, such as
    /// `blue-`. Left out, it is the tenant's name and a dash. It cannot be
    /// changed: that would delete them all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(
        length(min = 1, max = 31),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*)$"),
        extend("x-kubernetes-validations" = [{
            "rule": "self == oldSelf",
            "message": "the prefix cannot be changed: that would delete all namespaces of the tenant",
        }])
    )]
    pub namespace_prefix: String,

    /// The namespaces, without their prefix. One that is taken off the list is
    /// deleted with all that is in it.
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 32), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub namespaces: Vec<String>,

    /// Who administers the namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub admins: Vec<Admin>,

    /// A team of the directory outside the cluster, whose members administer
    /// the namespaces too, as they come and go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub team: Option<String>,
}

/// Somebody who administers the namespaces of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admin {
    /// Whether it is a user or a group.
    pub kind: AdminKind,
    /// The name of the user or group, as the cluster authenticates it.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What an admin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdminKind {
    /// One user.
    User,
    /// All users of a group.
    Group,
}

/// What has been done for the tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantStatus {
    /// How many namespaces the tenant has.
    #[serde(default)]
    pub namespaces: i32,

    /// `Ready` is true when all namespaces and the rights in them are as
    /// specified; its reason says why they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Tenant {
    /// The names of its namespaces, prefix and all.
    pub fn namespace_names(&self) -> Vec<String> {
        let prefix = &self.spec.namespace_prefix;
        let names = self.spec.namespaces.iter();
        names.map(|name| format!("{prefix}{name}")).collect()
    }
}
