//! What the record adds up to: jobs, rows, connections. Pure, so that it is the same in process and over the control API.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::record::{Event, EventKind};
use super::world::JobState;

/// A job, as the record knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    /// `job-N`.
    pub id: String,
    /// The idempotency key that created it.
    pub key: Option<String>,
    /// Its tag.
    pub tag: Option<String>,
    /// Where it really is, whatever it says. A job that waits counts as running.
    pub state: JobState,
}

/// How many jobs there were, and what became of them: `created` is the sum of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    /// All of them.
    pub created: u64,
    /// Ended by themselves.
    pub completed: u64,
    /// Ended by failing.
    pub failed: u64,
    /// Ended by a cancel.
    pub cancelled: u64,
    /// Not ended.
    pub live: u64,
}

impl Books {
    /// The books of a whole record.
    pub fn of(events: &[Event]) -> Books {
        let mut books = Books::default();
        for job in jobs(events) {
            books.created += 1;
            *match job.state {
                JobState::Done => &mut books.completed,
                JobState::Failed => &mut books.failed,
                JobState::Cancelled => &mut books.cancelled,
                JobState::Queued | JobState::Running | JobState::Cancelling => &mut books.live,
            } += 1;
        }
        books
    }
}

/// All jobs, in the order of their creation.
pub fn jobs(events: &[Event]) -> Vec<JobEntry> {
    let mut jobs: Vec<JobEntry> = Vec::new();
    let mut at: HashMap<&str, usize> = HashMap::new();
    for event in events {
        let (job, state) = match &event.kind {
            EventKind::JobCreated { job, key } => {
                at.insert(job, jobs.len());
                let (id, key, tag) = (job.clone(), key.clone(), event.tag.clone());
                jobs.push(JobEntry { id, key, tag, state: JobState::Running });
                continue;
            }
            EventKind::JobCancelling { job } => (job, JobState::Cancelling),
            EventKind::JobCancelled { job } => (job, JobState::Cancelled),
            EventKind::JobDone { job } => (job, JobState::Done),
            EventKind::JobFailed { job } => (job, JobState::Failed),
            _ => continue,
        };
        if let Some(at) = at.get(job.as_str()) {
            jobs[*at].state = state;
        }
    }
    jobs
}

/// The jobs that have not ended.
pub fn live_jobs(events: &[Event]) -> Vec<JobEntry> {
    jobs(events).into_iter().filter(|job| !job.state.is_terminal()).collect()
}

/// How many rows there are under `tag` now.
pub fn rows(events: &[Event], tag: &str) -> u64 {
    let of_tag = events.iter().rev().filter(|event| event.tagged(tag));
    of_tag
        .filter_map(|event| match event.kind {
            EventKind::RowsWritten { total, .. } => Some(total),
            EventKind::RowsDeleted { .. } => Some(0),
            _ => None,
        })
        .next()
        .unwrap_or(0)
}

/// How many upstream connections are open. Control connections are none.
pub fn connections_open(events: &[Event]) -> usize {
    let mut open = HashSet::new();
    for event in events {
        match event.kind {
            EventKind::ConnectionOpened => drop(open.insert(event.conn)),
            EventKind::ConnectionIsControl
            | EventKind::ConnectionClosed { .. }
            | EventKind::ClosedEarly { .. }
            | EventKind::HungUp { .. } => drop(open.remove(&event.conn)),
            _ => {}
        }
    }
    open.len()
}

/// How many events there are of each kind.
pub fn counts(events: &[Event]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event.kind.name()).or_default() += 1;
    }
    counts
}
