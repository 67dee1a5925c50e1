//! What is counted of requests and watches.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go`: `MonitorRequest`, `RecordDroppedRequest`,
//!   `RecordRequestTermination`, `RecordLongRunning`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/metrics/metrics.go`: `RequestBodySizes`

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::page::{Description, Page};
use super::table::{Counter, Gauge, Histogram, Series, Table};

const DURATIONS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const SLI_DURATIONS: &[f64] = &[
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0,
    30.0, 45.0, 60.0,
];
const RESPONSE_SIZES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const EVENT_SIZES: &[f64] = &[
    1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0,
];
/// From 50 kB to 3.05 MB in steps of 100 kB.
const BODY_SIZES: &[f64] = &[
    5e4, 1.5e5, 2.5e5, 3.5e5, 4.5e5, 5.5e5, 6.5e5, 7.5e5, 8.5e5, 9.5e5, 1.05e6, 1.15e6, 1.25e6,
    1.35e6, 1.45e6, 1.55e6, 1.65e6, 1.75e6, 1.85e6, 1.95e6, 2.05e6, 2.15e6, 2.25e6, 2.35e6, 2.45e6,
    2.55e6, 2.65e6, 2.75e6, 2.85e6, 2.95e6, 3.05e6,
];

/// The part of the server that answers.
pub(crate) const APISERVER: &str = "apiserver";

/// What a request is, in the words of its labels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Labels<'a> {
    pub(crate) verb: &'a str,
    pub(crate) dry_run: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) scope: &'a str,
    pub(crate) component: &'a str,
}

/// The names of the labels, in the order of [`Labels::values`].
const LABELS: &[&str] = &[
    "verb",
    "dry_run",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
];
/// The same with the code of the response.
const WITH_CODE: &[&str] = &[
    "verb",
    "dry_run",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
    "code",
];
/// The same without `dry_run`.
const WITHOUT_DRY_RUN: &[&str] = &[
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
];

impl<'a> Labels<'a> {
    fn values(&self) -> [&'a str; 8] {
        [
            self.verb,
            self.dry_run,
            self.group,
            self.version,
            self.resource,
            self.subresource,
            self.scope,
            self.component,
        ]
    }

    fn without_dry_run(&self) -> [&'a str; 7] {
        [
            self.verb,
            self.group,
            self.version,
            self.resource,
            self.subresource,
            self.scope,
            self.component,
        ]
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u16,
    pub(crate) time: Duration,
    /// How much of that webhooks took.
    pub(crate) webhook_time: Duration,
    /// The bytes of the response; `None` where Kubernetes does not count them.
    pub(crate) size: Option<u64>,
}

/// What is counted of requests with the same labels, found with one look.
#[derive(Debug)]
pub(crate) struct RequestSeries {
    codes: RwLock<Vec<(u16, Counter)>>,
    durations: Histogram,
    sli_durations: Histogram,
    sizes: Histogram,
}

impl RequestSeries {
    fn new() -> Self {
        RequestSeries {
            codes: RwLock::default(),
            durations: Histogram::new(DURATIONS),
            sli_durations: Histogram::new(SLI_DURATIONS),
            sizes: Histogram::new(RESPONSE_SIZES),
        }
    }

    fn count(&self, code: u16) {
        if let Some((_, counter)) = self.codes.read().iter().find(|(own, _)| *own == code) {
            return counter.add(1);
        }
        let mut codes = self.codes.write();
        if let Some((_, counter)) = codes.iter().find(|(own, _)| *own == code) {
            return counter.add(1);
        }
        let counter = Counter::default();
        counter.add(1);
        codes.push((code, counter));
        codes.sort_by_key(|(code, _)| *code);
    }
}

/// What is counted of requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Table<RequestSeries>,
    long_running: Table<Gauge>,
    terminations: Table<Counter>,
    of_itself: Table<Counter>,
    deprecated: Table<Gauge>,
    bodies: Table<Histogram>,
    watch_events: Table<WatchSeries>,
}

