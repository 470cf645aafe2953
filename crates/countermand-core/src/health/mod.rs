//! How well an upstream is, and how many retries it is spared: what delays a request, and never drops one.
//!
//! A [`Breaker`] stops asking an upstream that does not answer, and asks it once in a while whether it is back. A
//! [`Budget`] keeps retries to a share of the requests that are none. A request that stops something, or that leads to
//! its stop, waits for either [two seconds](STOP_WAITS) at most and is sent then, whatever they say.

mod breaker;
mod budget;

pub use breaker::{Breaker, Change, Held, Pass, Verdict};
pub use budget::Budget;

use crate::{
    event::Says,
    phase::Phase,
    row::{Row, Turn},
    time::{Now, Timestamp},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a request that stops something is put off at most.
pub const STOP_WAITS: Duration = Duration::from_secs(2);

/// When an upstream counts as ill, and how it is spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HealthPolicy {
    /// After how many failures in a row it is not asked any more.
    pub failures: u32,
    /// How long it is left alone at first; doubled after each probe that fails.
    pub open: Duration,
    /// How long it is left alone at most.
    pub max: Duration,
    /// How many retries there may be for a hundred first requests.
    pub retry_percent: u32,
    /// How many retries a second there may be besides.
    pub retries_per_second: u32,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            failures: 5,
            open: Duration::from_secs(5),
            max: Duration::from_secs(60),
            retry_percent: 20,
            retries_per_second: 10,
        }
    }
}

/// How much a request can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// Until the upstream is well.
    Work,
    /// [Two seconds](STOP_WAITS): it stops something, or leads to its stop.
    Stop,
}

/// What a request is to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Try {
    /// A first one: it earns a share of a retry.
    First,
    /// One more of what was tried before: it costs one.
    Again,
    /// A poll: neither.
    Poll,
}

/// A request that wants to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ask {
    /// How much it can wait.
    pub urgency: Urgency,
    /// What it is to the budget.
    pub tried: Try,
    /// When it was due: whatever held it up since then, this counts.
    pub due: Timestamp,
    /// What must not wait for it: the next cancel of the same operation.
    pub before: Option<Timestamp>,
}

impl Ask {
    /// What a row's next request is.
    pub fn of(row: &Row, turn: Turn, at: Timestamp) -> Self {
        let stops = match turn {
            Turn::Cancel | Turn::Force => true,
            Turn::Mark | Turn::Undo => false,
            // It leads to the cancel, or confirms it.
            Turn::Create | Turn::Replay | Turn::Find | Turn::Status => {
                row.cancel_wanted() && row.owes() != Phase::Draining
            }
        };
        let tried = match turn {
            Turn::Status => Try::Poll,
            Turn::Replay => Try::Again,
            _ if row.attempts > 0 => Try::Again,
            _ => Try::First,
        };
        let (due, before) = match turn {
            Turn::Cancel | Turn::Force => (row.cancel_at, None),
            _ => (row.turn_at, row.cancel_at),
        };
        let urgency = if stops { Urgency::Stop } else { Urgency::Work };
        Self { urgency, tried, due: due.unwrap_or(at).min(at), before }
    }

    /// Until when it can be put off.
    fn at_latest(&self) -> Option<Timestamp> {
        let latest = (self.urgency == Urgency::Stop).then(|| self.due + STOP_WAITS);
        latest.map(|latest| self.before.map_or(latest, |before| latest.min(before)))
    }
}

/// How one upstream is, and what it is spared.
#[derive(Debug, Clone)]
pub struct Health {
    breaker: Breaker,
    budget: Budget,
}

impl Health {
    /// An upstream of which nothing is known yet.
    pub fn new(policy: HealthPolicy) -> Self {
        Self { breaker: Breaker::new(policy), budget: Budget::new(policy) }
    }

    /// Takes the request's share of the budget, and says from when on it is sent. Asked once for each request.
    pub fn reserve(&mut self, ask: &Ask, now: Now) -> Timestamp {
        match ask.tried {
            Try::First => self.budget.earn(now.at),
            Try::Poll => {}
            Try::Again => return self.budget.spend(ask.at_latest(), now.at),
        }
        now.at
    }

    /// Gives back what a request has taken that is not sent after all.
    pub fn give_back(&mut self, ask: &Ask) {
        if ask.tried == Try::Again && ask.urgency == Urgency::Work {
            self.budget.give_back();
        }
    }

    /// Whether it may be sent now.
    pub fn ask(&mut self, ask: &Ask, now: Now) -> Verdict {
        self.breaker.ask(ask.at_latest(), now.at)
    }

    /// What the upstream showed with a request that was let through. The words are those of its trouble.
    pub fn told(&mut self, pass: Pass, says: Says, words: Words<'_>, now: Now) -> Option<Change> {
        self.breaker.told(pass, says, words, now)
    }

    /// Why requests wait, where they do.
    pub fn held(&self) -> Option<Held> {
        self.breaker.held()
    }
}

/// What an upstream said with a failure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Words<'a> {
    /// In words, without secrets.
    pub message: &'a str,
    /// When it wants to be asked again.
    pub retry_after: Option<Duration>,
}
