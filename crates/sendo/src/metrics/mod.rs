//! What a program counts, in a registry of its own.
//!
//! Names and labels are those of controller-runtime and client-go, so that the
//! dashboards and alerts of the field work unchanged. A program's own metrics
//! stand beside them:
//!
//! ```
//! use sendo::metrics::{Counter, Format, Registry};
//!
//! let registry = Registry::new();
//! let buckets: Counter = Counter::default();
//! registry.register("buckets_checked_total", "Buckets looked at", buckets.clone())?;
//! buckets.inc();
//!
//! let page = registry.encode(Format::Prometheus);
//! assert!(page.contains("\nbuckets_checked_total 1\n"));
//! # Ok::<(), sendo::metrics::MetricNameTaken>(())
//! ```

mod cache;
mod client;
mod controller;
mod events;
mod exposition;
mod format;
mod leader;
mod process;
mod queue;
mod source;
mod webhook;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::encoding::text;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry as Inner;

pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::family::Family;
pub use prometheus_client::metrics::gauge::Gauge;
pub use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
pub use prometheus_client::registry::Metric;

use crate::object::Kind;

pub(crate) use cache::InformerFigures;
pub use client::ClientMetrics;
pub use controller::{ActiveWorker, ControllerMetrics, ReconcileResult};
pub use events::EventMetrics;
pub use format::Format;
pub use leader::LeaderMetrics;
pub use queue::QueueMetrics;
pub use webhook::{ActiveReview, CertificateMetrics, WebhookMetrics};

/// The metrics of one manager. Clones share them.
///
/// Nothing is global: two managers in one process have a registry each.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    registered: Mutex<Registered>,
    families: Families,
    queues: Arc<queue::Queues>,
    sources: Arc<source::Sources>,
    caches: Arc<cache::Caches>,
    latency: Histograms,
}

#[derive(Default)]
struct Registered {
    metrics: Inner,
    names: BTreeSet<String>,
}

/// Seconds: an idle controller takes microseconds, a busy one longer.
const EVENT_BUCKETS: [f64; 9] = [1e-5, 1e-4, 1e-3, 5e-3, 0.025, 0.1, 0.5, 2.5, 10.0];

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics that parts of one manager share, distinguished by their labels.
struct Families {
    controller: controller::Families,
    queue: queue::Families,
    requests: client::Families,
    leader: Gauges,
    events: Counters,
    webhook: webhook::Families,
}

/// A metric that a program or a controller declares, registered when the manager starts.
pub(crate) type OwnMetric = Box<dyn FnOnce(&Registry) -> Result<(), MetricNameTaken> + Send>;

/// Declares a metric of the user's own.
pub(crate) fn own_metric(name: &str, help: &str, metric: impl Metric) -> OwnMetric {
    let (name, help) = (name.to_owned(), help.to_owned());
    Box::new(move |registry| registry.register(&name, &help, metric))
}

/// A metric of that name exists already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a metric named {0} is registered already: choose another name, or share the first one")]
pub struct MetricNameTaken(String);

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("names", &self.lock().names)
            .finish()
    }
}

impl Registry {
    /// A registry with the library's own metrics, and those of the process.
    pub fn new() -> Self {
        let mut registered = Registered::default();
        let families = Families {
            controller: controller::Families::register(&mut registered),
            queue: queue::Families::register(&mut registered),
            requests: client::Families::register(&mut registered),
            leader: leader::register(&mut registered),
            events: events::register(&mut registered),
            webhook: webhook::Families::register(&mut registered),
        };
        let queues = Arc::new(queue::Queues::default());
        let sources = Arc::new(source::Sources::default());
        let caches = Arc::new(cache::Caches::default());
        let latency = registered.own(
            "sendo_event_latency_seconds",
            "How long a change waits between its arrival in the cache and the controller's taking it",
            Histograms::new_with_constructor(|| Histogram::new(EVENT_BUCKETS)),
        );
        registered.names.extend(cache::COLLECTED.map(String::from));
        registered.names.extend(queue::COLLECTED.map(String::from));
        registered.names.extend(source::COLLECTED.map(String::from));
        registered.names.extend(process::NAMES.map(String::from));
        let collectors = &mut registered.metrics;
        collectors.register_collector(Box::new(queues.clone()));
        collectors.register_collector(Box::new(sources.clone()));
        collectors.register_collector(Box::new(caches.clone()));
        collectors.register_collector(Box::new(process::Process));
        Registry {
            shared: Arc::new(Shared {
                registered: Mutex::new(registered),
                families,
                queues,
                sources,
                caches,
                latency,
            }),
        }
    }

