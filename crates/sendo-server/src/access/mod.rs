//! Access control: who a client is (authentication), and what it may do (authorisation).

pub(crate) mod authenticate;
pub(crate) mod authorise;
pub(crate) mod follow;
pub(crate) mod rbac;
pub(crate) mod tokens;

use std::sync::Arc;

use sendo_apimachinery::schema::Types;
use sendo_store::Store;
use sendo_world::World;

use crate::catalog::{Catalog, Resource};
use authenticate::Tokens;
use authorise::nodes::{self, Bound};
use follow::Follow;
use rbac::{Policy, Rule};
use tokens::Credentials;

/// What authentication and authorisation use.
pub(crate) struct Access {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) world: World,
    types: Arc<Types>,
    /// The resource of Secrets, on which the use of a token is recorded.
    secrets: Arc<Resource>,
    /// Who holds which roles.
    pub(crate) policy: Follow<Policy>,
    /// Which pods are on which nodes.
    pub(crate) bound: Follow<Bound>,
    /// What every node may do, where it is not for the node itself alone.
    pub(crate) node_rules: Vec<Rule>,
    /// Static tokens and the key that signs those of service accounts.
    pub(crate) credentials: Credentials,
}

impl Access {
    /// Access to what `store` holds, with static `tokens`.
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        world: &World,
        types: &Arc<Types>,
        catalog: &Catalog,
        tokens: Tokens,
    ) -> Self {
        let secrets = catalog.find("", "v1", "secrets");
        Access {
            store: Arc::clone(store),
            world: world.clone(),
            types: Arc::clone(types),
            secrets: Arc::clone(secrets.expect("Secrets are built in")),
            policy: Follow::new(Arc::clone(store), rbac::PREFIXES),
            bound: Follow::new(Arc::clone(store), nodes::PODS),
            node_rules: rbac::bootstrap::rules("system:node"),
            credentials: Credentials::new(Arc::clone(store), tokens),
        }
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}
