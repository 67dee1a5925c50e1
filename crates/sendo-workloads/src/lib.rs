//! The embedded cluster's controllers, written with `sendo` as any user would write them.
//!
//! [`CONTROLLERS`] is the table of the controllers, with their names. [`manager`] declares a
//! manager with those that are enabled.
//!
//! Follows Kubernetes 1.36:
//! - `cmd/kube-controller-manager/app/controller_descriptor.go`: `NewControllerDescriptors`
//! - `cmd/kube-controller-manager/names/controller_names.go`

// What is optional in the types of one release and not in those of another is converted.
#![allow(clippy::useless_conversion)]

pub mod certificates;
pub mod cluster_role_aggregation;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
pub mod endpoint_slice;
pub mod endpoint_slice_mirroring;
pub mod endpoints;
pub mod ephemeral_volume;
pub mod garbage;
mod go_print;
pub mod horizontal_pod_autoscaler;
pub mod job;
pub mod namespace;
pub mod node_lifecycle;
pub mod pod_garbage;
mod pods;
pub mod replicaset;
pub mod resource_quota;
mod revisions;
pub mod root_ca;
mod service;
pub mod service_account;
pub mod service_account_token;
pub mod service_cidr;
mod slices;
pub mod stateful_set;
pub mod storage_protection;
pub mod storage_version_migration;
pub mod taint_eviction;
mod template;
pub mod ttl_after_finished;
pub mod validating_admission_policy_status;
pub mod volume_binder;

use sendo::{Controller, Manager, Right};

pub use certificates::signer::CertificateSigner;
pub use service_account_token::TokenSigner;

/// The settings of the controllers.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The certificate authority of the API server, in PEM, published to every namespace.
    pub root_ca: String,
    /// Signs the tokens in Secrets of service accounts. By default there is no key: such Secrets
    /// stay without a token.
    pub token_signer: TokenSigner,
    /// Signs the certificates that clients ask for. By default there is no authority: requests
    /// that are approved stay without a certificate.
    pub certificate_signer: CertificateSigner,
}

/// The name of a controller, and the function that declares it.
pub type Initializer = (&'static str, fn(&Settings) -> Controller);

/// All controllers, with the names that they have in `kube-controller-manager`.
pub const CONTROLLERS: &[Initializer] = &[
    ("certificatesigningrequest-approving-controller", |_| {
        certificates::approver::controller()
    }),
    ("certificatesigningrequest-cleaner-controller", |_| {
        certificates::cleaner::controller()
    }),
    ("certificatesigningrequest-signing-controller", |settings| {
        certificates::signer::controller(settings.certificate_signer.clone())
    }),
    ("clusterrole-aggregation-controller", |_| {
        cluster_role_aggregation::controller()
    }),
    ("cronjob-controller", |_| cron_job::controller()),
    ("daemonset-controller", |_| daemon_set::controller()),
    ("deployment-controller", |_| deployment::controller()),
    ("disruption-controller", |_| disruption::controller()),
    ("endpoints-controller", |_| endpoints::controller()),
    ("endpointslice-controller", |_| endpoint_slice::controller()),
    ("endpointslice-mirroring-controller", |_| {
        endpoint_slice_mirroring::controller()
    }),
    ("ephemeral-volume-controller", |_| {
        ephemeral_volume::controller()
    }),
    ("garbage-collector-controller", |_| garbage::controller()),
    ("horizontal-pod-autoscaler-controller", |_| {
        horizontal_pod_autoscaler::controller()
    }),
    ("job-controller", |_| job::controller()),
    ("namespace-controller", |_| namespace::controller()),
    ("node-lifecycle-controller", |_| {
        node_lifecycle::controller()
    }),
    ("persistentvolume-binder-controller", |_| {
        volume_binder::controller()
    }),
    ("persistentvolume-protection-controller", |_| {
        storage_protection::volumes()
    }),
    ("persistentvolumeclaim-protection-controller", |_| {
        storage_protection::claims()
    }),
    ("pod-garbage-collector-controller", |_| {
        pod_garbage::controller()
    }),
    ("replicaset-controller", |_| replicaset::controller()),
    ("replicationcontroller-controller", |_| {
        replicaset::replication_controllers()
    }),
    ("resourcequota-controller", |_| resource_quota::controller()),
    ("root-ca-certificate-publisher-controller", |settings| {
        root_ca::controller(&settings.root_ca)
    }),
    ("service-cidr-controller", |_| service_cidr::controller()),
    ("serviceaccount-controller", |_| {
        service_account::controller()
    }),
    ("serviceaccount-token-controller", |settings| {
        service_account_token::controller(settings.token_signer.clone(), &settings.root_ca)
    }),
    ("statefulset-controller", |_| stateful_set::controller()),
    (storage_version_migration::NAME, |_| {
        storage_version_migration::controller()
    }),
    ("taint-eviction-controller", |_| {
        taint_eviction::controller()
    }),
    ("ttl-after-finished-controller", |_| {
        ttl_after_finished::controller()
    }),
    ("validatingadmissionpolicy-status-controller", |_| {
        validating_admission_policy_status::controller()
    }),
];

/// A controller manager with the controllers for which `enabled` holds.
pub fn manager(settings: &Settings, enabled: impl Fn(&str) -> bool) -> Manager {
    let chosen = CONTROLLERS.iter().filter(|(name, _)| enabled(name));
    let manager = Manager::new("kube-controller-manager")
        // Its rights are those of the roles that Kubernetes gives its users.
        .needs(Right::everything())
        .caching(pods::cached())
        .caching_every(garbage::cached());
    chosen.fold(manager, |manager, (_, declare)| {
        manager.controller(declare(settings))
    })
}