    /// How long changes of a kind wait in the cache for the controller.
    pub(crate) fn event_latency(&self, kind: &Kind) -> Histogram {
        let labels = vec![("kind", kind.to_string())];
        self.shared.latency.get_or_create_owned(&labels)
    }

    /// Registers a metric under the name it is scraped by: a counter's ends in `_total`.
    ///
    /// Keep a clone of the metric to change it; clones share their value.
    pub fn register(
        &self,
        name: &str,
        help: &str,
        metric: impl Metric,
    ) -> Result<(), MetricNameTaken> {
        self.lock().register(name, help, metric)
    }

    /// All metrics as text, each family's series in the order of their labels.
    pub fn encode(&self, format: Format) -> String {
        let mut text = String::new();
        let registered = self.lock();
        text::encode_registry(&mut text, &registered.metrics)
            .expect("a string takes any text, and metrics encode themselves");
        drop(registered);
        exposition::render(&text, format)
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        let registered = &self.shared.registered;
        registered.lock()
    }

    fn families(&self) -> &Families {
        &self.shared.families
    }
}

impl Registered {
    fn register(
        &mut self,
        name: &str,
        help: &str,
        metric: impl Metric,
    ) -> Result<(), MetricNameTaken> {
        // The encoder adds a counter's suffix by itself.
        let family = match metric.metric_type() {
            MetricType::Counter => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        if !self.names.insert(family.to_owned()) {
            return Err(MetricNameTaken(name.to_owned()));
        }
        // It also ends the help with a full stop, but does not escape it.
        let help = help.trim_end_matches('.');
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        self.metrics.register(family, help, metric);
        Ok(())
    }

    /// Registers a family of the library's own, whose names differ.
    fn own<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.register(name, help, metric.clone())
            .expect("the library's own names differ");
        metric
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_registered_once() {
        let registry = Registry::new();
        let again = registry.register("workqueue_adds_total", "x", Counter::<u64>::default());
        assert_eq!(again, Err(MetricNameTaken("workqueue_adds_total".into())));
        let first = registry.register("mine", "x", Gauge::<i64>::default());
        let second = registry.register("mine", "x", Gauge::<i64>::default());
        assert_eq!((first.is_ok(), second.is_ok()), (true, false));
    }

    #[test]
    fn help_of_several_lines_stays_one_line() {
        let registry = Registry::new();
        let metric = Gauge::<i64>::default();
        registry.register("mine", "a\nb \\ c.", metric).unwrap();
        let line = "# HELP mine a\\nb \\\\ c.\n";
        assert!(registry.encode(Format::Prometheus).contains(line));
    }

    #[test]
    fn two_registries_do_not_know_each_other() {
        let (one, other) = (Registry::new(), Registry::new());
        ControllerMetrics::new(&one, "only-here")
            .reconciled(ReconcileResult::Success, Default::default());
        assert!(one.encode(Format::Prometheus).contains("only-here"));
        assert!(!other.encode(Format::Prometheus).contains("only-here"));
    }

    #[test]
    fn a_page_is_the_same_every_time() {
        let registry = Registry::new();
        for name in ["d", "b", "a", "e", "c"] {
            ControllerMetrics::new(&registry, name);
        }
        let page = registry.encode(Format::Prometheus);
        let active: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("controller_runtime_active_workers{"))
            .collect();
        let expected = ["a", "b", "c", "d", "e"]
            .map(|name| format!("controller_runtime_active_workers{{controller=\"{name}\"}} 0"));
        assert_eq!(active, expected);
    }
}
