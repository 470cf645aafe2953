//! What can happen to an operation, and what the upstream can answer.

use crate::{
    Cause,
    ids::{Owner, UpstreamId},
    phase::{Phase, Verdict},
    time::Timestamp,
};
use serde_json::{Map, Value};
use std::time::Duration;

/// Something that happened, in the past tense.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The create (or its replay) is about to be sent: durable before its first byte is.
    CreateStarted,
    /// The create, or its replay, was answered or is known to have been lost.
    CreateAnswered(CreateAnswer),
    /// A look-up was answered.
    FindAnswered {
        /// When the look-up was *sent*: a miss counts only if that was after the create's horizon.
        sent_at: Timestamp,
        /// What it said.
        answer: FindAnswer,
    },
    /// A status read was answered.
    StatusAnswered(StatusAnswer),
    /// A cancel was answered.
    CancelAnswered(CancelAnswer),
    /// The mark was answered.
    MarkAnswered(RequestAnswer),
    /// The undo request `undo_next` was answered.
    UndoAnswered(RequestAnswer),
    /// Somebody wants it cancelled.
    CancelWanted {
        /// Who.
        cause: Cause,
        /// The client's words.
        reason: Option<String>,
        /// An operator's words: for the history, and never the row's `reason`.
        note: Option<String>,
    },
    /// Its client has left without a word; `on_disconnect` says what that means. With the end of its session it
    /// cannot come back.
    ClientLeft {
        /// How.
        cause: Cause,
    },
    /// Its client is back within its grace, or another call has joined it.
    ClientReturned,
    /// Its answer reached the transport, or what keeps answers for later.
    Delivered,
    /// Another incarnation holds it now: after a restart, or a takeover.
    TakenOver {
        /// Who.
        owner: Owner,
        /// Which incarnation.
        epoch: u64,
    },
    /// What is due waits until the upstream is well again.
    HeldUp {
        /// Why, in words without secrets.
        why: String,
    },
    /// Time has passed, and a timer of the row may be due.
    TimePassed,
    /// An operator settled it by word.
    Resolved {
        /// What the operator says.
        verdict: Verdict,
        /// Why.
        note: String,
    },
    /// An operator wants what is owed tried again.
    RetryWanted,
}

/// The answer to a create or its replay.
#[derive(Debug, Clone, PartialEq)]
pub enum CreateAnswer {
    /// A 2xx. A job without an id in it counts as lost.
    Created {
        /// The upstream's id.
        id: Option<UpstreamId>,
        /// What `create.save` names.
        saved: Map<String, Value>,
    },
    /// Not one byte was written: no connection, no name, no TLS.
    NotSent(Trouble),
    /// 429: refused for now, nothing was created.
    Throttled(Trouble),
    /// Another 4xx but 408, 409, 425: refused for good.
    Refused(Trouble),
    /// All else. It may exist, it may arrive later.
    Lost(Trouble),
}

impl CreateAnswer {
    /// What went wrong.
    pub const fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Created { .. } => None,
            Self::NotSent(trouble)
            | Self::Throttled(trouble)
            | Self::Refused(trouble)
            | Self::Lost(trouble) => Some(trouble),
        }
    }
}

/// The answer to a look-up by key.
#[derive(Debug, Clone, PartialEq)]
pub enum FindAnswer {
    /// It exists.
    Hit {
        /// The upstream's id.
        id: Option<UpstreamId>,
        /// What `create.save` names.
        saved: Map<String, Value>,
    },
    /// It is not listed.
    Miss,
    /// The look-up said nothing about it.
    Failed(Trouble),
}

/// The answer to a status read.
#[derive(Debug, Clone, PartialEq)]
pub enum StatusAnswer {
    /// It runs, or says something that is no end.
    Running {
        /// The state as the upstream names it.
        state: String,
        /// Whether that state is one of the configured `running` ones.
        listed: bool,
        /// When the upstream wants to be asked again.
        retry_after: Option<Duration>,
        /// What `status.save` names.
        saved: Map<String, Value>,
    },
    /// It has ended.
    Ended {
        /// How.
        end: End,
        /// The upstream's message.
        error: Option<String>,
        /// What `status.save` names, such as the address of the result.
        saved: Map<String, Value>,
    },
    /// 404 or 410: the id is not known.
    Missing,
    /// The read said nothing about it.
    Failed(Trouble),
}

/// The ways in which an upstream says that something has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// It did its work.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// The answer to a cancel.
#[derive(Debug, Clone, PartialEq)]
pub enum CancelAnswer {
    /// 2xx, and 404, 409, 410: a receipt; a status read tells the rest.
    Accepted {
        /// The HTTP status or its like, for the history.
        how: String,
    },
    /// Anything else: tried again.
    NotAccepted(Trouble),
}

/// The answer to a request of which only success matters: mark, undo.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestAnswer {
    /// Done.
    Done,
    /// Refused for good: a 4xx but 408, 409, 425, 429.
    Refused(Trouble),
    /// Not now: tried again.
    Failed(Trouble),
}

/// Why something did not work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trouble {
    /// In words, without secrets.
    pub message: String,
    /// When the upstream wants to be asked again.
    pub retry_after: Option<Duration>,
    /// 401 or 403: our credentials do not suffice. No fast retries.
    pub unauthorised: bool,
    /// What it says of the upstream as a whole.
    pub says: Says,
}

/// What one request shows of the upstream that it went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Says {
    /// Nothing: it was not sent, or was given up by us.
    #[default]
    Nothing,
    /// It answers, whatever the answer is.
    Well,
    /// It is ill: no connection, no name, no TLS, silence, a broken connection, 5xx.
    Ill,
}

