//! What went wrong in a run: the last warnings and errors that were logged.

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

/// How many different ones are kept.
const KEPT: usize = 10;

/// The fields that differ each time the same thing goes wrong again.
const PASSING: [&str; 2] = ["attempts", "again_in"];

/// The last warnings and errors of a run, each once however often it came. Clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Troubles(Arc<Mutex<VecDeque<Trouble>>>);

#[derive(Debug)]
struct Trouble {
    /// In virtual time since the run began.
    at: Duration,
    level: Level,
    said: Said,
    times: u64,
}

#[derive(Debug, Default, PartialEq)]
struct Said {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Troubles {
    /// Gathers what is logged from now on. Must be called inside the run's runtime.
    pub(crate) fn layer<S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>>(
        &self,
    ) -> impl Layer<S> + use<S> {
        let gather = Gather {
            troubles: self.clone(),
            began: Instant::now(),
        };
        gather.with_filter(LevelFilter::WARN)
    }

    /// Takes what has been gathered, a line each, newest last; nothing if there is nothing.
    pub(crate) fn take(&self) -> String {
        let mut text = String::new();
        for trouble in self.0.lock().drain(..) {
            let _ = writeln!(text, "{trouble}");
        }
        text
    }

    fn add(&self, at: Duration, level: Level, said: Said) {
        let mut troubles = self.0.lock();
        let before = troubles.iter().position(|known| known.said == said);
        let before = before.and_then(|place| troubles.remove(place));
        let times = before.map_or(0, |known| known.times) + 1;
        troubles.push_back(Trouble {
            at,
            level,
            said,
            times,
        });
        if troubles.len() > KEPT {
            troubles.pop_front();
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        write!(f, "{seconds:>10.3} s {} {}", self.level, self.said.message)?;
        for (name, value) in &self.said.fields {
            write!(f, " {name}={value}")?;
        }
        match self.times {
            1 => Ok(()),
            times => write!(f, " ({times} times)"),
        }
    }
}

struct Gather {
    troubles: Troubles,
    began: Instant,
}

impl<S: Subscriber> Layer<S> for Gather {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let level = *event.metadata().level();
        self.troubles.add(self.began.elapsed(), level, said);
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name if PASSING.contains(&name) => {}
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}
