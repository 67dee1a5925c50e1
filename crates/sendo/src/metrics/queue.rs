//! What a work queue counts: times as they pass, the rest when it is scraped.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::{Histograms, Labels, Registered, Registry};
use crate::queue::{Observer, Queue, Stats};

pub(super) struct Families {
    waiting: Histograms,
    working: Histograms,
}

impl Families {
    pub(super) fn register(to: &mut Registered) -> Self {
        let seconds = || Histograms::new_with_constructor(|| Histogram::new(powers_of_ten()));
        Families {
            waiting: to.own(
                "workqueue_queue_duration_seconds",
                "How long entries are ready before they are picked",
                seconds(),
            ),
            working: to.own(
                "workqueue_work_duration_seconds",
                "How long entries are worked on",
                seconds(),
            ),
        }
    }
}

/// From ten nanoseconds to a thousand seconds; by multiplication, as the bounds
/// in the field came to be, rounding included.
fn powers_of_ten() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(10e-9), |bound| Some(bound * 10.0)).take(12)
}

/// The metrics of one queue.
///
/// ```
/// use sendo::metrics::{QueueMetrics, Registry};
/// use sendo::queue::{Options, Queue};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let world = sendo::World::seeded(1);
/// let metrics = QueueMetrics::new(&Registry::new(), "pods");
/// let observer = Some(metrics.observer());
/// let queue: Queue<String> = Queue::new(&world, Options { observer, ..Options::default() });
/// metrics.follow(&queue);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    name: String,
    times: Arc<Times>,
    queues: Arc<Queues>,
}

impl QueueMetrics {
    /// The metrics of the queue of the controller named `name`.
    pub fn new(registry: &Registry, name: &str) -> Self {
        let families = &registry.families().queue;
        let labels = labels(name);
        QueueMetrics {
            name: name.to_owned(),
            times: Arc::new(Times {
                waiting: families.waiting.get_or_create_owned(&labels),
                working: families.working.get_or_create_owned(&labels),
            }),
            queues: registry.shared.queues.clone(),
        }
    }

    /// The observer to set in the options of the queue.
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.times.clone()
    }

    /// Asks `queue` for its depth and counts at every scrape, until it is dropped.
    pub fn follow<K: Hash + Eq + Clone + Debug + Send + 'static>(&self, queue: &Queue<K>) {
        let source: Source = Box::new(queue.stats_while_alive());
        self.queues.lock().push((self.name.clone(), source));
    }
}

fn labels(name: &str) -> Labels {
    let name = name.to_owned();
    vec![("controller", name.clone()), ("name", name)]
}

#[derive(Debug)]
struct Times {
    waiting: Histogram,
    working: Histogram,
}

impl Observer for Times {
    fn picked(&self, waited: Duration) {
        self.waiting.observe(waited.as_secs_f64());
    }

    fn done(&self, worked: Duration) {
        self.working.observe(worked.as_secs_f64());
    }
}

type Source = Box<dyn Fn() -> Option<Stats> + Send + Sync>;

/// The queues that are read at every scrape.
#[derive(Default)]
pub(super) struct Queues(Mutex<Vec<(String, Source)>>);

impl Queues {
    fn lock(&self) -> parking_lot::MutexGuard<'_, Vec<(String, Source)>> {
        self.0.lock()
    }
}

impl Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.lock().iter().map(|(name, _)| name.clone()).collect();
        f.debug_tuple("Queues").field(&names).finish()
    }
}

