//! An operation as its call sees it: a view that changes, and a few words to say.

use countermand_core::{
    Cause, OperationId, Outcome, Phase, Row,
    event::{Event, Trouble},
    ports::{Payload, Upstream},
};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

/// What is known of an operation now.
#[derive(Debug, Clone)]
pub struct View {
    /// The row.
    pub row: Arc<Row>,
    /// The progress, as the upstream last gave it.
    pub progress: Option<f64>,
    /// What the upstream returned, where that needs no request of its own.
    pub payload: Option<Arc<Payload>>,
}

impl View {
    pub(super) fn of(row: Row) -> Self {
        Self { row: Arc::new(row), progress: None, payload: None }
    }

    /// Whether it has come as far as a caller waits for: it has ended upstream (and an HTTP API's `cancelled`
    /// has been read twice), it never existed, or nobody can say when it will.
    pub fn is_over(&self) -> bool {
        match self.row.phase {
            Phase::Ended => self.row.turn.is_none(),
            Phase::Compensating | Phase::Orphaned => true,
            phase => phase.is_settled() || phase.awaits_operator(),
        }
    }

    /// Whether it did its work, whatever is owed besides.
    pub fn has_completed(&self) -> bool {
        self.row.outcome == Some(Outcome::Completed)
    }
}

/// A started operation, in the hands of its call. The operation is driven whether this lives or not;
/// if it is dropped before anything was said, the driver learns that the client has left.
pub struct Operation {
    id: OperationId,
    view: watch::Receiver<View>,
    events: mpsc::UnboundedSender<Event>,
    upstream: Arc<dyn Upstream>,
    tracker: TaskTracker,
    said: bool,
}

impl Operation {
    pub(super) fn new(
        id: OperationId,
        view: watch::Receiver<View>,
        events: mpsc::UnboundedSender<Event>,
        upstream: Arc<dyn Upstream>,
        tracker: TaskTracker,
    ) -> Self {
        Self { id, view, events, upstream, tracker, said: false }
    }

    /// Its name.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// What is known of it now.
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Waits until more is known; `None` once nobody drives it any more.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped; the next call returns the newest view.
    pub async fn changed(&mut self) -> Option<View> {
        self.view.changed().await.ok()?;
        Some(self.view.borrow_and_update().clone())
    }

    /// Wants it cancelled. Returns at once; the wish is durable when the view shows it.
    pub fn cancel(&mut self, cause: Cause, reason: Option<String>) {
        self.say(Event::CancelWanted { cause, reason });
    }

    /// Its client has left without a word: its disconnect policy says what that means.
    pub fn client_left(&mut self, cause: Cause) {
        self.say(Event::ClientLeft { cause });
    }

    /// Its client is gone, and may come back; its disconnect policy says what that means meanwhile.
    pub fn client_away(&mut self, cause: Cause) {
        self.say(Event::ClientLeft { cause });
    }

    /// Its client is back.
    pub fn client_returned(&mut self) {
        self.say(Event::ClientReturned);
    }

    /// Its answer has reached the transport.
    pub fn delivered(&mut self) {
        self.say(Event::Delivered);
    }

    /// Reads the result of an operation that has completed.
    ///
    /// # Errors
    /// What the upstream said instead of the result.
    ///
    /// # Cancel safety
    /// Dropping the future aborts the read; it can be repeated.
    pub async fn result(&self) -> Result<Arc<Payload>, Trouble> {
        let view = self.view();
        match view.payload {
            Some(payload) => Ok(payload),
            None => self.upstream.result(&view.row).await.map(Arc::new),
        }
    }

    /// Says later, when the transport knows, whether the answer was sent or a cancel (its cause, the client's words) was faster.
    pub fn deliver_when<F>(mut self, fate: F)
    where
        F: Future<Output = Result<(), (Cause, Option<String>)>> + Send + 'static,
    {
        let tracker = self.tracker.clone();
        tracker.spawn(async move {
            match fate.await {
                Ok(()) => self.delivered(),
                Err((cause @ (Cause::ClientDisconnected | Cause::SessionEnded), _)) => {
                    self.client_left(cause)
                }
                Err((cause, reason)) => self.cancel(cause, reason),
            }
        });
    }

    /// Lets go of it: nobody waits, and nothing is said.
    pub(super) fn forget(mut self) {
        self.said = true;
    }

    fn say(&mut self, event: Event) {
        self.said = true;
        // A driver that has ended has settled the row: there is nothing left to say to it.
        let _settled = self.events.send(event);
    }
}

impl Drop for Operation {
    /// Only a signal: the driver does the work.
    fn drop(&mut self) {
        if !self.said {
            self.say(Event::ClientLeft { cause: Cause::ClientDisconnected });
        }
    }
}
