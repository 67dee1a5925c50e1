//! The thread that writes: all commits that have come meanwhile, then the next.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use futures::channel::oneshot;
use sendo_world::{Clock, Moment};
use tracing::dispatcher;

use super::file::{Fault, File, Restored};
use super::shortage::Shortage;
use super::tail::{Limits, Tail};
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
    /// Set while the disk is full.
    shortage: Option<Shortage>,
    /// Why nothing can be written any more.
    broken: Option<Arc<Fault>>,
}

/// What is asked for.
enum Task {
    Commit(Transaction),
    Compact(Revision),
}

/// Somebody who is answered when what was laid down before is on disk.
struct Waiting {
    task: Task,
    answer: Result<Revision, Error>,
    to: oneshot::Sender<Result<Revision, Error>>,
}

/// What is written at once.
struct Load {
    batches: Vec<Batch>,
    forgotten: Vec<Batch>,
    waiting: Vec<Waiting>,
    /// The state after it.
    history: History,
    /// What is on disk of the history after it.
    tail: Tail,
}

/// What the thread that writes works with.
struct Work {
    desk: Arc<Desk>,
    file: File,
    live: Arc<Live>,
    clock: Clock,
    retention: Retention,
    tail: Tail,
}

impl Writer {
    pub(super) fn start(
        file: File,
        restored: Restored,
        live: Arc<Live>,
        clock: Clock,
        retention: Retention,
    ) -> Result<Self, Fault> {
        let Restored { history, tail } = restored;
        let has_space = file.hold_reserve(0)?;
        let tray = Tray {
            shortage: (!has_space).then(|| Shortage::begin(&history, clock.now())),
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
        let work = Work {
            desk: Arc::clone(&desk),
            file,
            live,
            clock: clock.clone(),
            retention,
            tail,
        };
        // What it tells goes to where its opener's goes.
        let log = dispatcher::get_default(Clone::clone);
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || dispatcher::with_default(&log, || work.run()))
            .map_err(Fault::Thread)?;
        Ok(Writer {
            desk,
            clock,
            thread: Some(thread),
        })
    }

