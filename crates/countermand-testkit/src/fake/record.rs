//! The append-only record of what the fake upstream saw and did: the oracle that tests hold everything else against.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::gate::Gate;
use super::lock;
use super::route::Route;

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the record, counted from zero without gaps.
    pub seq: u64,
    /// Milliseconds since the fake started.
    pub at: f64,
    /// The connection that it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub conn: Option<u64>,
    /// The request that it is about; numbers are unique across connections.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<u64>,
    /// The route of that request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub route: Option<Route>,
    /// The tag of the request or of the job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tag: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// How a peer left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// It sent a FIN. A half-close and a whole close look the same until something is written.
    Fin,
    /// It sent a RST.
    Reset,
}

/// What happened, in the past tense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the nouns of their variants")]
pub enum EventKind {
    /// A connection was accepted.
    ConnectionOpened,
    /// The connection carries control requests: it is no upstream connection, and is not counted as one.
    ConnectionIsControl,
    /// The peer left while nothing was in flight.
    ConnectionClosed { how: Close },
    /// The peer left before its request was read or its answer was complete: the upstream's view of an abort.
    ClosedEarly {
        how: Close,
        method: String,
        target: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        gate: Option<Gate>,
    },
    /// The fake ended the connection itself, by a FIN or by a RST.
    HungUp { how: Close },
    /// A request's head was read. The target is as it was on the wire.
    Request { method: String, target: String, key: Option<String> },
    /// A request's body was read.
    BodyReceived { bytes: u64 },
    /// A gate was reached, and `held` says whether a hold stopped it there.
    GateReached { gate: Gate, held: bool },
    /// A fault took the place of the normal answer.
    FaultApplied { fault: String },
    /// The last byte of an answer was given to the kernel.
    Responded { status: u16 },
    /// A job was created.
    JobCreated { job: String, key: Option<String> },
    /// A create was answered with the job that its key had created before.
    JobDeduplicated { job: String, key: String },
    /// A status was read, for the n-th time, and the fake said this.
    JobPolled { job: String, n: u32, said: String },
    /// A cancel of a job arrived.
    CancelReceived { job: String, forced: bool },
    /// A job took its cancel, and is not ended yet.
    JobCancelling { job: String },
    /// A job ended by its cancel.
    JobCancelled { job: String },
    /// A job ended by itself.
    JobDone { job: String },
    /// A job failed.
    JobFailed { job: String },
    /// A job committed rows under its tag, which now has `total`.
    RowsWritten { job: String, count: u64, total: u64 },
    /// The rows of a tag were deleted.
    RowsDeleted { count: u64 },
    /// A result was read.
    ResultRead { job: String },
    /// The list of jobs was read.
    Listed { key: Option<String>, hits: u64 },
    /// An order took effect.
    OrderCommitted { order: u64, key: Option<String> },
    /// An order was answered with the one that its key had made before.
    OrderDeduplicated { order: u64, key: String },
    /// A mark was put somewhere.
    Marked { target: String, body: String },
    /// A slow read-only request started its work.
    SlowStarted,
    /// A slow read-only request ended it: by being released, after its time, or because its peer left.
    SlowEnded { released: bool },
}

impl EventKind {
    /// The name of the kind, as in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::ConnectionOpened => "connection_opened",
            EventKind::ConnectionIsControl => "connection_is_control",
            EventKind::ConnectionClosed { .. } => "connection_closed",
            EventKind::ClosedEarly { .. } => "closed_early",
            EventKind::HungUp { .. } => "hung_up",
            EventKind::Request { .. } => "request",
            EventKind::BodyReceived { .. } => "body_received",
            EventKind::GateReached { .. } => "gate_reached",
            EventKind::FaultApplied { .. } => "fault_applied",
            EventKind::Responded { .. } => "responded",
            EventKind::JobCreated { .. } => "job_created",
            EventKind::JobDeduplicated { .. } => "job_deduplicated",
            EventKind::JobPolled { .. } => "job_polled",
            EventKind::CancelReceived { .. } => "cancel_received",
            EventKind::JobCancelling { .. } => "job_cancelling",
            EventKind::JobCancelled { .. } => "job_cancelled",
            EventKind::JobDone { .. } => "job_done",
            EventKind::JobFailed { .. } => "job_failed",
            EventKind::RowsWritten { .. } => "rows_written",
            EventKind::RowsDeleted { .. } => "rows_deleted",
            EventKind::ResultRead { .. } => "result_read",
            EventKind::Listed { .. } => "listed",
            EventKind::OrderCommitted { .. } => "order_committed",
            EventKind::OrderDeduplicated { .. } => "order_deduplicated",
            EventKind::Marked { .. } => "marked",
            EventKind::SlowStarted => "slow_started",
            EventKind::SlowEnded { .. } => "slow_ended",
        }
    }
}

impl Event {
    /// Whether this is an event of the kind that JSON calls `name`.
    pub fn is(&self, name: &str) -> bool {
        self.kind.name() == name
    }

    /// Whether this is the reaching of `gate`. `Gate::Poll` stands for every poll.
    pub fn reached(&self, gate: Gate) -> bool {
        matches!(self.kind, EventKind::GateReached { gate: at, .. } if gate.covers(at))
    }

    /// Whether the event carries this tag.
    pub fn tagged(&self, tag: &str) -> bool {
        self.tag.as_deref() == Some(tag)
    }
}

/// What an event is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) conn: Option<u64>,
    pub(crate) request: Option<u64>,
    pub(crate) route: Option<Route>,
    pub(crate) tag: Option<String>,
}

/// The record of one fake. Appending and reading are synchronous; `grown` follows its length.
#[derive(Debug)]
pub(crate) struct Record {
    started: Instant,
    events: Mutex<Vec<Event>>,
    length: watch::Sender<u64>,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record { started: Instant::now(), events: Mutex::default(), length: watch::Sender::new(0) }
    }

    pub(crate) fn push(&self, about: About, kind: EventKind) {
        let at = self.started.elapsed().as_secs_f64() * 1000.0;
        let About { conn, request, route, tag } = about;
        let mut events = lock(&self.events);
        let seq = events.len() as u64;
        events.push(Event { seq, at, conn, request, route, tag, kind });
        // Under the lock, so that the length never goes back.
        self.length.send_replace(seq + 1);
    }

    pub(crate) fn since(&self, seq: u64) -> Vec<Event> {
        let events = lock(&self.events);
        let from = usize::try_from(seq).unwrap_or(usize::MAX).min(events.len());
        events[from..].to_vec()
    }

    pub(crate) fn grown(&self) -> watch::Receiver<u64> {
        self.length.subscribe()
    }
}
