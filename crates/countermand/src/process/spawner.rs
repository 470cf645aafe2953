//! The one thread that starts programs.
//!
//! A child is killed with the thread that started it, not with the process (`PR_SET_PDEATHSIG`). A runtime's worker may end
//! any time; this thread ends when the last [`Runner`](super::Runner) is gone.

use std::{io, sync::mpsc, thread};
use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::oneshot,
};

struct Job {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

#[derive(Debug)]
pub(super) struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    pub(super) fn new() -> io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        thread::Builder::new().name("countermand-spawn".into()).stack_size(256 << 10).spawn(move || {
            while let Ok(mut job) = inbox.recv() {
                let _runtime = job.runtime.enter();
                let child = job.command.spawn();
                // Whoever asked may be gone: the child is dropped then, and with it killed.
                let _gone = job.reply.send(child);
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts it; `None` where the thread has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, a child that was started is killed.
    pub(super) async fn spawn(&self, mut command: Command) -> Option<io::Result<Child>> {
        command.kill_on_drop(true);
        let (reply, child) = oneshot::channel();
        self.jobs.send(Job { command, runtime: Handle::current(), reply }).ok()?;
        child.await.ok()
    }
}
