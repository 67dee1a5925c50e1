//! The embedded cluster's controllers, written with `sendo` as any user would write them.
//!
//! [`CONTROLLERS`] is the table of a controller manager: a name and what it
//! adds to the manager. [`manager`] declares one with those that are asked for.

mod claim;
pub mod cluster_role_aggregation;
pub mod deployment;
pub mod garbage;
pub mod namespace;
mod pods;
pub mod replicaset;
pub mod root_ca;
pub mod service_account;
pub mod service_account_token;
pub mod service_cidr;
pub mod storage_protection;
pub mod taint_eviction;

use sendo::{Controller, Manager};

pub use service_account_token::TokenSigner;

/// What a controller of the table is made with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The certificate authority of the API server, in PEM, published to every namespace.
    pub root_ca: String,
    /// Signs the tokens that are kept in Secrets. By default nothing is signed,
    /// and they are left without one.
    pub token_signer: TokenSigner,
}

/// A controller of the table: its name, and how it is declared.
pub type Initializer = (&'static str, fn(&Settings) -> Controller);

/// All controllers, under the names that Kubernetes' controller manager gives them.
pub const CONTROLLERS: &[Initializer] = &[
    ("clusterrole-aggregation-controller", |_| {
        cluster_role_aggregation::controller()
    }),
    ("deployment-controller", |_| deployment::controller()),
    ("garbage-collector-controller", |_| garbage::controller()),
    ("namespace-controller", |_| namespace::controller()),
    ("persistentvolume-protection-controller", |_| {
        storage_protection::volumes()
    }),
    ("persistentvolumeclaim-protection-controller", |_| {
        storage_protection::claims()
    }),
    ("replicaset-controller", |_| replicaset::controller()),
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
    ("taint-eviction-controller", |_| {
        taint_eviction::controller()
    }),
];

/// A controller manager with the controllers for which `enabled` holds.
pub fn manager(settings: &Settings, enabled: impl Fn(&str) -> bool) -> Manager {
    let chosen = CONTROLLERS.iter().filter(|(name, _)| enabled(name));
    let manager = Manager::new("kube-controller-manager")
        .caching(pods::cached())
        .caching_every(garbage::cached());
    chosen.fold(manager, |manager, (_, make)| {
        manager.controller(make(settings))
    })
}
