//! Lines of several sources on one screen, told apart by prefix and colour.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Who says a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// This command.
    Dev,
    /// Cargo and the compiler.
    Build,
    /// The program.
    Program,
    /// The embedded cluster.
    Cluster,
}

impl Source {
    fn prefix(self) -> &'static str {
        match self {
            Source::Dev => "dev    ",
            Source::Build => "build  ",
            Source::Program => "program",
            Source::Cluster => "cluster",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Source::Dev => "1;32",
            Source::Build => "33",
            Source::Program => "36",
            Source::Cluster => "35",
        }
    }
}

/// The screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub(super) colour: bool,
}

impl Lines {
    pub(super) fn new() -> Self {
        Lines {
            colour: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// Prints a text, each line with the prefix of its source.
    pub(super) fn say(&self, source: Source, text: impl AsRef<str>) {
        let prefix = source.prefix();
        let mut block = String::new();
        for line in text.as_ref().lines() {
            match self.colour {
                true => block += &format!("\x1b[{}m{prefix} │\x1b[0m {line}\n", source.colour()),
                false => block += &format!("{prefix} │ {line}\n"),
            }
        }
        // Standard output is locked while a block is written, and a closed pipe is no error.
        let _ = io::stdout().lock().write_all(block.as_bytes());
    }

    /// Prints what the embedded cluster logs.
    pub(super) fn log_cluster(&self, filter: &str) -> Result<()> {
        let filter = EnvFilter::try_new(filter)
            .with_context(|| format!("--cluster-log {filter:?} is not a filter; try `info`"))?;
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(self.colour)
            .with_writer(*self)
            .init();
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LogWriter;

    fn make_writer(&'a self) -> LogWriter {
        LogWriter(*self)
    }
}

/// Writes log lines of the cluster. Each event is written as a whole.
#[derive(Debug)]
pub(super) struct LogWriter(Lines);

impl io::Write for LogWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.say(Source::Cluster, String::from_utf8_lossy(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
