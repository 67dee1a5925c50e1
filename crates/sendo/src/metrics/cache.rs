//! What the cache holds and how its watches are doing, read at every scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Labels, Registry};

/// The families that [`Caches`] writes.
pub(super) const COLLECTED: [&str; 6] = [
    "sendo_cache_objects",
    "sendo_cache_bytes",
    "sendo_watch_lists",
    "sendo_watch_restarts",
    "sendo_watch_failing",
    "sendo_watch_lag_seconds",
];

/// What one informer holds and how its watch is doing.
pub(crate) struct InformerFigures {
    pub(crate) kind: String,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) lists: u64,
    pub(crate) restarts: u64,
    /// How many of its watches fail.
    pub(crate) failing: u64,
    pub(crate) lag: Duration,
}

type Source = Box<dyn Fn() -> Option<Vec<InformerFigures>> + Send + Sync>;

/// The caches that are read at every scrape.
#[derive(Default)]
pub(super) struct Caches(Mutex<Vec<Source>>);

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caches")
    }
}

impl Registry {
    /// Asks for figures at every scrape, until there are none.
    pub(crate) fn follow_informers(
        &self,
        figures: impl Fn() -> Option<Vec<InformerFigures>> + Send + Sync + 'static,
    ) {
        let mut caches = self.shared.caches.0.lock();
        caches.push(Box::new(figures));
    }
}

/// All informers of a kind together.
#[derive(Default)]
struct OfKind {
    objects: u64,
    bytes: u64,
    lists: u64,
    restarts: u64,
    failing: u64,
    lag: f64,
}

impl OfKind {
    fn add(&mut self, figures: &InformerFigures) {
        self.objects += figures.objects;
        self.bytes += figures.bytes;
        self.lists += figures.lists;
        self.restarts += figures.restarts;
        self.failing += figures.failing;
        self.lag = self.lag.max(figures.lag.as_secs_f64());
    }
}

impl Collector for Caches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<String, OfKind> = BTreeMap::new();
        let mut caches = self.0.lock();
        caches.retain(|source| {
            let figures = source();
            for figures in figures.iter().flatten() {
                kinds.entry(figures.kind.clone()).or_default().add(figures);
            }
            figures.is_some()
        });
        drop(caches);
        let [objects, bytes, lists, restarts, failing, lag] = COLLECTED;
        let mut write = |name, help, kind, value: &dyn Fn(&OfKind) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (name, figures) in &kinds {
                let labels: Labels = vec![("kind", name.clone())];
                let encoder = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => {
                        ConstCounter::new(value(figures) as u64).encode(encoder)?
                    }
                    _ => ConstGauge::new(value(figures)).encode(encoder)?,
                }
            }
            Ok::<(), fmt::Error>(())
        };
        let (gauge, counter) = (MetricType::Gauge, MetricType::Counter);
        write(objects, "Objects in the cache", gauge, &|kind| {
            kind.objects as f64
        })?;
        write(
            bytes,
            "Bytes of the objects in the cache as JSON, or packed; decoded ones take several times as much memory",
            gauge,
            &|kind| kind.bytes as f64,
        )?;
        write(lists, "How often everything was listed", counter, &|kind| {
            kind.lists as f64
        })?;
        write(
            restarts,
            "Watches that were opened after one had ended",
            counter,
            &|kind| kind.restarts as f64,
        )?;
        write(failing, "Watches that fail now", gauge, &|kind| {
            kind.failing as f64
        })?;
        write(
            lag,
            "Seconds since the API server was last heard of on the watch",
            gauge,
            &|kind| kind.lag,
        )
    }
}
