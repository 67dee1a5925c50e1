//! Output for people: lines of text, with colour if the output is a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::Duration;

/// The stream for lines, and whether they have colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    stream: Stream,
    colour: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Out,
    Err,
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

impl Screen {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Screen {
            stream: Stream::Out,
            colour: stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// Standard error.
    pub(crate) fn stderr() -> Self {
        Screen {
            stream: Stream::Err,
            colour: stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// A component that is ready, its description, and how long it took.
    pub(crate) fn ready(&self, component: &str, about: &str, took: Duration) {
        let tick = self.paint(GREEN, "✓");
        let took = self.paint(DIM, &format!("{:>6} ms", took.as_millis()));
        self.line(format!("{tick} {component:<20}{took}  {about}"));
    }

    /// The title of a section.
    pub(crate) fn title(&self, text: &str) {
        self.line(String::new());
        self.line(self.paint(BOLD, text));
    }

    /// A step that has succeeded: what was done, and what was seen.
    pub(crate) fn step(&self, did: &str, saw: &str) {
        self.line(format!("{} {did}", self.paint(GREEN, "✓")));
        for line in saw.lines() {
            self.line(format!("    {}", self.paint(DIM, line)));
        }
    }

    /// Something that is missing and would help, and what to do about it.
    pub(crate) fn warning(&self, found: &str, fix: &str) {
        self.line(format!("{} {found}", self.paint(YELLOW, "!")));
        self.line(format!("    {}", self.paint(DIM, fix)));
    }

    /// Something that is missing and needed, and what to do about it.
    pub(crate) fn failure(&self, found: &str, fix: &str) {
        self.line(format!("{} {found}", self.paint(RED, "✗")));
        self.line(format!("    {}", self.paint(DIM, fix)));
    }

    /// A command to try.
    pub(crate) fn command(&self, command: &str) {
        self.line(format!("  {}", self.paint(CYAN, command)));
    }

    /// A plain line.
    pub(crate) fn say(&self, text: impl Display) {
        self.line(text.to_string());
    }

    /// A diff, line by line.
    #[cfg(feature = "add")]
    pub(crate) fn diff(&self, diff: &str) {
        for line in diff.lines() {
            let colour = match line.as_bytes().first() {
                Some(b'+') => GREEN,
                Some(b'-') => RED,
                Some(b'@') => CYAN,
                _ => {
                    self.line(line.to_owned());
                    continue;
                }
            };
            self.line(self.paint(colour, line));
        }
    }

    /// An error with its causes. A cause that the message before ends with is not repeated.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let mut text = String::new();
        for cause in error.chain().map(ToString::to_string) {
            if !text.ends_with(&cause) {
                text.push_str(if text.is_empty() { "" } else { ": " });
                text.push_str(&cause);
            }
        }
        self.line(format!("{} {text}", self.paint(RED, "error:")));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    fn line(&self, line: String) {
        // A closed pipe, as of `head`, is no error.
        let _ = match self.stream {
            Stream::Out => writeln!(stdout(), "{line}"),
            Stream::Err => writeln!(stderr(), "{line}"),
        };
    }
}
