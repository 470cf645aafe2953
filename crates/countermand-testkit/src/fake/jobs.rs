//! The work that the fake does: jobs that write rows, and orders. What they tell may be a lie; the record is not.
//!
//! Every change is recorded under the lock that makes it, so the record has the order in which things happened.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lock;
use super::record::{About, EventKind, Record};
use super::world::{Job, JobState, Obedience, View, World};

/// How many rows a job with a known duration writes, the first of them when it is created.
const ROWS: u32 = 10;
/// How often a job without a duration writes one.
const ROW_EVERY: Duration = Duration::from_secs(1);

/// The JSON body of a create. Everything may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    /// How long it takes; absent: until somebody ends it.
    secs: Option<f64>,
    /// How long it is `queued` before that.
    queued_secs: Option<f64>,
    /// Whether it fails at its end.
    fail: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cancel {
    Accepted(View),
    AlreadyOver(View),
    Unknown,
}

/// All jobs, rows and orders of one fake.
#[derive(Debug)]
pub(crate) struct Jobs {
    record: Arc<Record>,
    world: Mutex<World>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Jobs {
    pub(crate) fn new(record: Arc<Record>, tasks: TaskTracker, stop: CancellationToken) -> Jobs {
        Jobs { record, world: Mutex::default(), tasks, stop }
    }

    /// The job, and whether it is a new one.
    pub(crate) fn create(
        self: &Arc<Self>,
        about: About,
        key: Option<String>,
        tag: Option<String>,
        spec: &Spec,
    ) -> (View, bool) {
        let mut world = lock(&self.world);
        if let Some(key) = &key
            && let Some(at) = world.job_by_key.get(key)
        {
            let view = world.jobs[*at].view();
            self.record.push(about, EventKind::JobDeduplicated { job: view.id.clone(), key: key.clone() });
            return (view, false);
        }
        let at = world.jobs.len();
        let id = format!("job-{}", at + 1);
        let queued = spec.queued_secs.map(seconds);
        let job = Job {
            id: id.clone(),
            key: key.clone(),
            tag: tag.clone(),
            state: if queued.is_some() { JobState::Queued } else { JobState::Running },
            starts: Instant::now() + queued.unwrap_or_default(),
            takes: spec.secs.map(seconds),
            rows: 0,
            polls: 0,
            pretends: None,
            ended: self.stop.child_token(),
        };
        let run = run(self.clone(), at, job.starts, job.takes, spec.fail, job.ended.clone());
        world.jobs.push(job);
        if let Some(key) = &key {
            world.job_by_key.insert(key.clone(), at);
        }
        self.record.push(About { tag, ..about }, EventKind::JobCreated { job: id, key });
        world.write_row(&self.record, at);
        self.tasks.spawn(run);
        (world.jobs[at].view(), true)
    }

    /// The tag of a job.
    pub(crate) fn tag_of(&self, id: &str) -> Option<String> {
        lock(&self.world).job(id).and_then(|job| job.tag.clone())
    }

    /// Counts a status read that has arrived. Zero: there is no such job.
    pub(crate) fn count_poll(&self, id: &str) -> u32 {
        lock(&self.world).job(id).map_or(0, |job| {
            job.polls += 1;
            job.polls
        })
    }

    /// Answers the `n`-th status read.
    pub(crate) fn status(&self, about: About, id: &str, n: u32) -> Option<View> {
        let mut world = lock(&self.world);
        let at = world.find(id)?;
        let job = &mut world.jobs[at];
        let mut view = job.view();
        let pretends = job.pretends.take();
        if pretends.is_some() {
            view.status = JobState::Cancelled;
        }
        let said = view.status.name().to_owned();
        self.record.push(about, EventKind::JobPolled { job: id.to_owned(), n, said });
        if pretends == Some(Obedience::PretendThenDone) {
            world.end(&self.record, at, JobState::Done);
        }
        Some(view)
    }

    /// What a job would say, without counting as a read.
    pub(crate) fn view(&self, id: &str) -> Option<View> {
        lock(&self.world).job(id).map(|job| job.view())
    }

    pub(crate) fn cancel(self: &Arc<Self>, id: &str, forced: bool, obedience: Obedience) -> Cancel {
        let mut world = lock(&self.world);
        let Some(at) = world.find(id) else { return Cancel::Unknown };
        let delay = world.cancel_delay;
        let job = &mut world.jobs[at];
        if job.state.is_terminal() {
            return Cancel::AlreadyOver(job.view());
        }
        match obedience {
            Obedience::Ignore => {}
            Obedience::PretendThenDone | Obedience::PretendThenRun => job.pretends = Some(obedience),
            Obedience::Obey if forced || delay.is_zero() => {
                world.end(&self.record, at, JobState::Cancelled);
            }
            Obedience::Obey => {
                job.pretends = None;
                if job.state != JobState::Cancelling {
                    job.state = JobState::Cancelling;
                    self.record.push(job.about(), EventKind::JobCancelling { job: job.id.clone() });
                    let (jobs, ended) = (self.clone(), job.ended.clone());
                    self.tasks.spawn(async move {
                        if ended.run_until_cancelled(sleep(delay)).await.is_some() {
                            lock(&jobs.world).end(&jobs.record, at, JobState::Cancelled);
                        }
                    });
                }
            }
        }
        Cancel::Accepted(world.jobs[at].view())
    }

    /// Ends a job from outside, as done or failed. `false`: there is none, or it has ended.
    pub(crate) fn end(&self, id: &str, state: JobState) -> bool {
        let mut world = lock(&self.world);
        world.find(id).is_some_and(|at| world.end(&self.record, at, state))
    }

    pub(crate) fn list(&self, about: About, key: Option<&str>, tag: Option<&str>, stale: bool) -> Vec<View> {
        let world = lock(&self.world);
        let matching = world.jobs.iter().filter(|job| {
            key.is_none_or(|key| job.key.as_deref() == Some(key))
                && tag.is_none_or(|tag| job.tag.as_deref() == Some(tag))
        });
        let views: Vec<View> = matching.filter(|_| !stale).map(Job::view).collect();
        let hits = views.len() as u64;
        self.record.push(about, EventKind::Listed { key: key.map(str::to_owned), hits });
        views
    }

    pub(crate) fn delete_rows(&self, about: About, tag: &str) {
        let mut world = lock(&self.world);
        let count = world.rows.remove(tag).unwrap_or_default();
        self.record.push(About { tag: Some(tag.to_owned()), ..about }, EventKind::RowsDeleted { count });
    }

    /// The order's number, and whether it is a new one.
    pub(crate) fn order(&self, about: About, key: Option<String>) -> (u64, bool) {
        let mut world = lock(&self.world);
        if let Some(key) = &key
            && let Some(order) = world.order_by_key.get(key).copied()
        {
            self.record.push(about, EventKind::OrderDeduplicated { order, key: key.clone() });
            return (order, false);
        }
        world.orders += 1;
        let order = world.orders;
        if let Some(key) = &key {
            world.order_by_key.insert(key.clone(), order);
        }
        self.record.push(about, EventKind::OrderCommitted { order, key });
        (order, true)
    }

    pub(crate) fn set_cancel_delay(&self, delay: Duration) {
        lock(&self.world).cancel_delay = delay;
    }
}

/// A job at work: it starts, writes rows, and ends when its time is up.
async fn run(
    jobs: Arc<Jobs>,
    at: usize,
    starts: Instant,
    takes: Option<Duration>,
    fail: bool,
    ended: CancellationToken,
) {
    let work = async {
        sleep_until(starts).await;
        if let Some(job) = lock(&jobs.world).jobs.get_mut(at)
            && job.state == JobState::Queued
        {
            job.state = JobState::Running;
        }
        let every = takes.map_or(ROW_EVERY, |takes| takes / ROWS);
        for written in 1_u32.. {
            sleep_until(starts + every * written).await;
            let mut world = lock(&jobs.world);
            if world.jobs[at].state.is_terminal() {
                return;
            }
            if takes.is_some() && written >= ROWS {
                // A job that takes its cancel slowly does not complete in the meantime.
                if world.jobs[at].state != JobState::Cancelling {
                    world.end(&jobs.record, at, if fail { JobState::Failed } else { JobState::Done });
                }
                return;
            }
            world.write_row(&jobs.record, at);
        }
    };
    // Dropping it half-way is fine: it awaits only time.
    ended.run_until_cancelled(work).await;
}

fn seconds(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs).unwrap_or(Duration::from_secs(u64::from(u32::MAX)))
}
