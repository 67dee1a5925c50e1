//! The thread that writes to disk: all pending commits in one database transaction, then the next.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use futures::channel::oneshot;
use parking_lot::{Condvar, Mutex, MutexGuard};
use sendo_world::{Clock, Moment};
use tracing::dispatcher;

use super::file::{Fault, File, Restored};
use super::shortage::Shortage;
use super::tail::{Limits, Tail};
use crate::live::{History, Live, SLICE};
use crate::{Batch, Error, Retention, Revision, Transaction};

/// Passes commits to the thread that writes them to disk.
pub(super) struct Writer {
    queue: Arc<Queue>,
    clock: Clock,
    thread: Option<JoinHandle<()>>,
}

/// The queue of commits for the thread.
struct Queue {
    pending: Mutex<Pending>,
    not_empty: Condvar,
}

/// What is to be written next.
struct Pending {
    /// The state with all pending commits. Guards are checked against it, so that two pending
    /// commits cannot both pass the same guard.
    ahead: History,
    batches: Vec<Batch>,
    forgotten: Vec<Batch>,
    waiting: Vec<Waiting>,
    /// Whether the thread is writing.
    writing: bool,
    closing: bool,
    /// Set while the disk is full.
    shortage: Option<Shortage>,
    /// Why no commit is possible any more.
    broken: Option<Arc<Fault>>,
}

/// What a caller requests.
enum Task {
    Commit(Transaction),
    Compact(Revision),
}

/// A caller that gets its result when everything enqueued before is on disk.
struct Waiting {
    task: Task,
    result: Result<Revision, Error>,
    sender: oneshot::Sender<Result<Revision, Error>>,
}

/// What is written in one database transaction.
struct WriteBatch {
    batches: Vec<Batch>,
    forgotten: Vec<Batch>,
    waiting: Vec<Waiting>,
    /// The state after it.
    history: History,
    /// What is on disk of the history after it.
    tail: Tail,
}

/// The state of the thread.
struct WriterThread {
    queue: Arc<Queue>,
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
        let pending = Pending {
            shortage: (!has_space).then(|| Shortage::begin(&history, clock.now())),
            ahead: history,
            batches: Vec::new(),
            forgotten: Vec::new(),
            waiting: Vec::new(),
            writing: false,
            closing: false,
            broken: None,
        };
        let queue = Arc::new(Queue {
            pending: Mutex::new(pending),
            not_empty: Condvar::new(),
        });
        let thread = WriterThread {
            queue: Arc::clone(&queue),
            file,
            live,
            clock: clock.clone(),
            retention,
            tail,
        };
        // The thread logs to the subscriber of the caller that opens the store.
        let log = dispatcher::get_default(Clone::clone);
        let handle = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || dispatcher::with_default(&log, || thread.run()))
            .map_err(Fault::Thread)?;
        Ok(Writer {
            queue,
            clock,
            thread: Some(handle),
        })
    }

    /// Enqueues a transaction; returns when it is on disk.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<Revision, Error> {
        let task = Task::Commit(transaction);
        self.queue.enqueue(task, self.clock.now()).await
    }

    /// Forgets the changes through `through`, on disk too.
    pub(super) async fn compact(&self, through: Revision) -> Result<(), Error> {
        let task = Task::Compact(through);
        self.queue.enqueue(task, self.clock.now()).await.map(drop)
    }

    /// An error while there is no space, and once nothing can be written any more.
    pub(super) fn health(&self) -> Result<(), Error> {
        let pending = self.queue.lock();
        match &pending.broken {
            Some(cause) => Err(broken(cause)),
            None if pending.shortage.is_some() => Err(Error::Full),
            None => Ok(()),
        }
    }

    /// Writes what is pending and ends the thread.
    pub(super) fn stop(&mut self) {
        self.queue.lock().closing = true;
        self.queue.not_empty.notify_one();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic; commits that were not written have not returned.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    /// Applies a task to what is pending. Its result, an error too, may depend on commits that are not
    /// on disk yet, so it is returned when they are.
    async fn enqueue(&self, task: Task, now: Moment) -> Result<Revision, Error> {
        let (sender, written) = oneshot::channel();
        {
            let mut pending = self.lock();
            if let Some(cause) = &pending.broken {
                return Err(broken(cause));
            }
            let result = pending.apply(&task, now);
            // A task that is refused for lack of space has the thread check for space.
            let is_full = matches!(result, Err(Error::Full));
            if pending.is_empty() && !pending.writing && !is_full {
                return result;
            }
            pending.waiting.push(Waiting {
                task,
                result,
                sender,
            });
        }
        self.not_empty.notify_one();
        match written.await {
            Ok(result) => result,
            Err(oneshot::Canceled) => Err(Error::Backend("the thread that writes ended".into())),
        }
    }
}

impl WriterThread {
    fn run(mut self) {
        while let Some(shortage) = self.wait() {
            let checked = match shortage {
                Some(shortage) => self.check_space(shortage),
                None => Ok(()),
            };
            let written = checked.and_then(|()| self.write_pending());
            if let Err(cause) = written {
                return self.fail_all(cause);
            }
        }
    }

