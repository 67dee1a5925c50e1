//! The manager: a program of controllers and runnables, declared as a value.
//!
//! ```
//! use std::time::Duration;
//! use sendo::{Manager, everywhere};
//!
//! let program = Manager::new("heartbeat").runnable(everywhere("beat", |cx| async move {
//!     let mut interval = cx.interval(Duration::from_secs(60));
//!     while cx.still_running(interval.tick()).await {
//!         println!("{}", cx.now());
//!     }
//!     Ok(())
//! }));
//! assert!(program.problems().is_empty());
//! ```

mod config;
mod definitions;
mod elect;
mod problems;
mod rights;
mod run;
mod runnable;
mod running;
mod stop;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use definitions::Definitions;
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::cache::{CacheOptions, KindOptions, Selection};
use crate::controller::{Controller, Declaration};
use crate::error::{Error, Result};
use crate::metrics::{Metric, OwnMetric, own_metric};
use crate::object::{Kind, Object, Typed};
use crate::reader::DeclaredRead;
use crate::rights::{Right, Verbs};
use crate::webhook::{self, Conversions, Convert, Reached, Registration, Webhook};

pub use config::{ClientOf, Config};
pub use rights::{RightsOptions, ServedWebhooks};
pub use runnable::{RunContext, Runnable, elected_alone, everywhere, on_leader};
pub use running::Running;
pub use stop::DidNotStop;
#[cfg(feature = "args")]
pub(crate) use stop::LET_GO;
#[cfg(feature = "manifests")]
pub(crate) use stop::longest_stop;

/// A program that is declared first and run later.
///
/// It holds no connection and starts nothing until [`Manager::run`]: the same
/// value runs on a real cluster, on an embedded one, and in a test under
/// virtual time; what it watches and reads is known before.
pub struct Manager {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    #[cfg_attr(not(feature = "manifests"), allow(dead_code))]
    pub(crate) description: Option<String>,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) runnables: Vec<Runnable>,
    pub(crate) reads: Vec<DeclaredRead>,
    pub(crate) needs: Vec<Right>,
    pub(crate) checks: Vec<Check>,
    pub(crate) cache: CacheOptions,
    pub(crate) definitions: Definitions,
    pub(crate) metrics: Vec<OwnMetric>,
    pub(crate) webhooks: Vec<Webhook>,
    pub(crate) conversions: Conversions,
}

/// A readiness check of the user's own.
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) check: CheckFn,
}

pub(crate) type CheckFn = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

