//! What there is in the fake: jobs, their rows, orders. Plain data, changed only under the lock of `jobs`.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::record::{About, EventKind, Record};

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum JobState {
    Queued,
    Running,
    /// It took a cancel and has not ended.
    Cancelling,
    Done,
    Failed,
    Cancelled,
}

impl JobState {
    /// Whether it has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed | JobState::Cancelled)
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Cancelling => "cancelling",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }
}

/// What a job says about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct View {
    pub(crate) id: String,
    pub(crate) status: JobState,
    key: Option<String>,
    pub(crate) tag: Option<String>,
    percent: u8,
    pub(crate) rows: u64,
    message: String,
}

/// What a cancel does to a job that could be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obedience {
    Obey,
    Ignore,
    /// Say `cancelled` once, then complete.
    PretendThenDone,
    /// Say `cancelled` once, then go on.
    PretendThenRun,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) key: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) state: JobState,
    pub(super) starts: Instant,
    pub(super) takes: Option<Duration>,
    pub(super) rows: u64,
    pub(super) polls: u32,
    pub(super) pretends: Option<Obedience>,
    pub(super) ended: CancellationToken,
}

impl Job {
    pub(super) fn view(&self) -> View {
        let percent = match (self.state, self.takes) {
            (JobState::Done, _) => 100,
            (_, None) => 0,
            (_, Some(takes)) => {
                let share = self.starts.elapsed().as_secs_f64() / takes.as_secs_f64().max(f64::EPSILON);
                (share * 100.0).clamp(0.0, 99.0) as u8
            }
        };
        View {
            id: self.id.clone(),
            status: self.state,
            key: self.key.clone(),
            tag: self.tag.clone(),
            percent,
            rows: self.rows,
            message: format!("{} rows written", self.rows),
        }
    }

    pub(super) fn about(&self) -> About {
        About { tag: self.tag.clone(), ..About::default() }
    }
}

#[derive(Debug, Default)]
pub(super) struct World {
    /// `job-N` is at `N - 1`.
    pub(super) jobs: Vec<Job>,
    pub(super) job_by_key: HashMap<String, usize>,
    pub(super) orders: u64,
    pub(super) order_by_key: HashMap<String, u64>,
    pub(super) rows: HashMap<String, u64>,
    pub(super) cancel_delay: Duration,
}

impl World {
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        let n: usize = id.strip_prefix("job-")?.parse().ok()?;
        n.checked_sub(1).filter(|at| *at < self.jobs.len())
    }

    pub(super) fn job(&mut self, id: &str) -> Option<&mut Job> {
        let at = self.find(id)?;
        self.jobs.get_mut(at)
    }

    pub(super) fn write_row(&mut self, record: &Record, at: usize) {
        let job = &mut self.jobs[at];
        let Some(tag) = &job.tag else { return };
        job.rows += 1;
        let total = self.rows.entry(tag.clone()).or_default();
        *total += 1;
        record.push(job.about(), EventKind::RowsWritten { job: job.id.clone(), count: 1, total: *total });
    }

    pub(super) fn end(&mut self, record: &Record, at: usize, state: JobState) -> bool {
        let job = &mut self.jobs[at];
        if job.state.is_terminal() {
            return false;
        }
        job.state = state;
        job.pretends = None;
        job.ended.cancel();
        let id = job.id.clone();
        let kind = match state {
            JobState::Done => EventKind::JobDone { job: id },
            JobState::Failed => EventKind::JobFailed { job: id },
            _ => EventKind::JobCancelled { job: id },
        };
        record.push(job.about(), kind);
        true
    }
}
