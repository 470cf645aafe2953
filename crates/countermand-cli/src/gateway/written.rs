//! What an operation writes while it runs, for a client that asked: a few lines at a time, the newest where they are many.

use countermand::{core::ports::Lines, engine::Output};
use std::{
    future::Future as _,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::Instant;

/// The pause between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// How many lines are shown at once.
const AT_ONCE: usize = 20;

/// How far a client has been shown what is written.
pub(super) struct Written {
    /// What it writes; `None` for a client that has not asked.
    output: Option<Output>,
    /// The number of the last line that was looked at.
    last: u64,
    /// When to look again.
    again: Option<Instant>,
}

impl Written {
    pub(super) fn of(output: Option<Output>) -> Self {
        Self { output, last: 0, again: None }
    }

    /// Waits for lines that the client has not seen, and not before the pause is over.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub(super) async fn next(&self) -> Lines {
        let Some(output) = &self.output else { return std::future::pending().await };
        if let Some(again) = self.again {
            tokio::time::sleep_until(again).await;
        }
        output.after(self.last).await
    }

    /// What is left at the end, without waiting.
    pub(super) fn rest(&self) -> Option<Lines> {
        let mut lines = pin!(self.output.as_ref()?.after(self.last));
        let mut context = Context::from_waker(Waker::noop());
        match lines.as_mut().poll(&mut context) {
            Poll::Ready(lines) => Some(lines),
            Poll::Pending => None,
        }
    }

    /// The lines to show now, each with its number.
    pub(super) fn shown(
        &mut self,
        Lines { last, lines }: Lines,
    ) -> impl Iterator<Item = (f64, String)> + use<> {
        self.last = last;
        self.again = Some(Instant::now() + EVERY);
        let newest = lines.len().saturating_sub(AT_ONCE);
        let first = last - (lines.len() - newest) as u64 + 1;
        (first..).map(|number| number as f64).zip(lines.into_iter().skip(newest))
    }
}
