//! What a tool's definition says that the life of its operations depends on.

use crate::{cause::Cause, phase::Kind};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The part of a checked tool definition that [`step`](crate::step()) decides by. Stored with the
/// definition, so that an operation keeps the rules under which it was started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// What kind of effect it is.
    pub kind: Kind,
    /// Whether the upstream can be told to stop.
    pub can_cancel: bool,
    /// How long after the cancel was requested a confirmation may take before it counts as late.
    pub confirm_within: Duration,
    /// From when on (after the cancel was requested) the forced cancel is sent, where there is one.
    pub force_after: Option<Duration>,
    /// The look-up of an operation whose id was lost, where there is one.
    pub find: Option<Lookup>,
    /// How long the upstream honours our key, counted from the first send; `None` where a create
    /// must never be replayed.
    pub key_window: Option<Duration>,
    /// How long a create in flight may go on after a cancel.
    pub shield: Duration,
    /// How long after the end of its last connection a create can still arrive upstream.
    pub horizon: Duration,
    /// The shortest time between two polls; it grows with the age of the operation.
    pub poll_every: Duration,
    /// The longest time between two polls.
    pub poll_max: Duration,
    /// The hard bound of the operation's life, with or without a client.
    pub lifetime: Duration,
    /// How many undo requests there are.
    pub undo_steps: u32,
    /// Whether an operation that completed although a cancel was wanted is undone.
    pub when_completed: WhenCompleted,
    /// Whether an operation that cannot be stopped is marked upstream.
    pub mark: bool,
}

/// What a look-up by our key can promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lookup {
    /// What was committed before the look-up was sent is seen: one miss is enough.
    Consistent,
    /// The list lags behind: it takes two misses.
    Eventual,
}

/// What becomes of work that completed although its cancel was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenCompleted {
    /// It stays.
    Keep,
    /// It is undone.
    Compensate,
}

/// What a client's disconnect means for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It is cancelled at once.
    Cancel,
    /// It is cancelled unless the client is back by then.
    Grace(Duration),
    /// It goes on, bounded by its lifetime.
    Detach,
}

impl OnDisconnect {
    /// Whether a client that leaves like this is not waited for: nobody comes back to a session that has ended.
    pub fn cancels_at_once(self, cause: Cause) -> bool {
        match self {
            Self::Cancel => true,
            Self::Grace(_) => cause == Cause::SessionEnded,
            Self::Detach => false,
        }
    }
}