/// What is counted of the events of one resource.
#[derive(Debug)]
pub(crate) struct WatchSeries {
    events: Counter,
    sizes: Histogram,
}

/// Counts a request as under way until it is dropped.
#[derive(Debug)]
pub(crate) struct LongRunning(Arc<Series<Gauge>>);

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.value.add(-1);
    }
}

/// Counts the events of a watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchEvents(Arc<Series<WatchSeries>>);

impl WatchEvents {
    pub(crate) fn sent(&self, bytes: usize) {
        self.0.value.events.add(1);
        self.0.value.sizes.observe(bytes as f64);
    }
}

impl Requests {
    /// Counts a request that has ended.
    pub(crate) fn observe(&self, labels: &Labels<'_>, outcome: &Outcome) {
        self.all
            .with(&labels.values(), RequestSeries::new, |series| {
                series.count(outcome.code);
                series.durations.observe(outcome.time.as_secs_f64());
                if labels.dry_run.is_empty() {
                    let own = outcome.time.saturating_sub(outcome.webhook_time);
                    series.sli_durations.observe(own.as_secs_f64());
                }
                if let Some(size) = outcome.size {
                    series.sizes.observe(size as f64);
                }
            });
    }

    /// Counts a request that was refused before anything was done for it.
    pub(crate) fn dropped(&self, labels: &Labels<'_>, code: u16) {
        let count = |series: &RequestSeries| series.count(code);
        self.all.with(&labels.values(), RequestSeries::new, count);
        self.terminated(labels, code);
    }

    /// Counts a request that the server ended in self-defense.
    pub(crate) fn terminated(&self, labels: &Labels<'_>, code: u16) {
        let [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
        ] = labels.without_dry_run();
        let code = code.to_string();
        self.terminations.count(&[
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
            &code,
        ]);
    }

    /// Counts a request that the server sent to itself.
    pub(crate) fn of_itself(&self, labels: &Labels<'_>) {
        let Labels {
            verb,
            group,
            resource,
            subresource,
            ..
        } = *labels;
        self.of_itself.count(&[verb, group, resource, subresource]);
    }

    /// Notes that a deprecated API was requested. None of those served has a release in which
    /// it is removed.
    pub(crate) fn deprecated(&self, labels: &Labels<'_>) {
        let Labels {
            group,
            version,
            resource,
            subresource,
            ..
        } = *labels;
        let labels = [group, version, resource, subresource, ""];
        self.deprecated
            .with(&labels, Gauge::default, |gauge| gauge.set(1));
    }

    /// Counts a request as one that lasts.
    pub(crate) fn lasts(&self, labels: &Labels<'_>) -> LongRunning {
        let series = self
            .long_running
            .get(&labels.without_dry_run(), Gauge::default);
        series.value.add(1);
        LongRunning(series)
    }

    /// Counts the body of a request.
    pub(crate) fn body(&self, group: &str, resource: &str, verb: &str, size: usize) {
        self.bodies.with(
            &[group, resource, verb],
            || Histogram::new(BODY_SIZES),
            |histogram| histogram.observe(size as f64),
        );
    }

    /// Counts the events of a watch on a resource.
    pub(crate) fn watch_events(&self, group: &str, version: &str, resource: &str) -> WatchEvents {
        let make = || WatchSeries {
            events: Counter::default(),
            sizes: Histogram::new(EVENT_SIZES),
        };
        WatchEvents(self.watch_events.get(&[group, version, resource], make))
    }

    pub(super) fn reset(&self) {
        self.all.clear();
        self.terminations.clear();
        self.of_itself.clear();
        self.deprecated.clear();
        self.bodies.clear();
    }

