//! Progress of what may take longer than a second.

use std::io::Read;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal; nothing elsewhere.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar for so many bytes.
    pub(super) fn new(what: &'static str, bytes: u64) -> Self {
        let bar = ProgressBar::new(bytes).with_message(what);
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes} of {total_bytes}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Counts what is read.
    pub(super) fn reading<R: Read>(&self, data: R) -> impl Read {
        self.0.wrap_read(data)
    }

    /// Counts bytes.
    pub(super) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
