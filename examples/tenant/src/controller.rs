//! What is done for a tenant.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::client::{Finalizer, set_controller};
use sendo::metrics::Counter;
use sendo::{Action, Context, EventType::*, Index, ObjectExt, Reconcile, Result, Uid, conditions};

use crate::access;
use crate::api::Tenant;
use crate::directory::Directory;

/// Keeps a tenant until its namespaces are gone.
const FINALIZER: &str = "multitenancy.example.dev/namespaces";

const READY: &str = "Ready";

/// Namespaces by the tenant that controls them.
pub(crate) static OWNED: Index<Namespace, Uid> =
    Index::new("owned-by-tenant", |n| n.controller_of::<Tenant>());

/// Tenants by the namespaces they want.
pub(crate) static BY_NAMESPACE: Index<Tenant, String> =
    Index::many("by-namespace", |tenant| tenant.namespace_names());

/// Tenants by their team.
pub(crate) static BY_TEAM: Index<Tenant, String> =
    Index::new("by-team", |tenant| tenant.spec.team.clone());

/// What the program counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) added: Counter,
    pub(crate) removed: Counter,
}

/// The reconciler, with what it needs beside the cluster.
pub(crate) struct Tenants {
    pub(crate) directory: Directory,
    pub(crate) counters: Counters,
}

/// How a tenant is found: the reason of its condition, and a sentence.
struct Verdict {
    ready: bool,
    reason: &'static str,
    message: String,
}

impl Reconcile<Tenant> for Tenants {
    async fn reconcile(&self, tenant: Arc<Tenant>, cx: Context) -> Result<Action> {
        // A namespace takes its time to go; each one that has gone calls again.
        if tenant.is_being_deleted() && self.remove(&tenant, &cx, |_| true).await? {
            let going = not_ready("Deleting", "its namespaces are going".to_owned());
            self.report(&tenant, going, &cx).await?;
            return Ok(Action::done());
        }
        // In place before the first namespace, so that none is ever left behind.
        let finalizer = cx.finalizer(&tenant, FINALIZER, || async { Ok(()) });
        if finalizer.await? == Finalizer::CleanedUp {
            return Ok(Action::done());
        }
        let wanted = tenant.namespace_names();
        self.remove(&tenant, &cx, |name| !wanted.iter().any(|w| w == name))
            .await?;
        let mut taken = Vec::new();
        for name in &wanted {
            match cx.get::<Namespace>(name.as_str()) {
                None => self.add(&tenant, name, &cx).await?,
                Some(theirs) if theirs.controller_of::<Tenant>() != Some(tenant.uid()) => {
                    taken.push(name.as_str());
                }
                Some(_) => {}
            }
        }
        let verdict = match (self.grant(&tenant, &cx).await?, &taken[..]) {
            (_, [_, ..]) => not_ready(
                "NamespaceTaken",
                format!("not this tenant's, and left alone: {}", taken.join(", ")),
            ),
            (Some(problem), []) => problem,
            (None, []) => Verdict {
                ready: true,
                reason: "Reconciled",
                message: format!("all {} namespaces are there", wanted.len()),
            },
        };
        self.report(&tenant, verdict, &cx).await?;
        Ok(Action::done())
    }
}

impl Tenants {
    async fn add(&self, tenant: &Tenant, name: &str, cx: &Context) -> Result<()> {
        let mut namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        set_controller(tenant, &mut namespace)?;
        cx.create(&namespace).await?;
        self.counters.added.inc();
        cx.event(Normal, "NamespaceAdded", format!("Added namespace {name}"));
        Ok(())
    }

    /// Deletes the tenant's namespaces that are `unwanted`; says whether there are any.
    async fn remove(
        &self,
        tenant: &Tenant,
        cx: &Context,
        unwanted: impl Fn(&str) -> bool,
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

    /// Gives the admins their rights in all namespaces of the tenant; says what
    /// keeps it from that, if anything does.
    async fn grant(&self, tenant: &Tenant, cx: &Context) -> Result<Option<Verdict>> {
        let members = match &tenant.spec.team {
            None => Default::default(),
            Some(team) => match self.directory.members(team) {
                Some(members) => members,
                // Whoever had rights keeps them until it is known who has.
                None => {
                    let message = format!("the directory knows no team {team:?}");
                    return Ok(Some(not_ready("TeamUnknown", message)));
                }
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

    /// Writes the status, and a warning when the tenant is newly in trouble.
    async fn report(&self, tenant: &Tenant, verdict: Verdict, cx: &Context) -> Result<()> {
        let owned = cx.list::<Namespace>().by(&OWNED, tenant.uid()).count();
        let (reason, message) = (verdict.reason, verdict.message.as_str());
        let condition = cx.condition(tenant, READY, verdict.ready, reason, message);
        let mut turned = false;
        cx.status(tenant, |status| {
            let known = conditions::get(&status.conditions, READY);
            turned = known.is_none_or(|known| known.reason != reason);
            status.namespaces = owned as i32;
            conditions::set(&mut status.conditions, condition);
        })
        .await?;
        match (turned, verdict.ready, verdict.reason) {
            (false, ..) | (_, _, "Deleting") => {}
            (true, true, reason) => cx.event(Normal, reason, verdict.message),
            (true, false, reason) => cx.event(Warning, reason, verdict.message),
        }
        Ok(())
    }
}

fn not_ready(reason: &'static str, message: String) -> Verdict {
    Verdict {
        ready: false,
        reason,
        message,
    }
}
