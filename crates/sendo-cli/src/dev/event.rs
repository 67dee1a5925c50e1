//! What a session reacts to.

use std::path::PathBuf;

/// What a session reacts to, beside its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    SourceChanged(PathBuf),
    SamplesChanged,
    Key(Key),
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Restart,
    Samples,
    Objects,
    Quit,
    Help,
}

impl Key {
    /// The key that is typed as this byte, if it does something.
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'r' | b'R' => Some(Key::Restart),
            b's' | b'S' => Some(Key::Samples),
            b'o' | b'O' => Some(Key::Objects),
            // Ctrl-D too, as it ends a shell.
            b'q' | b'Q' | 4 => Some(Key::Quit),
            b'h' | b'?' => Some(Key::Help),
            _ => None,
        }
    }
}
