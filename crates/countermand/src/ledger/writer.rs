//! The one writer: a thread that commits in groups.
//!
//! What is queued while a commit syncs goes into the next one, so that a sync is shared by all who wait for it.
//! Nobody is answered before the COMMIT has succeeded.

use super::{
    checkpoint::Checkpoint,
    error::{Failure, OpenError, store},
    lock::GatewayLock,
    place::Place,
};
use countermand_core::ports::LedgerError;
use rusqlite::Connection;
use std::{path::Path, sync::Arc, thread::JoinHandle};
use tokio::sync::{mpsc, oneshot};

/// How many writes may wait; beyond it their callers wait to queue.
const QUEUED: usize = 4_096;

/// How many writes share a commit at most: it bounds how long the first of them waits.
const BATCH: usize = 1_024;

const ACTION: &str = "write";

/// The thread, and the way to it.
pub(super) struct Writer {
    path: Arc<Path>,
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. The lock is given back when it has ended and its connection is closed.
    pub(super) fn start(
        path: Arc<Path>,
        connection: Connection,
        lock: GatewayLock,
    ) -> Result<Self, OpenError> {
        let (queue, jobs) = mpsc::channel(QUEUED);
        let place = path.clone();
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || {
                serve(&connection, jobs, &place);
                drop(connection);
                drop(lock);
            })
            .map_err(|source| OpenError::System {
                path: path.to_path_buf(),
                what: "its writer cannot be started",
                source,
            })?;
        Ok(Self { path, queue: Some(queue), thread: Some(thread) })
    }

    /// Does `work` in a transaction, and returns what it returned once that is durable. An error of
    /// `work` undoes what `work` did, and nothing else.
    ///
    /// # Cancel safety
    /// If the future is dropped, the work is done or is not. Dropped before its turn, it is not.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Write { work: Some(work), result: None, reply, path: self.path.clone() });
        let ended = || store(ACTION, &self.path, "its writer has ended; restart the process");
        let queue = self.queue.as_ref().ok_or_else(ended)?;
        queue.send(job).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Writer {
    /// Closes the queue, and waits until what is in it is written: whoever opens the ledger next finds
    /// the lock free.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A write on its way through a commit.
trait Job: Send {
    /// Whether anybody still waits for it.
    fn is_wanted(&self) -> bool;
    /// Does it. Whether it did is kept for the answer.
    fn run(&mut self, connection: &Connection) -> Ran;
    /// Tells whoever waits, once the transaction has come to its end.
    fn answer(self: Box<Self>, transaction: &Result<(), LedgerError>);
}

/// What became of a job inside the transaction.
enum Ran {
    Done,
    Undo,
}

struct Write<T, F> {
    work: Option<F>,
    result: Option<Result<T, LedgerError>>,
    reply: oneshot::Sender<Result<T, LedgerError>>,
    path: Arc<Path>,
}

impl<T, F> Job for Write<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, Failure> + Send,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, connection: &Connection) -> Ran {
        let Some(work) = self.work.take() else { return Ran::Undo };
        let result = work(connection).map_err(|failure| failure.into_error(ACTION, &self.path));
        let ran = if result.is_ok() { Ran::Done } else { Ran::Undo };
        self.result = Some(result);
        ran
    }

    fn answer(self: Box<Self>, transaction: &Result<(), LedgerError>) {
        let result = match (transaction, self.result) {
            (Err(error), _) => Err(error.clone()),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(store(ACTION, &self.path, "it was left out")),
        };
        // Whoever has stopped waiting finds out by the version.
        let _ = self.reply.send(result);
    }
}

fn serve(connection: &Connection, mut jobs: mpsc::Receiver<Box<dyn Job>>, path: &Path) {
    let mut checkpoint = Checkpoint::of(path);
    let place = Place::of(path);
    while let Some(first) = jobs.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
        batch.retain(|job| job.is_wanted());
        let transaction = match place.missing() {
            None => commit(connection, &mut batch, path),
            Some(file) => Err(store(ACTION, path, gone(file))),
        };
        for job in batch {
            job.answer(&transaction);
        }
        checkpoint.after_commit(connection);
    }
}

fn gone(file: &Path) -> String {
    format!(
        "{} was removed or replaced while the gateway runs, and nothing more is written to what is left of it; \
         put the file itself back, or restart the gateway and look upstream for what it was doing",
        file.display()
    )
}

/// One transaction around all of them, each in a savepoint.
fn commit(connection: &Connection, batch: &mut [Box<dyn Job>], path: &Path) -> Result<(), LedgerError> {
    let done = try_commit(connection, batch);
    if done.is_err() && !connection.is_autocommit() {
        // Fails where SQLite has rolled back by itself, which is as good.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done.map_err(|error| Failure::from(error).into_error(ACTION, path))
}

fn try_commit(connection: &Connection, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let run = |sql| connection.prepare_cached(sql)?.execute([]).map(|_| ());
    run("BEGIN IMMEDIATE")?;
    for job in batch {
        run("SAVEPOINT job")?;
        match job.run(connection) {
            Ran::Done => {}
            // A full disk can end the whole transaction; then this fails, and everybody is told so.
            Ran::Undo => run("ROLLBACK TO job")?,
        }
        run("RELEASE job")?;
    }
    run("COMMIT")
}
