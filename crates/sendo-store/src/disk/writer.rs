//! The thread that writes: all commits that have come meanwhile, then the next.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use futures::channel::oneshot;
use sendo_world::Clock;

use super::file::{Fault, File};
use crate::live::{History, Live, SLICE};
use crate::{Batch, Error, Retention, Revision, Transaction};

/// Commits on their way to disk.
pub(super) struct Writer {
    desk: Arc<Desk>,
    clock: Clock,
    thread: Option<JoinHandle<()>>,
}

/// Where commits are laid down for the thread.
struct Desk {
    tray: Mutex<Tray>,
    filled: Condvar,
}

struct Tray {
    /// The state with everything that is on its way. Guards are judged by it,
    /// so that two commits on their way together cannot both hold.
    ahead: History,
    batches: Vec<Batch>,
    forgotten: Vec<Batch>,
    waiting: Vec<Waiting>,
    /// Whether the thread has taken a load that is not on disk yet.
    writing: bool,
    closing: bool,
    /// Why nothing can be written any more.
    broken: Option<Arc<Fault>>,
}

/// Somebody who is answered when what was laid down before is on disk.
struct Waiting {
    answer: Result<Revision, Error>,
    to: oneshot::Sender<Result<Revision, Error>>,
}

impl Writer {
    pub(super) fn start(
        file: File,
        history: History,
        live: Arc<Live>,
        clock: Clock,
        retention: Retention,
    ) -> Result<Self, Fault> {
        let tray = Tray {
            ahead: history,
            batches: Vec::new(),
            forgotten: Vec::new(),
            waiting: Vec::new(),
            writing: false,
            closing: false,
            broken: None,
        };
        let desk = Arc::new(Desk {
            tray: Mutex::new(tray),
            filled: Condvar::new(),
        });
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn({
                let (desk, clock) = (Arc::clone(&desk), clock.clone());
                move || desk.work(&file, &live, &clock, &retention)
            })
            .map_err(Fault::Thread)?;
        Ok(Writer {
            desk,
            clock,
            thread: Some(thread),
        })
    }

    /// Lays a transaction down; answers when it is on disk.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<Revision, Error> {
        let now = self.clock.now();
        self.desk
            .lay_down(|tray| match tray.ahead.commit(transaction, now)? {
                Some(batch) => {
                    let revision = batch.revision;
                    tray.batches.push(batch);
                    Ok(revision)
                }
                None => Ok(tray.ahead.newest()),
            })
            .await
    }

    /// Forgets the changes through `through`, on disk too.
    pub(super) async fn compact(&self, through: Revision) -> Result<(), Error> {
        let forget = |tray: &mut Tray| {
            let forgotten = tray.ahead.compact(through, usize::MAX);
            tray.forgotten.extend(forgotten);
            Ok(tray.ahead.newest())
        };
        self.desk.lay_down(forget).await.map(drop)
    }

    /// An error once nothing can be written any more.
    pub(super) fn health(&self) -> Result<(), Error> {
        match &self.desk.lock().broken {
            Some(cause) => Err(broken(cause)),
            None => Ok(()),
        }
    }

    /// Writes what has been laid down and ends the thread.
    pub(super) fn stop(&mut self) {
        self.desk.lock().closing = true;
        self.desk.filled.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so; what it had not written was never answered.
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Tray> {
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `put` with the tray. Its answer, a refusal too, tells of a state
    /// that may still be on its way, so it is given when that is on disk.
    async fn lay_down(
        &self,
        put: impl FnOnce(&mut Tray) -> Result<Revision, Error>,
    ) -> Result<Revision, Error> {
        let (to, written) = oneshot::channel();
        {
            let mut tray = self.lock();
            if let Some(cause) = &tray.broken {
                return Err(broken(cause));
            }
            let answer = put(&mut tray);
            if tray.is_empty() && !tray.writing {
                return answer;
            }
            tray.waiting.push(Waiting { answer, to });
        }
        self.filled.notify_one();
        match written.await {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => Err(Error::Backend("the thread that writes ended".into())),
        }
    }

    fn work(&self, file: &File, live: &Live, clock: &Clock, retention: &Retention) {
        loop {
            let mut tray = self.lock();
            while tray.is_empty() && !tray.closing {
                let woken = self.filled.wait(tray);
                tray = woken.unwrap_or_else(PoisonError::into_inner);
            }
            if tray.is_empty() {
                return;
            }
            let trimmed = tray.ahead.trim(retention, clock.now(), SLICE);
            tray.forgotten.extend(trimmed);
            let batches = std::mem::take(&mut tray.batches);
            let forgotten = std::mem::take(&mut tray.forgotten);
            let waiting = std::mem::take(&mut tray.waiting);
            let history = tray.ahead.clone();
            tray.writing = true;
            drop(tray);

            let span = (history.oldest(), history.newest());
            let written = match batches.is_empty() && forgotten.is_empty() {
                true => Ok(()),
                false => file.write(&batches, &forgotten, span),
            };
            match written {
                Ok(()) => {
                    live.advance(history, &batches, &forgotten);
                    self.lock().writing = false;
                    for one in waiting {
                        // Who has left does not mind.
                        let _ = one.to.send(one.answer);
                    }
                }
                Err(cause) => return self.give_up(Arc::new(cause), waiting),
            }
        }
    }

    /// What is on disk is no longer known: nothing may be built on it.
    fn give_up(&self, cause: Arc<Fault>, waiting: Vec<Waiting>) {
        let mut tray = self.lock();
        tray.broken = Some(Arc::clone(&cause));
        let later = std::mem::take(&mut tray.waiting);
        drop(tray);
        for one in waiting.into_iter().chain(later) {
            let _ = one.to.send(Err(broken(&cause)));
        }
    }
}

impl Tray {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.forgotten.is_empty() && self.waiting.is_empty()
    }
}

fn broken(cause: &Fault) -> Error {
    let text = format!("{cause}; nothing is written until the store is opened again");
    Error::Backend(text.into())
}
