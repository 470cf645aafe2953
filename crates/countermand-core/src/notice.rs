//! What somebody is told, when, and how often it is tried.

use crate::{
    ids::OperationId,
    phase::{News, Phase},
    row::Row,
    schedule::GIVE_UP_AFTER,
    time::{Now, Timestamp},
};
use std::time::Duration;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// Something to tell, as the ledger keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its number, never used again.
    pub number: u64,
    /// Of which operation.
    pub operation: OperationId,
    /// What.
    pub news: News,
    /// Since when.
    pub at: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
}

/// What became of a try to tell somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It was told.
    Done,
    /// There is nobody to be told.
    Nobody,
    /// It is tried again.
    Again {
        /// When.
        at: Timestamp,
        /// What went wrong.
        error: String,
    },
    /// It is not tried any more.
    GivenUp {
        /// What went wrong.
        error: String,
    },
}

/// What a step has made worth telling. That something is settled is worth it only after other news of it, which
/// the ledger knows.
pub fn news(before: &Row, after: &Row) -> Option<News> {
    if before.phase == after.phase {
        return None;
    }
    match after.phase {
        // An operator who wants it tried again knows.
        Phase::Orphaned => (before.phase != Phase::NeedsIntervention).then_some(News::Orphaned),
        Phase::NeedsIntervention => Some(News::NeedsIntervention),
        Phase::CompensationFailed => Some(News::CompensationFailed),
        phase => phase.is_settled().then_some(News::Settled),
    }
}

/// What follows from a try that has failed: another one, later each time, for a day.
pub fn failed(notice: &Notice, error: String, now: Now) -> Told {
    if now.at.since(notice.at) >= GIVE_UP_AFTER {
        return Told::GivenUp { error };
    }
    let doubled = FIRST_RETRY.saturating_mul(1 << notice.attempts.min(20)).min(LONGEST_RETRY);
    Told::Again { at: now.at + doubled / 2 + now.dice.jitter(doubled / 2), error }
}
