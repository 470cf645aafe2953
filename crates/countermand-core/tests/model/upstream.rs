//! An upstream in the abstract: what it has made, what is on its way to it, what it remembers.

use countermand_core::{Timestamp, Turn};
use std::time::Duration;

pub(crate) const ZERO: Timestamp = Timestamp::from_micros(0);

/// A job there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Job {
    Running,
    Stopping,
    Completed,
    Cancelled,
    /// It has ended, and its id is not known any more.
    Forgotten,
}

impl Job {
    pub(crate) const fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Stopping)
    }
}

/// The one request of ours that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) turn: Turn,
    pub(crate) since: Timestamp,
    pub(crate) answer: Option<Answer>,
}

/// An answer on its way to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Id,
    Found(bool),
    Running,
    Stopping,
    Completed,
    Cancelled,
    Missing,
    Accepted,
    Done,
}

/// A create on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Create {
    /// Its connection is open.
    Open,
    /// Its connection has ended; it can arrive before this time.
    Stray(Timestamp),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Upstream {
    pub(crate) creates: Vec<Create>,
    /// A cancel whose answer we do not wait for any more.
    pub(crate) stray_cancel: bool,
    pub(crate) jobs: Vec<Job>,
    /// When the key was first seen.
    pub(crate) key_since: Option<Timestamp>,
    /// How many look-ups may still overlook what exists.
    pub(crate) stale: u8,
    /// Undone while it was alive.
    pub(crate) undid_alive: bool,
}

impl Upstream {
    pub(crate) fn is_alive(&self) -> bool {
        self.jobs.iter().any(|job| job.is_alive())
    }

    /// A create arrives. `window` is how long the key is honoured, if at all.
    pub(crate) fn create(&mut self, window: Option<Duration>, becomes: Job) {
        if self.knows_key(window, ZERO) || self.jobs.len() > 1 {
            return;
        }
        self.jobs.push(becomes);
        self.key_since.get_or_insert(ZERO);
    }

    pub(crate) fn knows_key(&self, window: Option<Duration>, at: Timestamp) -> bool {
        self.key_since.zip(window).is_some_and(|(since, window)| at < since + window)
    }

    pub(crate) fn cancel(&mut self) {
        if let Some(job @ Job::Running) = self.jobs.first_mut() {
            *job = Job::Stopping;
        }
    }

    /// Whether a create on the wire could still make something.
    pub(crate) fn create_could_arrive(&self, window: Option<Duration>, horizon: Duration) -> bool {
        self.creates.iter().any(|create| {
            let by = match create {
                Create::Open => ZERO + horizon,
                Create::Stray(by) => *by,
            };
            !self.knows_key(window, by)
        })
    }

    /// The connections of creates have ended.
    pub(crate) fn disconnect(&mut self, horizon: Duration) {
        for create in &mut self.creates {
            if *create == Create::Open {
                *create = Create::Stray(ZERO + horizon);
            }
        }
        self.creates.sort();
    }

    /// Time has passed.
    pub(crate) fn shift(&mut self, by: Duration) {
        for create in &mut self.creates {
            if let Create::Stray(until) = create {
                *until = *until - by;
            }
        }
        self.creates.retain(|create| !matches!(create, Create::Stray(by) if *by <= ZERO));
        if let Some(since) = &mut self.key_since {
            *since = (*since - by).max(ZERO - Duration::from_secs(3600));
        }
    }
}
