//! The ports: what the core needs of the world, each with more than one real implementation.

use crate::{
    Cause,
    event::{CancelAnswer, CreateAnswer, Event, FindAnswer, RequestAnswer, StatusAnswer},
    ids::{DefinitionHash, OperationId, Principal},
    notice::{Notice, Told},
    phase::{News, Phase, Verdict},
    policy::Policy,
    row::{Identity, Row},
    time::{Now, Timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{future::Future, pin::Pin, sync::Arc};

/// A boxed future, as ports return them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The time and the chance of the world. Everything that decides gets them through here.
pub trait Clock: Send + Sync + 'static {
    /// The time now, and fresh dice.
    fn now(&self) -> Now;
}

/// Where operations are kept.
///
/// A method that returns `Ok` is durable: what it wrote is on the disk. A dropped future may or
/// may not have written; the version tells.
pub trait Ledger: Send + Sync + 'static {
    /// Stores a definition unless it is there already.
    fn define(&self, definition: Definition) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Reads a definition. [`LedgerError::Absent`] where there is none.
    fn definition(&self, hash: DefinitionHash) -> BoxFuture<'_, Result<Definition, LedgerError>>;

    /// Writes a new row (its version becomes 1) with its first history entry.
    fn insert(&self, row: Row, entry: Entry) -> BoxFuture<'_, Result<Row, LedgerError>>;

    /// Writes a row over the version and epoch that it was read with, and appends to its history.
    /// Returns the row with its new version. `epoch` is the epoch that the stored row must have.
    fn update(&self, row: Row, epoch: u64, entry: Entry) -> BoxFuture<'_, Result<Row, LedgerError>> {
        self.update_with_news(row, epoch, entry, Vec::new())
    }

    /// As [`update`](Self::update), and what is to be told of it in the same transaction: either both are durable or
    /// neither is. [`News::Settled`] is kept only where other news of the operation is.
    fn update_with_news(
        &self,
        row: Row,
        epoch: u64,
        entry: Entry,
        news: Vec<News>,
    ) -> BoxFuture<'_, Result<Row, LedgerError>>;

    /// Reads what is to be told and due by then, oldest first, at most so many. Of one operation only the oldest.
    fn notices(&self, due_by: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Notice>, LedgerError>>;

    /// Records what became of a try to tell it. A notice that is gone is no error.
    fn told(&self, notice: u64, told: Told) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Reads a row. [`LedgerError::Absent`] where there is none.
    fn get(&self, id: OperationId) -> BoxFuture<'_, Result<Row, LedgerError>>;

    /// Reads rows.
    fn list(&self, query: Query) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>>;

    /// Reads a row's history, oldest first.
    fn history(&self, id: OperationId) -> BoxFuture<'_, Result<Vec<Entry>, LedgerError>>;

    /// Files an operator's request for whoever drives the row.
    fn file_request(&self, request: Request) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Reads the requests that wait, oldest first. They stay until they are [answered](Self::answered): a
    /// crash in between loses none.
    fn requests(&self) -> BoxFuture<'_, Result<Vec<Filed>, LedgerError>>;

    /// Removes a request whose effect is durable. One that is gone already is no error.
    fn answered(&self, request: u64) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Removes settled rows whose last write is older than `before`. Returns how many.
    fn prune(&self, before: Timestamp) -> BoxFuture<'_, Result<u64, LedgerError>>;
}

/// Which rows to read. The default: all, newest first, a hundred of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Only unsettled rows.
    pub unsettled: bool,
    /// Only settled rows whose caller may not know how they ended: a cancel was wanted, or their answer never
    /// reached the transport.
    pub untold: bool,
    /// Only rows whose epoch is not this one: those of earlier incarnations.
    pub other_than_epoch: Option<u64>,
    /// Only rows with `next_at` at or before this.
    pub due_by: Option<Timestamp>,
    /// Only rows in one of these phases; empty for any.
    pub phases: Vec<Phase>,
    /// Only rows of this principal.
    pub principal: Option<Principal>,
    /// Only rows of calls that are identical.
    pub identity: Option<Identity>,
    /// Only rows whose id starts with this text.
    pub id_prefix: Option<String>,
    /// In which order.
    pub order: Order,
    /// At most so many.
    pub limit: usize,
    /// Leaves out rows up to and including this one, in `order`: for pages. Only for [`Order::Newest`] and [`Order::Oldest`].
    pub after: Option<OperationId>,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            unsettled: false,
            untold: false,
            other_than_epoch: None,
            due_by: None,
            phases: Vec::new(),
            principal: None,
            identity: None,
            id_prefix: None,
            order: Order::Newest,
            limit: 100,
            after: None,
        }
    }
}

/// The order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By creation, newest first.
    Newest,
    /// By creation, oldest first.
    Oldest,
    /// Cancels that are wanted first, then by `next_at`, earliest first.
    Urgency,
}

