//! What all connections of one fake share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::fault::Faults;
use super::gate::Gates;
use super::jobs::Jobs;
use super::lock;
use super::record::{Event, Record};

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) record: Arc<Record>,
    pub(crate) gates: Gates,
    pub(crate) faults: Faults,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    /// Markers that give a request without a tag its tag.
    expected: Mutex<Vec<String>>,
    slow: Mutex<HashMap<u64, Slow>>,
    requests: AtomicU64,
}

/// A slow request that waits to be released.
#[derive(Debug)]
struct Slow {
    tag: Option<String>,
    release: oneshot::Sender<()>,
}

impl State {
    pub(crate) fn new() -> Arc<State> {
        let (record, tasks, stop) = (Arc::new(Record::new()), TaskTracker::new(), CancellationToken::new());
        let jobs = Arc::new(Jobs::new(record.clone(), tasks.clone(), stop.clone()));
        Arc::new(State {
            record,
            gates: Gates::default(),
            faults: Faults::default(),
            jobs,
            tasks,
            stop,
            expected: Mutex::default(),
            slow: Mutex::default(),
            requests: AtomicU64::new(0),
        })
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn expect(&self, marker: String) {
        lock(&self.expected).push(marker);
    }

    /// The first expected marker for which `carries` holds.
    pub(crate) fn expected_in(&self, carries: impl Fn(&str) -> bool) -> Option<String> {
        lock(&self.expected).iter().find(|marker| carries(marker)).cloned()
    }

    pub(crate) fn slow_started(&self, request: u64, tag: Option<String>) -> oneshot::Receiver<()> {
        let (release, released) = oneshot::channel();
        lock(&self.slow).insert(request, Slow { tag, release });
        released
    }

    pub(crate) fn slow_ended(&self, request: u64) {
        lock(&self.slow).remove(&request);
    }

    /// Releases the slow requests of one tag, or all.
    pub(crate) fn release_slow(&self, tag: Option<&str>) -> usize {
        let mut slow = lock(&self.slow);
        let of_tag = |slow: &Slow| tag.is_none() || slow.tag.as_deref() == tag;
        let ready = slow.extract_if(|_, slow| of_tag(slow));
        // One whose peer has just left does not listen any more.
        ready.filter_map(|(_, slow)| slow.release.send(()).ok()).count()
    }

    /// Waits until `enough` of the record so far, for at most `patience`. `Err`: that much was there at the end of it.
    pub(crate) async fn wait(
        &self,
        patience: Duration,
        mut enough: impl FnMut(&[Event]) -> bool,
    ) -> Result<Vec<Event>, Vec<Event>> {
        let deadline = Instant::now() + patience;
        let mut grown = self.record.grown();
        let mut events = Vec::new();
        loop {
            grown.mark_unchanged();
            events.extend(self.record.since(events.len() as u64));
            if enough(&events) {
                return Ok(events);
            }
            if !matches!(timeout_at(deadline, grown.changed()).await, Ok(Ok(()))) {
                return Err(events);
            }
        }
    }
}