impl Trouble {
    /// Trouble of which only the words are known.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Trouble that an upstream has which is ill.
    pub fn ill(message: impl Into<String>) -> Self {
        Self { message: message.into(), says: Says::Ill, ..Self::default() }
    }
}

impl Event {
    /// What went wrong, where it is the answer to a request of which something did.
    pub const fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::CreateAnswered(answer) => answer.trouble(),
            Self::FindAnswered { answer: FindAnswer::Failed(t), .. }
            | Self::StatusAnswered(StatusAnswer::Failed(t))
            | Self::CancelAnswered(CancelAnswer::NotAccepted(t))
            | Self::MarkAnswered(RequestAnswer::Refused(t) | RequestAnswer::Failed(t))
            | Self::UndoAnswered(RequestAnswer::Refused(t) | RequestAnswer::Failed(t)) => Some(t),
            _ => None,
        }
    }

    /// The event's name in the history.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateStarted => "create_started",
            Self::CreateAnswered(CreateAnswer::Created { .. }) => "created",
            Self::CreateAnswered(CreateAnswer::NotSent(_)) => "create_not_sent",
            Self::CreateAnswered(CreateAnswer::Throttled(_)) => "create_throttled",
            Self::CreateAnswered(CreateAnswer::Refused(_)) => "create_refused",
            Self::CreateAnswered(CreateAnswer::Lost(_)) => "create_lost",
            Self::FindAnswered { answer: FindAnswer::Hit { .. }, .. } => "found",
            Self::FindAnswered { answer: FindAnswer::Miss, .. } => "not_found",
            Self::FindAnswered { answer: FindAnswer::Failed(_), .. } => "find_failed",
            Self::StatusAnswered(StatusAnswer::Running { .. }) => "seen_running",
            Self::StatusAnswered(StatusAnswer::Ended { .. }) => "seen_ended",
            Self::StatusAnswered(StatusAnswer::Missing) => "seen_missing",
            Self::StatusAnswered(StatusAnswer::Failed(_)) => "status_failed",
            Self::CancelAnswered(CancelAnswer::Accepted { .. }) => "cancel_accepted",
            Self::CancelAnswered(CancelAnswer::NotAccepted(_)) => "cancel_not_accepted",
            Self::MarkAnswered(RequestAnswer::Done) => "marked",
            Self::MarkAnswered(_) => "mark_failed",
            Self::UndoAnswered(RequestAnswer::Done) => "undone",
            Self::UndoAnswered(RequestAnswer::Refused(_)) => "undo_refused",
            Self::UndoAnswered(RequestAnswer::Failed(_)) => "undo_failed",
            Self::CancelWanted { .. } => "cancel_wanted",
            Self::ClientLeft { .. } => "client_left",
            Self::ClientReturned => "client_returned",
            Self::Delivered => "delivered",
            Self::TakenOver { .. } => "taken_over",
            Self::HeldUp { .. } => "held_up",
            Self::TimePassed => "time_passed",
            Self::Resolved { .. } => "resolved",
            Self::RetryWanted => "retry_wanted",
        }
    }

    /// What the history keeps beside the name, in words without secrets or arguments.
    pub fn note(&self) -> Option<String> {
        if let Some(trouble) = self.trouble() {
            return Some(trouble.message.clone());
        }
        match self {
            Self::CreateAnswered(CreateAnswer::Created { id, .. })
            | Self::FindAnswered { answer: FindAnswer::Hit { id, .. }, .. } => {
                id.as_ref().map(ToString::to_string)
            }
            Self::StatusAnswered(StatusAnswer::Running { state, .. }) => Some(state.clone()),
            Self::StatusAnswered(StatusAnswer::Ended { end, error, .. }) => Some(match error {
                Some(error) => format!("{}: {error}", end.outcome()),
                None => end.outcome().to_string(),
            }),
            Self::CancelAnswered(CancelAnswer::Accepted { how }) => Some(how.clone()),
            Self::CancelWanted { cause, reason, note } => Some(match reason.as_ref().or(note.as_ref()) {
                Some(words) => format!("{cause}: {words}"),
                None => cause.to_string(),
            }),
            Self::ClientLeft { cause } => Some(cause.to_string()),
            Self::TakenOver { owner, epoch } => Some(format!("{owner}, epoch {epoch}")),
            Self::HeldUp { why } => Some(why.clone()),
            Self::Resolved { verdict, note } => Some(format!("{verdict}: {note}")),
            _ => None,
        }
    }
}

impl End {
    /// The outcome of such an end.
    pub const fn outcome(self) -> crate::phase::Outcome {
        match self {
            Self::Completed => crate::phase::Outcome::Completed,
            Self::Failed => crate::phase::Outcome::Failed,
            Self::Cancelled => crate::phase::Outcome::Cancelled,
        }
    }
}

/// What must be done because of an event, in the imperative. The request that is owed next is
/// the row's `turn`: it has to survive a crash, so it is state and not an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make the row durable before anything else happens to it. Without it only the
    /// schedule of a poll has changed, and a crash would lose nothing.
    Persist,
    /// Tell somebody: at ERROR, with all ids and what to do.
    Alarm(Alarm),
}

/// What an operator should hear of at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alarm {
    /// What is owed is late, or cannot be done.
    Orphaned,
    /// The upstream refuses our credentials.
    Unauthorised,
    /// The upstream took back that it had stopped.
    TookBack,
    /// Nothing more is tried without an operator.
    NeedsIntervention,
    /// The undo was refused or took too long.
    CompensationFailed,
}

/// An event that has no meaning in a phase: a bug in the caller, or a race that the caller must know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{event}` has no meaning in phase `{phase}`")]
pub struct IllegalEvent {
    /// The phase.
    pub phase: Phase,
    /// The event's name.
    pub event: &'static str,
}
