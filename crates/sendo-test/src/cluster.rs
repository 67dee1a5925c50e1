//! The cluster a test is given.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::CustomResourceExt;
use sendo::client::{Client, Patch};
use sendo::{Config, Manager, ObjectExt, Running, Typed, World};
use sendo_cluster::{Cluster, ClusterOptions};
use sendo_store::{KeyRange, Revision};
use serde_json::Value;

use crate::view::View;

/// How long, in virtual time, [`TestCluster::until`] waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(600);

/// A live cluster with virtual time. Cheap to clone.
///
/// Every method that fails panics with what was seen: a test has nothing better to do.
#[derive(Clone, Debug)]
pub struct TestCluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    world: World,
    cluster: Mutex<Option<Cluster>>,
    view: View,
    client: Client,
    kube: kube::Client,
    store: Arc<dyn sendo_store::Store>,
    managers: Mutex<Vec<Running>>,
}
