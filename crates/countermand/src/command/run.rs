//! One program, with what it writes.

use super::capture::{Capture, Stream};
use crate::{
    process::{Control, Exit, Pipes},
    secret::Secret,
};
use std::{sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;

/// How long the last words of a program may be on their way, once nothing of it lives. Longer only where somebody else holds
/// its pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A program, or what an earlier process of ours has left of one.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) control: Control,
    pub(super) capture: Arc<Capture>,
}

impl Run {
    pub(super) fn new(
        control: Control,
        mut pipes: Pipes,
        secrets: Vec<Secret>,
        max_bytes: u64,
        tasks: &TaskTracker,
    ) -> Self {
        let capture = Arc::new(Capture::new(max_bytes, secrets, &pipes));
        if let Some(stdout) = pipes.stdout.take() {
            let capture = capture.clone();
            tasks.spawn(async move { capture.read(Stream::Out, stdout).await });
        }
        if let Some(stderr) = pipes.stderr.take() {
            let capture = capture.clone();
            tasks.spawn(async move { capture.read(Stream::Err, stderr).await });
        }
        Self { control, capture }
    }

    /// Of one whose pipes are gone.
    pub(super) fn left(control: Control) -> Self {
        Self { control, capture: Arc::new(Capture::new(0, Vec::new(), &Pipes::default())) }
    }

    /// Waits until nothing of it lives, and what it wrote has been read.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub(super) async fn ended(&self) -> Exit {
        let exit = self.control.ended().await;
        let _somebody_holds_it = tokio::time::timeout(LAST_WORDS, self.capture.drained()).await;
        exit
    }
}