    /// Waits for something to write; `None` at the end. Returns the shortage if it may be over: when
    /// a task needs space, and from time to time.
    fn wait(&self) -> Option<Option<Shortage>> {
        let mut pending = self.queue.lock();
        while pending.is_empty() && !pending.closing {
            self.queue.not_empty.wait(&mut pending);
        }
        if pending.is_empty() {
            return None;
        }
        let is_refused = |one: &Waiting| matches!(one.result, Err(Error::Full));
        let is_needed = pending.waiting.iter().any(is_refused);
        let shortage = pending.shortage;
        Some(shortage.filter(|shortage| is_needed || shortage.is_due(self.clock.now())))
    }

    /// Ends the shortage if there is space again.
    fn check_space(&mut self, mut shortage: Shortage) -> Result<(), Fault> {
        let history = self.live.snapshot();
        let is_over = shortage.is_over(&mut self.file, &history, self.tail, &self.clock)?;
        let mut pending = self.queue.lock();
        if !is_over {
            pending.shortage = Some(shortage);
            return Ok(());
        }
        pending.shortage = None;
        shortage.end();
        for mut one in std::mem::take(&mut pending.waiting) {
            if matches!(one.result, Err(Error::Full)) {
                one.result = pending.apply(&one.task, self.clock.now());
            }
            pending.waiting.push(one);
        }
        Ok(())
    }

    /// Takes what is pending.
    fn take_pending(&self) -> WriteBatch {
        let mut pending = self.queue.lock();
        let now = self.clock.now();
        let trimmed = pending.ahead.trim(&self.retention, now, SLICE);
        pending.forgotten.extend(trimmed);
        pending.writing = true;
        let history = pending.ahead.clone();
        let batches = std::mem::take(&mut pending.batches);
        let forgotten = std::mem::take(&mut pending.forgotten);
        let limits = match pending.shortage {
            Some(_) => Limits::least(),
            None => Limits::for_entries(history.entries(), history.current_bytes()),
        };
        WriteBatch {
            tail: self.tail.moved_on(&history, &batches, &forgotten, limits),
            batches,
            forgotten,
            waiting: std::mem::take(&mut pending.waiting),
            history,
        }
    }

    fn write_pending(&mut self) -> Result<(), Fault> {
        let write_batch = self.take_pending();
        let written = match write_batch.batches.is_empty() && write_batch.forgotten.is_empty() {
            true => Ok(()),
            false => {
                let span = (write_batch.tail.oldest, write_batch.history.newest());
                self.file.write(&write_batch.batches, span, &self.clock)
            }
        };
        match written {
            Ok(()) => self.publish(write_batch),
            Err(cause) if cause.is_full() => self.begin_shortage(write_batch)?,
            Err(cause) => {
                self.queue.lock().waiting.extend(write_batch.waiting);
                return Err(cause);
            }
        }
        Ok(())
    }

    fn publish(&mut self, write_batch: WriteBatch) {
        self.tail = write_batch.tail;
        self.live.advance(
            write_batch.history,
            &write_batch.batches,
            &write_batch.forgotten,
        );
        self.queue.lock().writing = false;
        for one in write_batch.waiting {
            // The caller may have dropped its future.
            let _ = one.sender.send(one.result);
        }
    }

    /// Undoes what could not be written, and retries tasks that need no space.
    fn begin_shortage(&mut self, write_batch: WriteBatch) -> Result<(), Fault> {
        let reopened = self.file.release_reserve();
        let newest = reopened
            .and_then(|()| self.file.reopen())
            .and_then(|()| self.file.newest());
        let newest = match newest {
            Ok(newest) => newest,
            Err(cause) => {
                self.queue.lock().waiting.extend(write_batch.waiting);
                return Err(cause);
            }
        };
        // The failed write may have been committed nevertheless.
        if !write_batch.batches.is_empty() && newest == write_batch.history.newest() {
            self.publish(write_batch);
            return Ok(());
        }
        let queue = Arc::clone(&self.queue);
        let mut pending = queue.lock();
        pending.ahead = self.live.snapshot();
        pending.batches.clear();
        pending.forgotten.clear();
        pending.writing = false;
        let begins = pending.shortage.is_none();
        if begins {
            pending.shortage = Some(Shortage::begin(&pending.ahead, self.clock.now()));
        }
        let later = std::mem::take(&mut pending.waiting);
        for mut one in write_batch.waiting.into_iter().chain(later) {
            // If the reserve is used up too, no task is retried.
            one.result = match begins {
                true => pending.apply(&one.task, self.clock.now()),
                false => Err(Error::Full),
            };
            pending.waiting.push(one);
        }
        Ok(())
    }

    /// Fails all waiting and later commits, because the state of the file is not known any more.
    fn fail_all(self, cause: Fault) {
        let cause = Arc::new(cause);
        tracing::error!("the store cannot be written: {}", broken(&cause));
        let mut pending = self.queue.lock();
        pending.broken = Some(Arc::clone(&cause));
        let waiting = std::mem::take(&mut pending.waiting);
        drop(pending);
        for one in waiting {
            let _ = one.sender.send(Err(broken(&cause)));
        }
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.forgotten.is_empty() && self.waiting.is_empty()
    }

    fn apply(&mut self, task: &Task, now: Moment) -> Result<Revision, Error> {
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