/// A checked tool definition in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The hash of policy and body.
    pub hash: DefinitionHash,
    /// What [`step`](crate::step()) decides by.
    pub policy: Arc<Policy>,
    /// What the upstream's performer works by: JSON, secrets only as references.
    pub body: Value,
}

/// One line of a row's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// The event's name.
    pub event: String,
    /// The phase after it.
    pub phase: Phase,
    /// In words, without secrets.
    pub note: Option<String>,
}

/// What an operator asked for from outside the process that drives a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Which row.
    pub operation: OperationId,
    /// What.
    pub action: Action,
}

/// A request that waits in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filed {
    /// Its number, never used again.
    pub number: u64,
    /// What is asked for.
    pub request: Request,
}

/// What an operator can ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Cancel it.
    Cancel {
        /// Why, in the operator's words.
        note: Option<String>,
    },
    /// Try again what we gave up.
    Retry,
    /// It is settled by word.
    Resolve {
        /// What the operator says.
        verdict: Verdict,
        /// Why.
        note: String,
    },
}

impl Action {
    /// What the operation is told.
    pub fn event(&self) -> Event {
        match self {
            Self::Cancel { note } => {
                Event::CancelWanted { cause: Cause::Operator, reason: None, note: note.clone() }
            }
            Self::Retry => Event::RetryWanted,
            Self::Resolve { verdict, note } => Event::Resolved { verdict: *verdict, note: note.clone() },
        }
    }
}

/// Why the ledger could not do it. The three are different answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Somebody else has written the row since it was read.
    #[error("operation {id} is at epoch {epoch} and version {version} by now: another writer was first")]
    Fenced {
        /// Which row.
        id: OperationId,
        /// The stored epoch.
        epoch: u64,
        /// The stored version.
        version: u64,
    },
    /// There is no such row or definition.
    #[error("the ledger has no {what}")]
    Absent {
        /// What was looked for.
        what: String,
    },
    /// The store itself failed: nothing was written, or nobody knows.
    #[error("failed to {action} the ledger {path}: {message}")]
    Store {
        /// What was tried: `write`, `read`, `open`.
        action: &'static str,
        /// Where the ledger is.
        path: String,
        /// What the store said, and what to do.
        message: String,
    },
}

/// What performs the requests of one kind of upstream. Each method sends one request and
/// classifies the answer; it decides nothing.
///
/// # Cancel safety
/// Dropping a future aborts its request; whether the upstream saw it is then unknown, which is
/// why the driver keeps a create in a task of its own.
pub trait Upstream: Send + Sync + 'static {
    /// Waits for a place under the concurrency limit of the upstream. Nothing is sent while it
    /// is not held.
    fn admit(&self) -> BoxFuture<'_, Permit>;

    /// Sends the create, or its replay, with the row's key.
    fn create<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Created>;

    /// Asks whether something exists under the row's key.
    fn find<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, FindAnswer>;

    /// Reads the status.
    fn status<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Read>;

    /// Sends the cancel, or the forced one.
    fn cancel<'a>(&'a self, row: &'a Row, force: bool) -> BoxFuture<'a, CancelAnswer>;

    /// Marks what cannot be stopped.
    fn mark<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, RequestAnswer>;

    /// Sends the undo request `row.undo_next`.
    fn undo<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, RequestAnswer>;

    /// Whether it is done here: to ask it costs no connection, so that any number of questions may be on their way.
    fn is_local(&self) -> bool {
        false
    }

    /// Waits for lines that it has written after that one, for those who want to see them. Never resolves where it writes none.
    fn lines<'a>(&'a self, _row: &'a Row, _after: u64) -> BoxFuture<'a, Lines> {
        Box::pin(std::future::pending())
    }

    /// Reads the result of an operation that has completed.
    fn result<'a>(&'a self, row: &'a Row) -> BoxFuture<'a, Result<Payload, crate::event::Trouble>>;
}

/// Lines that an operation has written while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// The number of the last of them; the first that it ever wrote is 1. Where lines are missing, they were too many.
    pub last: u64,
    /// The lines, without their ends.
    pub lines: Vec<String>,
}

/// A place under an upstream's concurrency limit; dropping it gives it back.
pub struct Permit(pub Box<dyn std::any::Any + Send>);

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permit")
    }
}

/// What a create brought: the answer that decides, and for one that is its own result the payload.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// What it means.
    pub answer: CreateAnswer,
    /// The body, where it is the result (`http`).
    pub payload: Option<Payload>,
}

/// What a status read brought: the answer that decides, and what is only shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// What it means.
    pub answer: StatusAnswer,
    /// The progress, as the upstream gives it.
    pub progress: Option<f64>,
    /// The body, where no separate result request exists.
    pub payload: Option<Payload>,
}

/// What an upstream returned to be handed to the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// JSON, or the part of it that `value` names.
    Json(Value),
    /// Text of this media type.
    Text {
        /// `text/…`
        media_type: String,
        /// The text.
        text: String,
    },
    /// Anything else.
    Bytes {
        /// The media type.
        media_type: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
}
