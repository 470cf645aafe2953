//! The breaker: closed, open, and one probe at a time from then on until the upstream answers.

use super::{HealthPolicy, Words};
use crate::{
    event::Says,
    time::{Now, Timestamp},
};
use std::time::Duration;

/// A probe that has brought nothing by then does not keep the next one away.
const PROBE_LASTS: Duration = Duration::from_secs(30);

/// Whether an upstream is asked.
#[derive(Debug, Clone)]
pub struct Breaker {
    policy: HealthPolicy,
    state: State,
    /// Counts the times that it opened and closed: what was sent before tells of another time.
    period: u64,
}

#[derive(Debug, Clone)]
enum State {
    Closed { failures: u32 },
    Open(Open),
}

#[derive(Debug, Clone)]
struct Open {
    held: Held,
    pause: Duration,
    probe: Option<Timestamp>,
}

/// Why requests wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Since when.
    pub since: Timestamp,
    /// When the upstream is asked again.
    pub until: Timestamp,
    /// After how many failures in a row.
    pub failures: u32,
    /// The failure that was one too many.
    pub first: String,
    /// The last failure.
    pub last: String,
}

/// A request that was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    period: u64,
    probe: bool,
}

/// Whether a request may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Now.
    Go(Pass),
    /// Not now: ask again at this time, or when something has changed.
    Wait(Timestamp),
}

/// What has changed for all who wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The upstream is left alone from now on.
    Opened(Held),
    /// A probe has failed: it is left alone for longer.
    StaysOpen(Held),
    /// It answers again. Since when it had not.
    Closed(Timestamp),
    /// A probe has ended without an answer: another one may be sent.
    ProbeEnded,
}

impl Breaker {
    /// Closed.
    pub fn new(policy: HealthPolicy) -> Self {
        Self { policy, state: State::Closed { failures: 0 }, period: 0 }
    }

    /// Whether a request may be sent that can be put off until `at_latest`, or for ever.
    pub fn ask(&mut self, at_latest: Option<Timestamp>, at: Timestamp) -> Verdict {
        let period = self.period;
        let State::Open(open) = &mut self.state else {
            return Verdict::Go(Pass { period, probe: false });
        };
        let free_at = open.probe.map_or(open.held.until, |sent| open.held.until.max(sent + PROBE_LASTS));
        if free_at <= at {
            open.probe = Some(at);
            return Verdict::Go(Pass { period, probe: true });
        }
        match at_latest {
            Some(latest) if latest <= at => Verdict::Go(Pass { period, probe: false }),
            Some(latest) => Verdict::Wait(latest.min(free_at)),
            None => Verdict::Wait(free_at),
        }
    }

    /// What a request that was let through has shown.
    pub fn told(&mut self, pass: Pass, says: Says, words: Words<'_>, now: Now) -> Option<Change> {
        if pass.period != self.period {
            return None;
        }
        match (&mut self.state, says) {
            (State::Closed { failures }, Says::Well) => {
                *failures = 0;
                None
            }
            (State::Closed { failures }, Says::Ill) => {
                *failures = failures.saturating_add(1);
                let failures = *failures;
                (failures >= self.policy.failures).then(|| self.open(failures, words, now))
            }
            (State::Closed { .. }, Says::Nothing) => None,
            (State::Open(open), Says::Well) => {
                let since = open.held.since;
                self.state = State::Closed { failures: 0 };
                self.period += 1;
                Some(Change::Closed(since))
            }
            // What could not wait may fail while the upstream is left alone anyway.
            (State::Open(open), Says::Ill) => {
                if pass.probe {
                    open.probe = None;
                }
                words.message.clone_into(&mut open.held.last);
                open.held.failures = open.held.failures.saturating_add(1);
                if now.at < open.held.until {
                    return None;
                }
                open.pause = open.pause.saturating_mul(2).min(self.policy.max);
                open.held.until = now.at + pause(open.pause, words, &self.policy, now);
                Some(Change::StaysOpen(open.held.clone()))
            }
            (State::Open(open), Says::Nothing) => {
                let was = pass.probe && open.probe.take().is_some();
                was.then_some(Change::ProbeEnded)
            }
        }
    }

    /// Why requests wait, where they do.
    pub fn held(&self) -> Option<Held> {
        match &self.state {
            State::Closed { .. } => None,
            State::Open(open) => Some(open.held.clone()),
        }
    }

    fn open(&mut self, failures: u32, words: Words<'_>, now: Now) -> Change {
        let held = Held {
            since: now.at,
            until: now.at + pause(self.policy.open, words, &self.policy, now),
            failures,
            first: words.message.to_owned(),
            last: words.message.to_owned(),
        };
        self.period += 1;
        self.state = State::Open(Open { held: held.clone(), pause: self.policy.open, probe: None });
        Change::Opened(held)
    }
}

/// Half of it at least, so that many gateways do not come back at once; longer where the upstream says so.
fn pause(pause: Duration, words: Words<'_>, policy: &HealthPolicy, now: Now) -> Duration {
    let jittered = pause / 2 + now.dice.jitter(pause / 2);
    jittered.max(words.retry_after.unwrap_or_default().min(policy.max))
}