/// The families that [`Queues`] writes.
pub(super) const COLLECTED: [&str; 5] = [
    "workqueue_depth",
    "workqueue_adds",
    "workqueue_retries",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
];

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut stats = Vec::new();
        self.lock().retain(|(name, source)| {
            let now = source();
            stats.extend(now.clone().map(|now| (labels(name), now)));
            now.is_some()
        });

        let mut depths = Vec::new();
        for (labels, now) in &stats {
            for (priority, depth) in &now.ready {
                let mut labels = labels.clone();
                labels.push(("priority", priority.0.to_string()));
                depths.push((labels, ConstGauge::new(*depth as u64)));
            }
        }
        let each = |value: fn(&Stats) -> f64| {
            let series = stats.iter();
            series.map(move |(labels, now)| (labels.clone(), ConstGauge::new(value(now))))
        };
        let count = |value: fn(&Stats) -> u64| {
            let series = stats.iter();
            series.map(move |(labels, now)| (labels.clone(), ConstCounter::new(value(now))))
        };
        let [depth, adds, retries, unfinished, longest] = COLLECTED;
        write(&mut encoder, depth, "Entries ready to be picked", depths)?;
        write(
            &mut encoder,
            adds,
            "Additions that were not merged into an entry there was",
            count(|stats| stats.adds),
        )?;
        write(
            &mut encoder,
            retries,
            "Additions after a failure or with a delay",
            count(|stats| stats.retries),
        )?;
        write(
            &mut encoder,
            unfinished,
            "How long all entries in work have been worked on, added up",
            each(|stats| stats.unfinished.as_secs_f64()),
        )?;
        write(
            &mut encoder,
            longest,
            "How long the longest of the entries in work has been worked on",
            each(|stats| stats.longest_running.as_secs_f64()),
        )
    }
}

fn write<M: EncodeMetric + prometheus_client::metrics::TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Labels, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in series {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;
    use crate::queue::{Add, Options, Priority, Reason};
    use sendo_world::World;

    #[tokio::test(start_paused = true)]
    async fn a_queue_shows_its_depth_counts_and_times() {
        let world = World::seeded(1);
        let registry = Registry::new();
        let metrics = QueueMetrics::new(&registry, "pods");
        let options = Options {
            observer: Some(metrics.observer()),
            ..Options::default()
        };
        let queue = Queue::new(&world, options);
        metrics.follow(&queue);
        let seconds = Duration::from_secs;
        for key in 0..4 {
            queue.add(key, Reason::EVENT);
        }
        queue.add(4, Add::because(Reason::INITIAL).priority(Priority::LOW));
        queue.add(0, Reason::EVENT);
        queue.add(9, Add::because(Reason::AFTER).after(seconds(100)));
        world.clock().sleep(seconds(5)).await;
        let first = queue.next().await.unwrap();
        let _second = queue.next().await.unwrap();
        world.clock().sleep(seconds(20)).await;
        drop(first);

        let page = registry.encode(Format::Prometheus);
        let labels = "controller=\"pods\",name=\"pods\"";
        for line in [
            format!("depth{{{labels},priority=\"-100\"}} 1"),
            format!("depth{{{labels},priority=\"0\"}} 2"),
            format!("adds_total{{{labels}}} 6"),
            format!("retries_total{{{labels}}} 1"),
            format!("unfinished_work_seconds{{{labels}}} 20"),
            format!("longest_running_processor_seconds{{{labels}}} 20"),
            format!("queue_duration_seconds_sum{{{labels}}} 10"),
            format!("queue_duration_seconds_count{{{labels}}} 2"),
            format!("queue_duration_seconds_bucket{{{labels},le=\"1e-08\"}} 0"),
            format!("queue_duration_seconds_bucket{{{labels},le=\"9.999999999999999e-06\"}} 0"),
            format!("work_duration_seconds_sum{{{labels}}} 20"),
        ] {
            let line = format!("workqueue_{line}\n");
            assert!(page.contains(&line), "{line} is not in\n{page}");
        }
    }

    #[tokio::test]
    async fn a_queue_that_is_gone_is_asked_no_more() {
        let world = World::seeded(1);
        let registry = Registry::new();
        let queue: Queue<u8> = Queue::new(&world, Options::default());
        QueueMetrics::new(&registry, "pods").follow(&queue);
        let adds = "workqueue_adds_total{";
        assert!(registry.encode(Format::Prometheus).contains(adds));
        drop(queue);
        assert!(!registry.encode(Format::Prometheus).contains(adds));
        world.tasks().ended().await;
    }
}