    pub(super) fn write(&self, page: &mut Page) {
        self.write_requests(page);
        page.gauges(
            &Description {
                name: "apiserver_longrunning_requests",
                help: "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
                labels: WITHOUT_DRY_RUN,
            },
            &self.long_running,
        );
        page.counters(
            &Description {
                name: "apiserver_request_terminations_total",
                help: "[ALPHA] Number of requests which apiserver terminated in self-defense.",
                labels: &[
                    "verb",
                    "group",
                    "version",
                    "resource",
                    "subresource",
                    "scope",
                    "component",
                    "code",
                ],
            },
            &self.terminations,
        );
        page.counters(
            &Description {
                name: "apiserver_selfrequest_total",
                help: "[ALPHA] Counter of apiserver self-requests broken out for each verb, API resource and subresource.",
                labels: &["verb", "group", "resource", "subresource"],
            },
            &self.of_itself,
        );
        page.gauges(
            &Description {
                name: "apiserver_requested_deprecated_apis",
                help: "[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
                labels: &[
                    "group",
                    "version",
                    "resource",
                    "subresource",
                    "removed_release",
                ],
            },
            &self.deprecated,
        );
        page.histograms(
            &Description {
                name: "apiserver_request_body_size_bytes",
                help: "[ALPHA] Apiserver request body size in bytes broken out by resource and verb.",
                labels: &["group", "resource", "verb"],
            },
            &self.bodies,
        );
        self.write_events(page);
    }

    fn write_requests(&self, page: &mut Page) {
        let all = self.all.sorted();
        let mut codes: Vec<(Vec<String>, f64)> = Vec::new();
        for series in &all {
            for (code, counter) in series.value.codes.read().iter() {
                let labels = series.labels.iter().map(|label| label.to_string());
                let labels = labels.chain([code.to_string()]).collect();
                codes.push((labels, counter.value() as f64));
            }
        }
        page.values(
            "counter",
            &Description {
                name: "apiserver_request_total",
                help: "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
                labels: WITH_CODE,
            },
            codes.iter().map(|(labels, count)| (&labels[..], *count)),
        );
        page.histogram_values(
            &Description {
                name: "apiserver_request_duration_seconds",
                help: "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
                labels: LABELS,
            },
            all.iter()
                .map(|series| (&*series.labels, &series.value.durations))
                .filter(|(_, histogram)| histogram.count() > 0),
        );
        // Without the label `dry_run`, which is the second and empty for what is counted here.
        let real: Vec<(Vec<&str>, &RequestSeries)> = all
            .iter()
            .filter(|series| series.labels[1].is_empty())
            .map(|series| {
                let labels = series.labels.iter().map(|label| &**label);
                let (first, others) = (labels.clone().take(1), labels.skip(2));
                (first.chain(others).collect(), &series.value)
            })
            .collect();
        page.histogram_values(
            &Description {
                name: "apiserver_request_sli_duration_seconds",
                help: "[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
                labels: WITHOUT_DRY_RUN,
            },
            real.iter()
                .map(|(labels, series)| (&labels[..], &series.sli_durations))
                .filter(|(_, histogram)| histogram.count() > 0),
        );
        // Sizes are counted of reads alone, which have no dry run.
        page.histogram_values(
            &Description {
                name: "apiserver_response_sizes",
                help: "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                labels: WITHOUT_DRY_RUN,
            },
            real.iter()
                .map(|(labels, series)| (&labels[..], &series.sizes))
                .filter(|(_, histogram)| histogram.count() > 0),
        );
    }

    fn write_events(&self, page: &mut Page) {
        let labels = &["group", "version", "resource"];
        let events = self.watch_events.sorted();
        page.values(
            "counter",
            &Description {
                name: "apiserver_watch_events_total",
                help: "[ALPHA] Number of events sent in watch clients",
                labels,
            },
            events
                .iter()
                .map(|series| (&*series.labels, series.value.events.value() as f64)),
        );
        page.histogram_values(
            &Description {
                name: "apiserver_watch_events_sizes",
                help: "[ALPHA] Watch event size distribution in bytes",
                labels,
            },
            events
                .iter()
                .map(|series| (&*series.labels, &series.value.sizes)),
        );
    }
}
