//! A tenant of a cluster: its namespaces, and who administers them.
//!
//! It shows what a manager is for: a controller of a cluster-scoped kind, an
//! event source outside the cluster, work on the leader only and on every
//! replica, and metrics of its own.
//!
//! | file | what is in it |
//! |---|---|
//! | `lib.rs` | the program, declared |
//! | `api.rs` | the resource, field by field |
//! | `controller.rs` | the controller: namespaces and rights of a tenant |
//! | `access.rs` | the role and the role binding in its namespaces |
//! | `directory.rs` | teams, kept outside the cluster |
//! | `page.rs` | what every replica serves |
//! | `webhook.rs` | what is filled in before a tenant is stored |

mod access;
pub mod api;
mod controller;
pub mod directory;
mod page;
mod webhook;

use std::time::Duration;

use api::Tenant;
use directory::Directory;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use sendo::handler::{map, map_object};
use sendo::source::{self, kind};
use sendo::{Controller, Manager, ObjectExt, Right, Verb, everywhere, on_leader};

use controller::{BY_NAMESPACE, BY_TEAM, Counters, OWNED, Tenants};

/// Options of the program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of teams.
    pub directory: Directory,
    /// How often the directory is read. 10 s by default.
    pub ask_every: Duration,
    /// The address on which every replica serves the list of tenants. By default it is not served.
    pub page_address: Option<String>,
}

impl Options {
    /// The defaults, with this directory.
    pub fn new(directory: Directory) -> Self {
        Options {
            directory,
            ask_every: Duration::from_secs(10),
            page_address: None,
        }
    }

    /// From the environment: `TENANT_DIRECTORY`, a file, and `TENANT_PAGE_ADDRESS`.
    pub fn from_environment() -> Self {
        let directory = std::env::var_os("TENANT_DIRECTORY");
        let directory =
            directory.map_or_else(Directory::empty, |file| Directory::file(file.into()));
        Options {
            page_address: std::env::var("TENANT_PAGE_ADDRESS").ok(),
            ..Options::new(directory)
        }
    }
}

/// A manager with the controller, the runnable that reads the directory, and the page.
pub fn manager(options: Options) -> Manager {
    let counters = Counters::default();
    let (changed_teams, teams) = source::channel(16);
    let directory = options.directory.clone();
    Manager::new("tenant-controller")
        .defines::<Tenant>()
        .metric(
            "tenant_namespaces_added_total",
            "Namespaces created for tenants",
            counters.added.clone(),
        )
        .metric(
            "tenant_namespaces_removed_total",
            "Namespaces of tenants deleted",
            counters.removed.clone(),
        )
        .webhook(sendo::webhook::defaults(webhook::set_defaults))
        .reads::<Tenant>()
        .runnable(on_leader("directory", move |cx| async move {
            let mut interval = cx.interval(options.ask_every);
            while cx.still_running(interval.tick()).await {
                for team in directory.refresh() {
                    changed_teams.send(team).await?;
                }
            }
            Ok(())
        }))
        .runnable(everywhere("page", move |cx| {
            page::serve(cx, options.page_address)
        }))
        .controller(
            Controller::new::<Tenant>()
                .with_finalizer()
                .owns::<Role>()
                // It gives rights that it does not have itself: nothing less than these two lets it.
                .writes::<Role>(Verb::Create | Verb::Update | Verb::Bind | Verb::Escalate)
                .needs(Right::of::<Role>(Verb::Get))
                .owns::<RoleBinding>()
                .writes::<RoleBinding>(Verb::Create | Verb::Update)
                .needs(Right::of::<RoleBinding>(Verb::Get))
                // By name, too: a namespace of another owner concerns the tenant whose spec has its name.
                .owns::<Namespace>()
                .writes::<Namespace>(Verb::Create | Verb::Delete)
                .watches(
                    kind::<Namespace>(),
                    map_object(|namespace: &Namespace, cx| {
                        let name = namespace.name().to_owned();
                        cx.list::<Tenant>().by(&BY_NAMESPACE, name).keys()
                    }),
                )
                .watches(
                    teams,
                    map(|team: String, cx| cx.list::<Tenant>().by(&BY_TEAM, team).keys()),
                )
                .index(&BY_NAMESPACE)
                .index(&BY_TEAM)
                .index(&OWNED)
                .reconcile(Tenants {
                    directory: options.directory,
                    counters,
                }),
        )
}
