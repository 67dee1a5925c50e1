//! Keeps the last warnings and errors that a run has logged.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::Context;

/// The maximum number of different entries that are kept.
const MAX_ENTRIES: usize = 10;

/// Fields whose values differ between two logs of the same problem; they are ignored.
const IGNORED_FIELDS: [&str; 2] = ["attempts", "again_in"];

/// The last warnings and errors of a run. Equal ones are one entry with a count. Clones share the entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentLogs(Arc<Mutex<VecDeque<Entry>>>);

#[derive(Debug)]
struct Entry {
    /// Virtual time since the start of the run, of the last time it was logged.
    at: Duration,
    level: Level,
    content: Content,
    times: u64,
}

#[derive(Debug, Default, PartialEq)]
struct Content {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl RecentLogs {
    /// A layer that collects what is logged from now on. It must be called inside the runtime of the run.
    pub(crate) fn layer<S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>>(
        &self,
    ) -> impl Layer<S> + use<S> {
        let collector = Collector {
            logs: self.clone(),
            started: Instant::now(),
        };
        collector.with_filter(LevelFilter::WARN)
    }

    /// Takes the entries, a line each, the newest last; empty if there are none.
    pub(crate) fn take(&self) -> String {
        let mut text = String::new();
        for entry in self.0.lock().drain(..) {
            let _ = writeln!(text, "{entry}");
        }
        text
    }

    fn add(&self, at: Duration, level: Level, content: Content) {
        let mut entries = self.0.lock();
        let previous = entries.iter().position(|entry| entry.content == content);
        let previous = previous.and_then(|index| entries.remove(index));
        let times = previous.map_or(0, |entry| entry.times) + 1;
        entries.push_back(Entry {
            at,
            level,
            content,
            times,
        });
        if entries.len() > MAX_ENTRIES {
            entries.pop_front();
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(
            f,
            "{seconds:>10.3} s {} {}",
            self.level, self.content.message
        )?;
        for (name, value) in &self.content.fields {
            write!(f, " {name}={value}")?;
        }
        match self.times {
            1 => Ok(()),
            times => write!(f, " ({times} times)"),
        }
    }
}

struct Collector {
    logs: RecentLogs,
    started: Instant,
}

impl<S: Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut content = Content::default();
        event.record(&mut content);
        let level = *event.metadata().level();
        self.logs.add(self.started.elapsed(), level, content);
    }
}

impl Visit for Content {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name if IGNORED_FIELDS.contains(&name) => {}
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}
