//! Values by their labels, counted without an allocation.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fnv::FnvHasher;
use parking_lot::RwLock;

/// Values by the values of their labels.
///
/// The labels of a request are borrowed from it: they are hashed where they are, and copied
/// only for the first request that has them.
#[derive(Debug)]
pub(crate) struct Table<V> {
    series: RwLock<HashMap<u64, Vec<Arc<Series<V>>>>>,
}

/// A value and its labels.
#[derive(Debug)]
pub(crate) struct Series<V> {
    pub(super) labels: Box<[Box<str>]>,
    pub(super) value: V,
}

impl<V> Series<V> {
    fn is_of(&self, labels: &[&str]) -> bool {
        self.labels
            .iter()
            .map(|own| &**own)
            .eq(labels.iter().copied())
    }
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table {
            series: RwLock::default(),
        }
    }
}

impl<V> Table<V> {
    /// Gives the value of these labels to `change`; a new one if there is none.
    pub(crate) fn with<R>(
        &self,
        labels: &[&str],
        make: impl FnOnce() -> V,
        change: impl FnOnce(&V) -> R,
    ) -> R {
        let hash = hash(labels);
        if let Some(series) = self.series.read().get(&hash)
            && let Some(found) = series.iter().find(|series| series.is_of(labels))
        {
            return change(&found.value);
        }
        let found = self.insert(hash, labels, make);
        change(&found.value)
    }

    /// The value of these labels, to be kept by what counts for as long as it lasts.
    pub(crate) fn get(&self, labels: &[&str], make: impl FnOnce() -> V) -> Arc<Series<V>> {
        self.insert(hash(labels), labels, make)
    }

    fn insert(&self, hash: u64, labels: &[&str], make: impl FnOnce() -> V) -> Arc<Series<V>> {
        let mut all = self.series.write();
        let series = all.entry(hash).or_default();
        if let Some(found) = series.iter().find(|series| series.is_of(labels)) {
            return Arc::clone(found);
        }
        let new = Arc::new(Series {
            labels: labels.iter().map(|label| Box::from(*label)).collect(),
            value: make(),
        });
        series.push(Arc::clone(&new));
        new
    }

    /// All values, in the order of their labels.
    pub(super) fn sorted(&self) -> Vec<Arc<Series<V>>> {
        let all = self.series.read();
        let mut sorted: Vec<_> = all.values().flatten().cloned().collect();
        sorted.sort_by(|a, b| a.labels.cmp(&b.labels));
        sorted
    }

    /// Forgets the values of labels that are not to be kept.
    pub(crate) fn retain(&self, is_kept: impl Fn(&[Box<str>]) -> bool) {
        let mut all = self.series.write();
        for series in all.values_mut() {
            series.retain(|series| is_kept(&series.labels));
        }
    }

    /// Forgets all values.
    pub(super) fn clear(&self) {
        self.series.write().clear();
    }
}

impl Table<Counter> {
    /// Counts one more.
    pub(crate) fn count(&self, labels: &[&str]) {
        self.with(labels, Counter::default, |counter| counter.add(1));
    }
}

impl Table<Gauge> {
    /// Sets a value.
    pub(crate) fn set(&self, labels: &[&str], value: i64) {
        self.with(labels, Gauge::default, |gauge| gauge.set(value));
    }
}

impl Table<Histogram> {
    /// Adds an observation of a time.
    pub(crate) fn observe(&self, labels: &[&str], buckets: &'static [f64], time: Duration) {
        self.with(
            labels,
            || Histogram::new(buckets),
            |histogram| histogram.observe(time.as_secs_f64()),
        );
    }
}

/// A write observes ten or more values: with the standard hasher that took 2 % of it.
fn hash(labels: &[&str]) -> u64 {
    let mut hasher = FnvHasher::default();
    labels.hash(&mut hasher);
    hasher.finish()
}

/// What only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What grows and shrinks.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn add(&self, value: i64) {
        self.0.fetch_add(value, Relaxed);
    }

    pub(super) fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// How often values were in which ranges.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// How many were at most a bound and over the one before it; the last for those over all.
    counts: Box<[AtomicU64]>,
    /// The sum in millionths: an integer is added to without a loop.
    millionths: AtomicU64,
}

impl Histogram {
    /// An empty histogram whose buckets end at these bounds.
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Histogram {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            millionths: AtomicU64::new(0),
        }
    }

    pub(crate) fn observe(&self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound);
        self.counts[bucket.unwrap_or(self.bounds.len())].fetch_add(1, Relaxed);
        // A cast to an integer is never out of its range.
        self.millionths
            .fetch_add((value * 1e6).round() as u64, Relaxed);
    }

    /// The bounds, each with how many values were at most it; the last is infinite.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let mut count = 0;
        bounds.zip(&self.counts).map(move |(bound, own)| {
            count += own.load(Relaxed);
            (bound, count)
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|own| own.load(Relaxed)).sum()
    }

    pub(super) fn sum(&self) -> f64 {
        self.millionths.load(Relaxed) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_one_value_each() {
        let table: Table<Counter> = Table::default();
        table.count(&["a", "b"]);
        table.count(&["ab", ""]);
        table.count(&["a", "b"]);
        let shown: Vec<_> = table.sorted();
        let shown: Vec<_> = shown
            .iter()
            .map(|series| (&*series.labels[0], series.value.value()))
            .collect();
        assert_eq!(shown, [("a", 2), ("ab", 1)]);
    }

    #[test]
    fn a_value_at_a_bound_is_in_its_bucket() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 7.0] {
            histogram.observe(value);
        }
        let buckets: Vec<_> = histogram.cumulative().collect();
        assert_eq!(buckets, [(1.0, 2), (2.0, 3), (f64::INFINITY, 4)]);
        assert_eq!(histogram.sum(), 10.0);
    }
}
