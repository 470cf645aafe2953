//! A few threads that read, each with a connection of its own.

use super::{
    connect,
    error::{Failure, OpenError, store},
};
use countermand_core::ports::LedgerError;
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};
use tokio::sync::{mpsc, oneshot};

/// How many read at once: one long listing does not hold up the rest.
const READERS: usize = 2;

/// How many reads may wait; beyond it their callers wait to queue.
const QUEUED: usize = 1_024;

const ACTION: &str = "read";

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// The threads, and the way to them.
pub(super) struct Readers {
    path: Arc<Path>,
    queue: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(path: Arc<Path>) -> Result<Self, OpenError> {
        let (queue, jobs) = mpsc::channel::<Job>(QUEUED);
        let jobs = Arc::new(Mutex::new(jobs));
        let mut readers = Self { path, queue: Some(queue), threads: Vec::new() };
        for number in 1..=READERS {
            let connection =
                connect::to_read(&readers.path).map_err(|error| OpenError::sqlite(&readers.path, &error))?;
            let jobs = jobs.clone();
            let thread = std::thread::Builder::new()
                .name(format!("ledger-reader-{number}"))
                .spawn(move || serve(&connection, &jobs))
                .map_err(|source| OpenError::System {
                    path: readers.path.to_path_buf(),
                    what: "its readers cannot be started",
                    source,
                })?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Does `work` on a connection that sees everything that was durable when it began.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let path = self.path.clone();
        let job: Job = Box::new(move |connection| {
            if !reply.is_closed() {
                let _ = reply.send(work(connection).map_err(|failure| failure.into_error(ACTION, &path)));
            }
        });
        let ended = || store(ACTION, &self.path, "its readers have ended; restart the process");
        let queue = self.queue.as_ref().ok_or_else(ended)?;
        queue.send(job).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(connection: &Connection, jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        // Whoever holds the lock waits for the next job; the others wait for the lock.
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match job {
            Some(job) => job(connection),
            None => return,
        }
    }
}
