//! What sources that can be full have dropped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::{Labels, Registry};

/// The family that [`Sources`] writes.
pub(super) const COLLECTED: [&str; 1] = ["sendo_source_dropped"];

/// The sources that are read at every scrape, by controller and source.
#[derive(Debug, Default)]
pub(super) struct Sources(Mutex<Vec<(String, Arc<AtomicU64>)>>);

impl Registry {
    /// Shows how many events a source has dropped. `name` is `controller/source`.
    pub(crate) fn follow_source(&self, name: &str, dropped: Arc<AtomicU64>) {
        self.shared
            .sources
            .0
            .lock()
            .push((name.to_owned(), dropped));
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sources = self.0.lock();
        let [name] = COLLECTED;
        let help = "Events that were dropped because a source was full";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (name, dropped) in &*sources {
            let (controller, source) = name.split_once('/').unwrap_or((name, ""));
            let labels: Labels = vec![
                ("controller", controller.to_owned()),
                ("source", source.to_owned()),
            ];
            let count = ConstCounter::new(dropped.load(Ordering::Relaxed));
            count.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
