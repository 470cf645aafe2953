//! An operation as its call sees it: a view that changes, and a few words to say.

use super::{
    audience::{Member, Said},
    health::UpstreamHealth,
};
use countermand_core::{
    Cause, OperationId, Outcome, Phase, Row,
    event::{Event, Trouble},
    ports::{Lines, Payload, Upstream},
};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
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

/// What is said to a driver.
pub(super) enum Word {
    /// Something happened to the operation.
    Happened(Event),
    /// One of its calls says something of itself.
    Said(Member, Said),
    /// An identical call wants to join. Unanswered where it must not.
    Join(oneshot::Sender<Joined>),
    /// All that was said before has been heard; whether it is to be cancelled then.
    Hear(oneshot::Sender<bool>),
}

/// A call that has joined an operation.
pub(super) struct Joined {
    pub(super) member: Member,
    /// The row that it has joined.
    pub(super) row: Arc<Row>,
}

/// The way to an operation that is driven.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) words: mpsc::UnboundedSender<Word>,
    pub(super) view: watch::Receiver<View>,
    /// What performs its requests.
    pub(super) upstream: Arc<dyn Upstream>,
    /// How their upstream is.
    pub(super) health: Arc<UpstreamHealth>,
}

/// What an operation writes while it runs.
pub struct Output {
    upstream: Arc<dyn Upstream>,
    row: Arc<Row>,
}

impl Output {
    /// Waits for lines after that one. Never resolves where it writes none.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn after(&self, line: u64) -> Lines {
        self.upstream.lines(&self.row, line).await
    }
}

/// A started operation, in the hands of one of its calls. The operation is driven whether this lives or not; if it is
/// dropped without a last word, the driver learns that this client has left for good.
pub struct Operation {
    line: Line,
    member: Member,
    joined: bool,
    /// The row as this call found it, its inputs not sealed yet.
    found: Arc<Row>,
    tracker: TaskTracker,
    /// How its client would be gone if this were dropped now; `None` once the last word was said.
    unsaid: Option<Cause>,
}

impl Operation {
    /// In the hands of the call that started it.
    pub(super) fn started(line: Line, row: Arc<Row>, tracker: TaskTracker) -> Self {
        Self::of(line, Joined { member: Member::FIRST, row }, false, tracker)
    }

    /// In the hands of a call that has joined it.
    pub(super) fn attached(line: Line, joined: Joined, tracker: TaskTracker) -> Self {
        Self::of(line, joined, true, tracker)
    }

    fn of(line: Line, Joined { member, row }: Joined, joined: bool, tracker: TaskTracker) -> Self {
        Self { line, member, joined, found: row, tracker, unsaid: Some(Cause::ClientDisconnected) }
    }

    /// Its name.
    pub fn id(&self) -> OperationId {
        self.found.id
    }

    /// Whether an earlier, identical call had started it.
    pub fn joined(&self) -> bool {
        self.joined
    }

    /// What is known of it now.
    pub fn view(&self) -> View {
        self.line.view.borrow().clone()
    }

    /// Waits until more is known; `None` once nobody drives it any more.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped; the next call returns the newest view.
    pub async fn changed(&mut self) -> Option<View> {
        self.line.view.changed().await.ok()?;
        Some(self.line.view.borrow_and_update().clone())
    }

    /// This call wants no more of it. While other calls wait for it too, that is all; the last one cancels it, and
    /// an operator's cancel or a shutdown always does. Returns at once; a cancel is durable when the view shows it.
    pub fn cancel(&mut self, cause: Cause, reason: Option<String>) {
        self.last_word(Said::Cancel(cause, reason));
    }

    /// Its client's connection is gone, and it may come back: until then the disconnect policy decides, unless
    /// another call waits.
    pub fn client_away(&mut self, cause: Cause) {
        if self.unsaid.is_some() {
            self.unsaid = Some(cause);
        }
        self.say(Said::Away(cause));
    }

    /// Its client is back.
    pub fn client_returned(&mut self) {
        if self.unsaid.is_some() {
            self.unsaid = Some(Cause::ClientDisconnected);
        }
        self.say(Said::Returned);
    }

    /// Its client has left without a word, for good: the disconnect policy says what that means, unless another
    /// call waits.
    pub fn client_left(&mut self, cause: Cause) {
        self.last_word(Said::Left(cause));
    }

    /// This call has nothing to say to it any more: of what was cancelled before it was recorded.
    pub fn leave_alone(mut self) {
        self.unsaid = None;
    }

    /// Its answer has reached the transport.
    pub fn delivered(&mut self) {
        self.last_word(Said::Delivered);
    }

    /// Waits until all that was said here has been heard, and is recorded. Whether the operation is to be cancelled
    /// then: a call that others had joined may only have left them. `None` once nobody drives it any more.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn heard(&self) -> Option<bool> {
        let (reply, heard) = oneshot::channel();
        self.line.words.send(Word::Hear(reply)).ok()?;
        heard.await.ok()
    }

    /// What it writes while it runs.
    pub fn output(&self) -> Output {
        Output { upstream: self.line.upstream.clone(), row: self.found.clone() }
    }

    /// Reads the result of an operation that has completed. It waits for an upstream that is left alone: what ran for
    /// long is not lost because its upstream fails for a moment.
    ///
    /// # Errors
    /// What the upstream said instead of the result.
    ///
    /// # Cancel safety
    /// Dropping the future aborts the read; it can be repeated.
    pub async fn result(&self) -> Result<Arc<Payload>, Trouble> {
        let view = self.view();
        if let Some(payload) = view.payload {
            return Ok(payload);
        }
        // Another call of it may have had its answer by now, and the inputs that a read names are sealed then.
        let row = match view.row.inputs.values() {
            Some(_) => view.row,
            None => Arc::new(Row { inputs: self.found.inputs.clone(), ..Row::clone(&view.row) }),
        };
        let pass = self.line.health.read().await;
        crash_point!(Before, Result);
        let result = self.line.upstream.result(&row).await.map(Arc::new);
        crash_point!(After, Result);
        pass.told(result.as_ref().err());
        result
    }

    /// Says later, when the transport knows, whether the answer was sent or a cancel (its cause, the client's words) was faster.
    pub fn deliver_when<F>(mut self, fate: F)
    where
        F: Future<Output = Result<(), (Cause, Option<String>)>> + Send + 'static,
    {
        let tracker = self.tracker.clone();
        crash_point!(Before, Answer);
        tracker.spawn(async move {
            match fate.await {
                Ok(()) => {
                    crash_point!(After, Answer);
                    self.delivered();
                }
                Err((cause @ (Cause::ClientDisconnected | Cause::SessionEnded), _)) => {
                    self.client_left(cause)
                }
                Err((cause, reason)) => self.cancel(cause, reason),
            }
        });
    }

    fn last_word(&mut self, said: Said) {
        self.unsaid = None;
        self.say(said);
    }

    fn say(&self, said: Said) {
        // A driver that has ended has settled the row: there is nothing left to say to it.
        let _settled = self.line.words.send(Word::Said(self.member, said));
    }
}

impl Drop for Operation {
    /// Only a signal: the driver does the work.
    fn drop(&mut self) {
        if let Some(cause) = self.unsaid {
            self.last_word(Said::Left(cause));
        }
    }
}
