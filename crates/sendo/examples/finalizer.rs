//! A finalizer: for each `Account` of the cluster an account in a system outside
//! it, and none left behind when the object is deleted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kube::CustomResource;
use schemars::JsonSchema;
use sendo::client::Finalizer;
use sendo::{Action, Context, Controller, Manager, ObjectExt, Reconcile, Result};
use serde::{Deserialize, Serialize};

/// Stays in `metadata.finalizers` as long as there may be an account. A domain
/// of one's own stands before the slash.
const FINALIZER: &str = "example.dev/account";

/// An account in a system outside the cluster.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.dev", version = "v1", kind = "Account", namespaced)]
pub struct AccountSpec {}

/// The system outside. In a real program its methods send requests.
#[derive(Clone, Debug, Default)]
pub struct Accounts(Arc<Mutex<BTreeSet<String>>>);

impl Accounts {
    async fn open(&self, name: &str) -> Result<()> {
        self.0.lock().unwrap().insert(name.to_owned());
        Ok(())
    }

    /// Closing one that is not there succeeds: the clean-up may run twice.
    async fn close(&self, name: &str) -> Result<()> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }

    /// The names of all accounts.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().cloned().collect()
    }
}

/// A reconciler that needs something beside the cluster is a struct.
struct Reconciler {
    accounts: Accounts,
}

/// The program, with the system that it keeps accounts in.
pub fn manager(accounts: Accounts) -> Manager {
    let controller = Controller::new::<Account>()
        .with_finalizer()
        .reconcile(Reconciler { accounts });
    Manager::new("accounts")
        .defines::<Account>()
        .controller(controller)
}

impl Reconcile<Account> for Reconciler {
    async fn reconcile(&self, account: Arc<Account>, cx: Context) -> Result<Action> {
        let name = account.key().to_string();
        // Before anything is made outside: the finalizer is put in place. For an
        // object that is being deleted: the clean-up runs, and when it succeeds
        // the finalizer is taken away, so that the API server deletes the object.
        // An error keeps the finalizer, and the clean-up is tried again.
        let finalizer = cx.finalizer(&account, FINALIZER, || self.accounts.close(&name));
        if let Finalizer::Going(action) = finalizer.await? {
            return Ok(action);
        }
        self.accounts.open(&name).await?;
        Ok(Action::done())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    manager(Accounts::default()).run_from_args().await
}
