//! The controller: namespaces and rights of a tenant.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use sendo::client::{CleanUp, Finalizer};
use sendo::conditions::{self, News};
use sendo::metrics::Counter;
use sendo::{Action, Context, EventSeverity::*, Index, ObjectExt, Reconcile, Result, Uid};

use crate::access;
use crate::api::Tenant;
use crate::directory::Directory;

/// Keeps a tenant until its namespaces are deleted.
const FINALIZER: &str = "multitenancy.example.dev/namespaces";

const READY: &str = "Ready";

/// The reason of a tenant that is being deleted, which is no failure.
const DELETING: &str = "Deleting";

/// Namespaces by the tenant that controls them.
pub(crate) static OWNED: Index<Namespace, Uid> =
    Index::new("owned-by-tenant", |n| n.controller_of::<Tenant>());

/// Tenants by the namespaces in their spec.
pub(crate) static BY_NAMESPACE: Index<Tenant, String> =
    Index::many("by-namespace", |tenant| tenant.namespace_names());

/// Tenants by their team.
pub(crate) static BY_TEAM: Index<Tenant, String> =
    Index::new("by-team", |tenant| tenant.spec.team.clone());

/// The metrics of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) added: Counter,
    pub(crate) removed: Counter,
}

/// The reconciler, with its directory and metrics.
pub(crate) struct Tenants {
    pub(crate) directory: Directory,
    pub(crate) counters: Counters,
}

impl Reconcile<Tenant> for Tenants {
    async fn reconcile(&self, tenant: Arc<Tenant>, cx: Context) -> Result<Action> {
        // Added before the first namespace is created, so that all are deleted with the tenant.
        let finalizer = cx.finalizer(&tenant, FINALIZER, || self.clean_up(&tenant, &cx));
        if let Finalizer::Going(action) = finalizer.await? {
            return Ok(action);
        }
        let wanted = tenant.namespace_names();
        let unwanted = |name: &str| !wanted.iter().any(|wanted| wanted == name);
        self.remove(&tenant, unwanted, &cx).await?;
        let mut taken = Vec::new();
        for name in &wanted {
            match cx.get::<Namespace>(name.as_str()) {
                None => self.add(&tenant, name, &cx).await?,
                Some(theirs) if !theirs.is_controlled_by(&*tenant) => taken.push(name.as_str()),
                Some(_) => {}
            }
        }
        let trouble = self.grant(&tenant, &cx).await?;
        let not_ready = |reason, message| cx.condition(&tenant, READY, false, reason, message);
        let ready = match (taken.join(", "), trouble) {
            (taken, _) if !taken.is_empty() => {
                let message = format!("not this tenant's, and left alone: {taken}");
                not_ready("NamespaceTaken", message)
            }
            (_, Some(UnknownTeam(team))) => not_ready(
                "TeamUnknown",
                format!("the directory knows no team {team:?}"),
            ),
            (_, None) => {
                let message = format!("all {} namespaces are there", wanted.len());
                cx.condition(&tenant, READY, true, "Reconciled", message)
            }
        };
        report(&tenant, ready, &cx).await?;
        Ok(Action::done())
    }
}

/// A team that the directory does not know.
struct UnknownTeam(String);

impl Tenants {
    async fn add(&self, tenant: &Tenant, name: &str, cx: &Context) -> Result<()> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        cx.create_owned(tenant, namespace).await?;
        self.counters.added.inc();
        cx.event(Normal, "NamespaceAdded", format!("Added namespace {name}"));
        Ok(())
    }

    /// Deletes the tenant's namespaces that are `unwanted`; returns whether there are any.
    async fn remove(
        &self,
        tenant: &Tenant,
        unwanted: impl Fn(&str) -> bool,
        cx: &Context,
    ) -> Result<bool> {
        let mut found = false;
        for namespace in cx.list::<Namespace>().by(&OWNED, tenant.uid()) {
            if !unwanted(namespace.name()) {
                continue;
            }
            found = true;
            if !namespace.is_being_deleted() {
                cx.delete(&namespace).await?;
                self.counters.removed.inc();
                let message = format!("Removed namespace {}", namespace.name());
                cx.event(Normal, "NamespaceRemoved", message);
            }
        }
        Ok(found)
    }

    /// Gives the admins and the members of the team their rights in all namespaces
    /// of the tenant.
    async fn grant(&self, tenant: &Tenant, cx: &Context) -> Result<Option<UnknownTeam>> {
        let members = match &tenant.spec.team {
            None => Default::default(),
            Some(team) => match self.directory.members(team) {
                Some(members) => members,
                // The rights stay as they are until the members of the team are known.
                None => return Ok(Some(UnknownTeam(team.clone()))),
            },
        };
        let subjects = access::subjects(&tenant.spec.admins, &members);
        for namespace in cx.list::<Namespace>().by(&OWNED, tenant.uid()) {
            if !namespace.is_being_deleted() {
                access::grant(tenant, namespace.name(), &subjects, cx).await?;
            }
        }
        Ok(None)
    }

    /// Deleting a namespace takes a while; each one that is deleted starts another reconcile.
    async fn clean_up(&self, tenant: &Tenant, cx: &Context) -> Result<CleanUp> {
        if !self.remove(tenant, |_| true, cx).await? {
            return Ok(CleanUp::Done);
        }
        let going = cx.condition(tenant, READY, false, DELETING, "its namespaces are going");
        report(tenant, going, cx).await?;
        Ok(CleanUp::Waiting)
    }
}

/// Writes the status, and records an event if its readiness or the reason has changed.
async fn report(tenant: &Tenant, ready: Condition, cx: &Context) -> Result<()> {
    let owned = cx.list::<Namespace>().by(&OWNED, tenant.uid()).count();
    let written = cx.status(tenant, |status| {
        status.namespaces = owned as i32;
        conditions::set(&mut status.conditions, ready.clone())
    });
    if written.await? >= Some(News::Reason) && ready.reason != DELETING {
        let kind = if ready.status == "True" {
            Normal
        } else {
            Warning
        };
        cx.event(kind, &ready.reason, ready.message);
    }
    Ok(())
}
