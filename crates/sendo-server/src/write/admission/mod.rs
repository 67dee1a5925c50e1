//! Admission: what is decided about a request by its user and by what else the
//! cluster holds, beyond the rules of the object's kind.
//!
//! [`PLUGINS`] is the table of the steps, in the order of Kubernetes'
//! `AllOrderedPlugins`, each named after the plug-in that it is. All requests of a client that change something go through
//! it twice, whatever the resource, built-in or custom, and whatever the
//! subresource: first through [`mutate`], then, once the kind's rules have passed
//! the object, through [`validate`]. A step says itself which requests concern it
//! ([`Plugin::handles`]), as in Kubernetes; the others cost it a comparison.
//!
//! To add a step, write its [`Plugin`] and put it into the table where Kubernetes
//! has it. A step that mutates is given the object in its storage version and may
//! put another in its place: one that lets others change the object in the version
//! of a rule (a webhook, a policy) converts it there and back ([`versions`]), and reads,
//! defaults and prunes what came back as a body is. It stands behind all that
//! change the object by themselves. A step that validates may claim keys that are
//! to be written in the transaction of the object ([`Claims`]), as a quota does.
//! Warnings are collected on the request ([`crate::request::Request::warn`]).
//!
//! All plug-ins that a default Kubernetes 1.36 runs are there, and NodeRestriction, which kubeadm
//! adds, but for those that have nothing to do there either:
//!
//! | plug-in | why it is not here |
//! |---|---|
//! | ClusterTrustBundleAttest | its resource is not served by default |
//! | PodGroupProtection, PodGroupWorkloadExists, JobValidation | their features (`GenericWorkload`, `WorkloadWithJob`) are off by default |
//!
//! Those that a default server does not run either (AlwaysPullImages, EventRateLimit,
//! ImagePolicyWebhook, OwnerReferencesPermissionEnforcement, PodNodeSelector,
//! PodTolerationRestriction, and others that are off) cannot be switched on.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubeapiserver/options/plugins.go`: `DefaultOffAdmissionPlugins`
//! - `staging/src/k8s.io/apiserver/pkg/admission/chain.go`

mod certificates;
mod default_classes;
mod default_toleration_seconds;
mod expressions;
mod limit_ranger;
mod lookup;
mod matching;
mod namespace_lifecycle;
mod node_declared_features;
mod node_restriction;
mod persistent_volume_claim_resize;
mod pod_resize;
mod pod_security;
mod pod_topology_labels;
mod policies;
mod priority;
mod request;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod terminating_definition;
#[cfg(test)]
mod tests;
mod versions;
pub(crate) mod webhooks;

pub(crate) use crate::state::admission::{Attributes, Mutate, Operation, Plugin, mutate, validate};
pub(crate) use resource_quota::charge as charge_quotas;

/// The steps, in the order in which they are asked.
pub(crate) static PLUGINS: &[Plugin] = &[
    // Not a plug-in of Kubernetes' table: it is asked before all of them.
    terminating_definition::FORBID_CREATE,
    namespace_lifecycle::NAMESPACE_LIFECYCLE,
    limit_ranger::LIMIT_RANGER,
    service_account::SERVICE_ACCOUNT,
    node_restriction::NODE_RESTRICTION,
    taint_nodes_by_condition::TAINT_NODES_BY_CONDITION,
    pod_security::POD_SECURITY,
    priority::PRIORITY,
    default_toleration_seconds::DEFAULT_TOLERATION_SECONDS,
    default_classes::DEFAULT_STORAGE_CLASS,
    storage_object_in_use_protection::STORAGE_OBJECT_IN_USE_PROTECTION,
    persistent_volume_claim_resize::PERSISTENT_VOLUME_CLAIM_RESIZE,
    runtime_class::RUNTIME_CLASS,
    certificates::CERTIFICATE_APPROVAL,
    certificates::CERTIFICATE_SIGNING,
    certificates::CERTIFICATE_SUBJECT_RESTRICTION,
    default_classes::DEFAULT_INGRESS_CLASS,
    pod_topology_labels::POD_TOPOLOGY_LABELS,
    node_declared_features::NODE_DECLARED_FEATURE_VALIDATOR,
    pod_resize::POD_RESIZE_VALIDATOR,
    policies::MUTATING_ADMISSION_POLICY,
    webhooks::MUTATING_ADMISSION_WEBHOOK,
    policies::VALIDATING_ADMISSION_POLICY,
    webhooks::VALIDATING_ADMISSION_WEBHOOK,
    resource_quota::RESOURCE_QUOTA,
];
