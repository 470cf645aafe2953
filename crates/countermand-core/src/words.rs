//! What we say of an operation to people, and nothing that is not known.

use crate::{
    phase::{Outcome, Phase},
    policy::OnDisconnect,
    row::Row,
    time::Timestamp,
};

/// What can truthfully be said of an operation: never *stopped* before a status read said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Said {
    /// It runs (or is about to), and nobody wants it to stop.
    Running,
    /// Its client has left and may come back; it runs on until then.
    ClientAway {
        /// When it is cancelled unless the client is back.
        until: Timestamp,
    },
    /// It runs on without its client, as it was meant to.
    Detached {
        /// The end of its lifetime.
        ends_by: Timestamp,
    },
    /// The answer to its create was lost: whether it started is being found out.
    Unclear,
    /// It finished, and no cancel was wanted.
    Finished,
    /// It failed by itself.
    Failed,
    /// It does not run any more: the upstream said so.
    Stopped,
    /// The upstream has not known its id for some time: nothing of it can run.
    Gone,
    /// It never started upstream.
    NeverStarted,
    /// Its create was lost, and was not there when it could no longer arrive: it counts as never started.
    NeverArrived,
    /// It was stopped, or had finished, and its effects were undone.
    Undone,
    /// It had finished before the cancel took effect.
    FinishedBeforeCancel,
    /// A cancel is wanted and not confirmed.
    CancelPending,
    /// It has ended; its effects are being undone.
    UndoPending,
    /// It cannot be stopped; it ends by this time at the latest, as far as we are concerned.
    CannotBeStopped {
        /// The end of its lifetime.
        ends_by: Timestamp,
    },
    /// The cancel was delivered where nothing can verify it.
    Unverifiable,
    /// Something is owed, and is failing or late.
    Orphaned,
    /// We gave up; an operator must act.
    NeedsOperator,
    /// An operator settled it by word.
    Resolved,
}

impl Said {
    /// The short form: stable, in `snake_case`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::ClientAway { .. } => "client_away",
            Self::Detached { .. } => "detached",
            Self::Unclear => "unclear",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Gone => "gone",
            Self::NeverStarted | Self::NeverArrived => "never_started",
            Self::Undone => "undone",
            Self::FinishedBeforeCancel => "finished_before_cancel",
            Self::CancelPending => "cancel_pending",
            Self::UndoPending => "undo_pending",
            Self::CannotBeStopped { .. } => "cannot_be_stopped",
            Self::Unverifiable => "unverifiable",
            Self::Orphaned => "orphaned",
            Self::NeedsOperator => "needs_operator",
            Self::Resolved => "resolved",
        }
    }

    /// A sentence for a person or a model.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Running => "It is running upstream.",
            Self::ClientAway { .. } => {
                "Its client has left; it runs on upstream and is cancelled after its grace unless the client is back."
            }
            Self::Detached { .. } => "It runs on upstream without its client; its lifetime bounds it.",
            Self::Unclear => "Whether it started upstream is not known yet, and is being found out.",
            Self::Finished => "It finished.",
            Self::Failed => "It failed.",
            Self::Stopped => "It was stopped: the upstream confirmed it.",
            Self::Gone => "It is gone: the upstream does not know its id any more.",
            Self::NeverStarted => "It never started upstream.",
            Self::NeverArrived => {
                "It did not start upstream in the time in which its create could arrive (`horizon`): a look-up after that found nothing."
            }
            Self::Undone => "It has ended upstream, and its effects were undone.",
            Self::FinishedBeforeCancel => "It finished before the cancel took effect; its effects remain.",
            Self::CancelPending => "The cancel is pending: the upstream has not confirmed that it stopped.",
            Self::UndoPending => "It has ended upstream; its effects are being undone.",
            Self::CannotBeStopped { .. } => "The upstream cannot stop it; its lifetime bounds it.",
            Self::Unverifiable => "The cancel was delivered; whether it stopped cannot be verified.",
            Self::Orphaned => {
                "It may still run upstream: what is owed to it is late or failing, and is retried."
            }
            Self::NeedsOperator => "It may still have effects upstream: an operator must look at it.",
            Self::Resolved => "An operator settled it by hand.",
        }
    }
}

/// What can be said of this row now.
pub fn describe(row: &Row) -> Said {
    let wanted = row.cancel_wanted();
    match row.phase {
        Phase::Intent | Phase::Dispatched | Phase::Unknown | Phase::Running if wanted => Said::CancelPending,
        Phase::Intent | Phase::Dispatched | Phase::Running => running(row),
        Phase::Unknown => Said::Unclear,
        Phase::CancelRequested | Phase::Cancelling => Said::CancelPending,
        Phase::Draining => Said::CannotBeStopped { ends_by: row.hard_deadline },
        Phase::Ended => match row.outcome {
            Some(Outcome::Completed) if wanted => Said::FinishedBeforeCancel,
            Some(Outcome::Completed) => Said::Finished,
            Some(Outcome::Failed) => Said::Failed,
            _ => Said::CancelPending,
        },
        Phase::Compensating => Said::UndoPending,
        Phase::Orphaned => Said::Orphaned,
        Phase::Completed if wanted => Said::FinishedBeforeCancel,
        Phase::Completed => Said::Finished,
        Phase::Failed => Said::Failed,
        Phase::Cancelled if row.outcome == Some(Outcome::Gone) => Said::Gone,
        Phase::Cancelled => Said::Stopped,
        Phase::NeverCreated if never_arrived(row) => Said::NeverArrived,
        Phase::NeverCreated => Said::NeverStarted,
        Phase::Compensated => Said::Undone,
        Phase::Unverified => Said::Unverifiable,
        Phase::Resolved => Said::Resolved,
        Phase::NeedsIntervention | Phase::CompensationFailed => Said::NeedsOperator,
    }
}

/// Whether it was settled because its create, which had been lost, could no longer arrive and was not there. Should the
/// upstream take longer than its `horizon` says, it exists all the same, under the row's key.
pub fn never_arrived(row: &Row) -> bool {
    matches!(row.phase, Phase::NeverCreated | Phase::Failed)
        && row.create_horizon.is_some()
        && row.upstream_id.is_none()
}

/// What can be said of what runs, and nobody wants to stop: who waits for it.
fn running(row: &Row) -> Said {
    match (row.on_disconnect, row.disconnect_at) {
        (OnDisconnect::Detach, _) if !row.awaited => Said::Detached { ends_by: row.hard_deadline },
        (_, Some(until)) => Said::ClientAway { until },
        _ => Said::Running,
    }
}
