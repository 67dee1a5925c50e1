//! Keys on a terminal, read one by one.

use std::io::{IsTerminal as _, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::Sender;

use super::event::{Event, Key};

/// Reads keys until it is dropped, which brings the terminal back to how it was.
#[derive(Debug)]
pub(super) struct Keys {
    before: Termios,
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Keys {
    /// Reads keys if there is a terminal.
    pub(super) fn read(events: Sender<Event>) -> Option<Self> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut terminal = before.clone();
        // Keys come one by one and are not shown. Ctrl-C stays a signal.
        terminal.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(stdin(), OptionalActions::Now, &terminal).ok()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        let reader = std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || forward(&flag, &events));
        Some(Keys {
            before,
            is_over,
            reader: reader.ok(),
        })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

fn forward(is_over: &AtomicBool, events: &Sender<Event>) {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    while !is_over.load(Ordering::Relaxed) {
        let input = stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&wait)), Ok(1..)) {
            continue;
        }
        let mut byte = [0];
        match rustix::io::read(&input, &mut byte) {
            Ok(1) => {}
            // The terminal is gone.
            _ => return,
        }
        if let Some(key) = Key::from_byte(byte[0])
            && events.blocking_send(Event::Key(key)).is_err()
        {
            return;
        }
    }
}