    /// Lays a transaction down; answers when it is on disk.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<Revision, Error> {
        let task = Task::Commit(transaction);
        self.desk.lay_down(task, self.clock.now()).await
    }

    /// Forgets the changes through `through`, on disk too.
    pub(super) async fn compact(&self, through: Revision) -> Result<(), Error> {
        let task = Task::Compact(through);
        self.desk.lay_down(task, self.clock.now()).await.map(drop)
    }

    /// An error while there is no space, and once nothing can be written any more.
    pub(super) fn health(&self) -> Result<(), Error> {
        let tray = self.desk.lock();
        match &tray.broken {
            Some(cause) => Err(broken(cause)),
            None if tray.shortage.is_some() => Err(Error::Full),
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

    /// Does what is asked for with the tray. The answer, a refusal too, tells of a
    /// state that may still be on its way, so it is given when that is on disk.
    async fn lay_down(&self, task: Task, now: Moment) -> Result<Revision, Error> {
        let (to, written) = oneshot::channel();
        {
            let mut tray = self.lock();
            if let Some(cause) = &tray.broken {
                return Err(broken(cause));
            }
            let answer = tray.carry_out(&task, now);
            // Who finds no room has the thread look whether there is some again.
            let is_full = matches!(answer, Err(Error::Full));
            if tray.is_empty() && !tray.writing && !is_full {
                return answer;
            }
            tray.waiting.push(Waiting { task, answer, to });
        }
        self.filled.notify_one();
        match written.await {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => Err(Error::Backend("the thread that writes ended".into())),
        }
    }
}

impl Work {
    fn run(mut self) {
        while let Some(looks) = self.wait() {
            let looked = match looks {
                Some(shortage) => self.look_for_space(shortage),
                None => Ok(()),
            };
            let written = looked.and_then(|()| self.write_load());
            if let Err(cause) = written {
                return self.give_up(cause);
            }
        }
    }

    /// Waits for something to write; `None` at the end. Gives the shortage that may
    /// be over: when somebody needs space, and now and then.
    fn wait(&self) -> Option<Option<Shortage>> {
        let mut tray = self.desk.lock();
        while tray.is_empty() && !tray.closing {
            let woken = self.desk.filled.wait(tray);
            tray = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if tray.is_empty() {
            return None;
        }
        let is_refused = |one: &Waiting| matches!(one.answer, Err(Error::Full));
        let is_needed = tray.waiting.iter().any(is_refused);
        let shortage = tray.shortage;
        Some(shortage.filter(|shortage| is_needed || shortage.is_due(self.clock.now())))
    }

    /// Ends the shortage if there is space again.
    fn look_for_space(&mut self, mut shortage: Shortage) -> Result<(), Fault> {
        let history = self.live.snapshot();
        let is_over = shortage.is_over(&mut self.file, &history, self.tail, &self.clock)?;
        let mut tray = self.desk.lock();
        if !is_over {
            tray.shortage = Some(shortage);
            return Ok(());
        }
        tray.shortage = None;
        shortage.end();
        for mut one in std::mem::take(&mut tray.waiting) {
            if matches!(one.answer, Err(Error::Full)) {
                one.answer = tray.carry_out(&one.task, self.clock.now());
            }
            tray.waiting.push(one);
        }
        Ok(())
    }

    /// Takes what has been laid down.
    fn take_load(&self) -> Load {
        let mut tray = self.desk.lock();
        let now = self.clock.now();
        let trimmed = tray.ahead.trim(&self.retention, now, SLICE);
        tray.forgotten.extend(trimmed);
        tray.writing = true;
        let history = tray.ahead.clone();
        let batches = std::mem::take(&mut tray.batches);
        let forgotten = std::mem::take(&mut tray.forgotten);
        let limits = match tray.shortage {
            Some(_) => Limits::least(),
            None => Limits::beside(history.entries(), history.current_bytes()),
        };
        Load {
            tail: self.tail.moved_on(&history, &batches, &forgotten, limits),
            batches,
            forgotten,
            waiting: std::mem::take(&mut tray.waiting),
            history,
        }
    }

    fn write_load(&mut self) -> Result<(), Fault> {
        let load = self.take_load();
        let written = match load.batches.is_empty() && load.forgotten.is_empty() {
            true => Ok(()),
            false => {
                let span = (load.tail.oldest, load.history.newest());
                self.file.write(&load.batches, span, &self.clock)
            }
        };
        match written {
            Ok(()) => self.publish(load),
            Err(cause) if cause.is_full() => self.run_out_of_space(load)?,
            Err(cause) => {
                self.desk.lock().waiting.extend(load.waiting);
                return Err(cause);
            }
        }
        Ok(())
    }

    fn publish(&mut self, load: Load) {
        self.tail = load.tail;
        self.live
            .advance(load.history, &load.batches, &load.forgotten);
        self.desk.lock().writing = false;
        for one in load.waiting {
            // Who has left does not mind.
            let _ = one.to.send(one.answer);
        }
    }

    /// Takes back what could not be written, and gives what takes no room another chance.
    fn run_out_of_space(&mut self, load: Load) -> Result<(), Fault> {
        let reopened = self.file.release_reserve();
        let newest = reopened
            .and_then(|()| self.file.reopen())
            .and_then(|()| self.file.newest());
        let newest = match newest {
            Ok(newest) => newest,
            Err(cause) => {
                self.desk.lock().waiting.extend(load.waiting);
                return Err(cause);
            }
        };
        // It may have come through all the same.
        if !load.batches.is_empty() && newest == load.history.newest() {
            self.publish(load);
            return Ok(());
        }
        let desk = Arc::clone(&self.desk);
        let mut tray = desk.lock();
        tray.ahead = self.live.snapshot();
        tray.batches.clear();
        tray.forgotten.clear();
        tray.writing = false;
        let begins = tray.shortage.is_none();
        if begins {
            tray.shortage = Some(Shortage::begin(&tray.ahead, self.clock.now()));
        }
        let later = std::mem::take(&mut tray.waiting);
        for mut one in load.waiting.into_iter().chain(later) {
            // Where the reserve is used up as well, nothing is left to try.
            one.answer = match begins {
                true => tray.carry_out(&one.task, self.clock.now()),
                false => Err(Error::Full),
            };
            tray.waiting.push(one);
        }
        Ok(())
    }

    /// What is on disk is no longer known: nothing may be built on it.
    fn give_up(self, cause: Fault) {
        let cause = Arc::new(cause);
        tracing::error!("the store cannot be written: {}", broken(&cause));
        let mut tray = self.desk.lock();
        tray.broken = Some(Arc::clone(&cause));
        let waiting = std::mem::take(&mut tray.waiting);
        drop(tray);
        for one in waiting {
            let _ = one.to.send(Err(broken(&cause)));
        }
    }
}

impl Tray {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.forgotten.is_empty() && self.waiting.is_empty()
    }

    fn carry_out(&mut self, task: &Task, now: Moment) -> Result<Revision, Error> {
        match task {
            Task::Commit(transaction) => self.commit(transaction.clone(), now)?,
            Task::Compact(through) => {
                let forgotten = self.ahead.compact(*through, usize::MAX);
                self.forgotten.extend(forgotten);
            }
        }
        Ok(self.ahead.newest())
    }

    fn commit(&mut self, transaction: Transaction, now: Moment) -> Result<(), Error> {
        let before = self.shortage.is_some().then(|| self.ahead.clone());
        let batches = self.ahead.commit(transaction, now)?;
        if let (Some(shortage), Some(before)) = (&self.shortage, before)
            && !shortage.admits(&before, &self.ahead, &batches)
        {
            self.ahead = before;
            return Err(Error::Full);
        }
        self.batches.extend(batches);
        Ok(())
    }
}

fn broken(cause: &Fault) -> Error {
    let text = format!("{cause}; nothing is written until the store is opened again");
    Error::Backend(text.into())
}
