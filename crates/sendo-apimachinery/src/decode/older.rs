//! Versions of built-in kinds that only older servers had.

/// By version, the kinds that it had and that are served in another one now.
const OLDER: &[(&str, &[&str])] = &[
    (
        "admissionregistration.k8s.io/v1alpha1",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ],
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    (
        "apiextensions.k8s.io/v1beta1",
        &["CustomResourceDefinition"],
    ),
    (
        "apps/v1beta1",
        &["ControllerRevision", "Deployment", "Scale", "StatefulSet"],
    ),
    (
        "apps/v1beta2",
        &[
            "ControllerRevision",
            "DaemonSet",
            "Deployment",
            "ReplicaSet",
            "Scale",
            "StatefulSet",
        ],
    ),
    (
        "authentication.k8s.io/v1beta1",
        &["SelfSubjectReview", "TokenReview"],
    ),
    (
        "authorization.k8s.io/v1beta1",
        &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
    ("batch/v1beta1", &["CronJob"]),
    (
        "certificates.k8s.io/v1beta1",
        &["CertificateSigningRequest"],
    ),
    ("coordination.k8s.io/v1beta1", &["Lease"]),
    ("discovery.k8s.io/v1beta1", &["EndpointSlice"]),
    ("events.k8s.io/v1beta1", &["Event"]),
    (
        "extensions/v1beta1",
        &[
            "DaemonSet",
            "Deployment",
            "Ingress",
            "NetworkPolicy",
            "ReplicaSet",
            "Scale",
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta1",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta2",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1beta3",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    (
        "networking.k8s.io/v1beta1",
        &["IPAddress", "Ingress", "IngressClass", "ServiceCIDR"],
    ),
    ("node.k8s.io/v1alpha1", &["RuntimeClass"]),
    ("node.k8s.io/v1beta1", &["RuntimeClass"]),
    ("policy/v1beta1", &["PodDisruptionBudget"]),
    (
        "rbac.authorization.k8s.io/v1alpha1",
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    ),
    (
        "rbac.authorization.k8s.io/v1beta1",
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    ),
    (
        "resource.k8s.io/v1beta1",
        &[
            "DeviceClass",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceSlice",
        ],
    ),
    (
        "resource.k8s.io/v1beta2",
        &[
            "DeviceClass",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceSlice",
        ],
    ),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    (
        "storage.k8s.io/v1alpha1",
        &[
            "CSIStorageCapacity",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
    (
        "storage.k8s.io/v1beta1",
        &[
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
];

/// The version that a kind is read as where a body names this one.
///
/// Evictions are still taken in the version that clients sent before the present one;
/// the two hold the same.
pub fn read_as<'v>(api_version: &'v str, kind: &str) -> &'v str {
    match (api_version, kind) {
        ("policy/v1beta1", "Eviction") => "policy/v1",
        _ => api_version,
    }
}

/// Whether a kind is known in a version, though not served in it any more.
pub(super) fn is_older(api_version: &str, kind: &str) -> bool {
    OLDER
        .iter()
        .any(|(version, kinds)| *version == api_version && kinds.contains(&kind))
}