impl Manager {
    /// A program without any parts yet. The name is its user agent and its
    /// lease's name, and stands in logs.
    pub fn new(name: &str) -> Self {
        Manager {
            name: name.to_owned(),
            version: None,
            description: None,
            controllers: Vec::new(),
            runnables: Vec::new(),
            reads: Vec::new(),
            needs: Vec::new(),
            checks: Vec::new(),
            cache: CacheOptions {
                name: name.to_owned(),
                ..CacheOptions::default()
            },
            definitions: Definitions::default(),
            metrics: Vec::new(),
            webhooks: Vec::new(),
            conversions: Conversions::default(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names the program's version, usually `env!("CARGO_PKG_VERSION")`; the log
    /// shows it when the program starts.
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Says in a sentence what the program is for: `--help`, charts and bundles show it.
    pub fn description(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// Adds a controller.
    pub fn controller(mut self, mut controller: Controller) -> Self {
        self.metrics.append(&mut controller.metrics);
        self.controllers.push(controller);
        self
    }

    /// Adds a piece of work.
    pub fn runnable(mut self, runnable: Runnable) -> Self {
        self.runnables.push(runnable);
        self
    }

    /// Keeps a kind in the cache for the runnables to read. They start when it is there.
    pub fn reads<K: Typed>(mut self) -> Self {
        self.reads
            .push(DeclaredRead::new::<K>(Selection::default()));
        self
    }

    /// Declares that the program writes objects of a kind, a runnable of it for
    /// example: `.writes::<Secret>(Verb::Create | Verb::Patch)`. A controller declares what it
    /// writes by itself. A write that nothing declares is refused before it is sent;
    /// see [`rights`](crate::rights).
    pub fn writes<K: Typed>(self, verbs: impl Into<Verbs>) -> Self {
        self.needs(Right::of::<K>(verbs))
    }

    /// Declares any other right that the program needs: live reads, subresources,
    /// objects by their names, kinds that are known only at run time.
    pub fn needs(mut self, right: Right) -> Self {
        self.needs.push(right);
        self
    }

    /// Chooses how a kind is cached: which part of it, cut down to what, delivered
    /// again how often.
    pub fn caching<K: Typed>(mut self, options: KindOptions<K>) -> Self {
        self.cache = self.cache.kind(options);
        self
    }

    /// The same for every kind that is read as `K`, such as
    /// [`AnyMeta`](crate::source::AnyMeta), and has no choices of its own.
    pub fn caching_every<K: Object>(mut self, options: KindOptions<K>) -> Self {
        self.cache = self.cache.every_kind(options);
        self
    }

    /// Names a kind of the program's own, from a `#[derive(CustomResource)]`. With
    /// [`Config::install_kinds`] it is installed, or brought up to date, before
    /// anything else starts.
    ///
    /// Several versions of a kind, each a type of its own, become one definition.
    /// Objects are stored in one of them: the types of the others say
    /// `#[kube(storage = false)]`. The versions convert by their `apiVersion`
    /// alone, so a field that is to survive has the same name in each; a version
    /// with other fields is declared with [`Manager::serves`].
    pub fn defines<K: CustomResourceExt>(mut self) -> Self {
        self.definitions.add(K::crd());
        self
    }

    /// Names a version of a kind that is converted by [`Convert`]: by way of its hub, another
    /// version, which [`Manager::defines`] names. All versions of the kind are then converted by
    /// this program, which has to run for them to be read and written. Where it does not serve
    /// its webhooks, it installs the kind with the versions alone that need no conversion.
    ///
    /// See the guide's chapter on [webhooks](crate::guide::webhooks).
    pub fn serves<K: Convert + CustomResourceExt>(mut self) -> Self {
        self.definitions.add_converted(K::crd());
        self.conversions.add::<K>();
        self
    }

    /// Adds a webhook; see [`webhook`].
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// The objects that a cluster needs for the program's webhooks, if it runs in `namespace` in
    /// pods with these labels. No authority is in them: the program, or cert-manager, adds those.
    pub fn webhook_manifests(
        &self,
        namespace: &str,
        pod_labels: &BTreeMap<String, String>,
    ) -> webhook::Manifests {
        if self.webhooks.is_empty() && self.conversions.is_empty() {
            return webhook::Manifests::default();
        }
        let registration = Registration {
            program: &self.name,
            webhooks: &self.webhooks,
            reached: &Reached::by_service_of(&self.name, namespace),
            ca_bundle: None,
        };
        registration.manifests(pod_labels)
    }

    /// The kinds of the program's own as a cluster needs them whose program runs in `namespace`:
    /// [`Manager::definitions`], with the conversion of those that [`Manager::serves`] converts.
    pub fn definitions_in(&self, namespace: &str) -> Vec<CustomResourceDefinition> {
        let registration = Registration {
            program: &self.name,
            webhooks: &self.webhooks,
            reached: &Reached::by_service_of(&self.name, namespace),
            ca_bundle: None,
        };
        registration.with_conversions(self.definitions(), &self.conversions)
    }

    /// The kinds of the program's own, as it would install them.
    pub fn definitions(&self) -> &[CustomResourceDefinition] {
        self.definitions.merged()
    }

    /// Adds a check that must pass for the program to count as ready; its error is shown.
    pub fn check<F>(mut self, name: &str, check: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push(Check {
            name: name.to_owned(),
            check: Box::new(move || Box::pin(check())),
        });
        self
    }

    /// Adds a metric of the program's own beside those of the library, under the
    /// name it is scraped by. The program keeps a clone to change it.
    ///
    /// A name that is taken already keeps the program from starting.
    ///
    /// ```
    /// use sendo::Manager;
    /// use sendo::metrics::Counter;
    ///
    /// let added: Counter = Counter::default();
    /// let program = Manager::new("tenants").metric("namespaces_added_total", "Namespaces added", added.clone());
    /// added.inc();
    /// # drop(program);
    /// ```
    pub fn metric(mut self, name: &str, help: &str, metric: impl Metric) -> Self {
        self.metrics.push(own_metric(name, help, metric));
        self
    }

    /// The controllers, as declared.
    pub fn declarations(&self) -> impl Iterator<Item = &Declaration> {
        self.controllers.iter().map(Controller::declaration)
    }

    /// All kinds that the program watches or reads, each once, in order.
    pub fn kinds(&self) -> Vec<Kind> {
        let controllers = self.declarations().flat_map(|d| d.kinds.iter().cloned());
        let all: BTreeSet<Kind> = controllers
            .chain(self.reads.iter().map(|read| read.kind.clone()))
            .chain(self.webhooks.iter().flat_map(Webhook::kinds).cloned())
            .collect();
        all.into_iter().collect()
    }

    /// What is wrong with the declaration, each in a sentence that names the fix.
    /// [`Manager::run`] refuses to start a program with problems.
    ///
    /// Found are: parts without a name or with one that is taken or that the API
    /// server would refuse, controllers that could never start or that watch every kind
    /// without the right to, indexes over kinds
    /// that are not declared, owners that cannot own, checks of one name, and
    /// versions of a kind that contradict each other.
    pub fn problems(&self) -> Vec<String> {
        problems::find(self)
    }

    pub(crate) fn refuse_problems(&self, config: &Config) -> Result<()> {
        let problems = [self.problems(), problems::of_config(self, config)].concat();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Error::terminal(problems.join("; "))),
        }
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("name", &self.name)
            .field("controllers", &self.controllers)
            .field("runnables", &self.runnables)
            .finish_non_exhaustive()
    }
}
