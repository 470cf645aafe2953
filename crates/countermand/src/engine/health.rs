//! How one upstream is, shared by all that ask it: who must wait, and until when.

use countermand_core::{
    HealthPolicy, Now, Row, Timestamp, Turn,
    event::{Says, Trouble},
    health::{self, Ask, Change, Health, Held, Try, Urgency, Verdict, Words},
    ports::Clock,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How each upstream is, by its name. Cheap to clone; engines that share one know of each other's failures.
#[derive(Debug, Clone, Default)]
pub struct Healths {
    known: Arc<Mutex<HashMap<String, Arc<UpstreamHealth>>>>,
}

impl Healths {
    /// How an upstream is: one for all that ask it, under the policy of who asks for it first.
    pub(super) fn of(&self, name: &str, policy: HealthPolicy, clock: &Arc<dyn Clock>) -> Arc<UpstreamHealth> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || UpstreamHealth::new(name, policy, clock.clone());
        known.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

/// How one upstream is.
pub struct UpstreamHealth {
    name: String,
    clock: Arc<dyn Clock>,
    health: Mutex<Health>,
    /// Wakes those who wait.
    changed: Notify,
}

/// An upstream is left alone, and what asks it must wait or fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing was sent, for `{upstream}` has been left alone since {since}, {failures} requests in a row having failed (the last one: {last}); it is asked again in {} s",
    again_in.as_secs() + 1
)]
pub struct LeftAlone {
    /// Its name.
    pub upstream: String,
    /// Since when.
    pub since: String,
    /// How many failures in a row.
    pub failures: u32,
    /// The last of them.
    pub last: String,
    /// When it is asked again.
    pub again_in: Duration,
}

impl UpstreamHealth {
    pub(super) fn new(name: &str, policy: HealthPolicy, clock: Arc<dyn Clock>) -> Arc<Self> {
        let health = Mutex::new(Health::new(policy));
        Arc::new(Self { name: name.to_owned(), clock, health, changed: Notify::new() })
    }

    /// A request of a row on its way.
    pub(super) fn gate(self: &Arc<Self>, row: &Row, turn: Turn) -> Gate {
        let now = self.clock.now();
        self.gate_for(Ask::of(row, turn, now.at), now)
    }

    fn gate_for(self: &Arc<Self>, ask: Ask, now: Now) -> Gate {
        let not_before = self.lock().reserve(&ask, now);
        Gate { health: self.clone(), ask, not_before, passed: false }
    }

    /// Waits until a read may be sent that cannot be had by another call: the result of what has completed.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub(super) async fn read(self: &Arc<Self>) -> Pass {
        let now = self.clock.now();
        self.gate_for(a_read(now), now).pass().await
    }

    /// Lets a request through whose caller waits for it and can be told to call again.
    ///
    /// # Errors
    /// [`LeftAlone`] where it would have to wait.
    pub fn try_read(self: &Arc<Self>) -> Result<Pass, LeftAlone> {
        let now = self.clock.now();
        let ask = a_read(now);
        let mut health = self.lock();
        health.reserve(&ask, now);
        let until = match health.ask(&ask, now) {
            Verdict::Go(pass) => return Ok(self.pass(pass)),
            Verdict::Wait(until) => until,
        };
        let held = health.held();
        drop(health);
        let (since, failures, last) =
            held.map_or_else(|| (now.at, 0, String::new()), |held| (held.since, held.failures, held.last));
        let again_in = until.since(now.at);
        Err(LeftAlone { upstream: self.name.clone(), since: shown(since), failures, last, again_in })
    }

    /// Why what is due waits, in words that stay the same for as long as it does.
    pub(super) fn why_held(&self) -> Option<String> {
        let Held { since, first, .. } = self.lock().held()?;
        Some(format!(
            "it waits for the upstream `{}`, which has been left alone since {} because its requests failed (such as: {first})",
            self.name,
            shown(since)
        ))
    }

    fn pass(self: &Arc<Self>, pass: health::Pass) -> Pass {
        Pass { health: self.clone(), pass: Some(pass) }
    }

    fn told(&self, pass: health::Pass, says: Says, words: Words<'_>) {
        let now = self.clock.now();
        let change = self.lock().told(pass, says, words, now);
        let upstream = &self.name;
        match change {
            None => return,
            Some(Change::Opened(Held { failures, last, until, .. })) => tracing::warn!(
                upstream,
                failures,
                last_error = last,
                pause_ms = until.since(now.at).as_millis(),
                "the upstream is left alone: what is due waits, cancels for 2 s at most, and reads fail at once; check the upstream"
            ),
            Some(Change::StaysOpen(Held { failures, last, until, .. })) => tracing::debug!(
                upstream,
                failures,
                last_error = last,
                pause_ms = until.since(now.at).as_millis(),
                "the upstream still fails"
            ),
            Some(Change::Closed(since)) => {
                tracing::info!(
                    upstream,
                    after_ms = now.at.since(since).as_millis(),
                    "the upstream answers again"
                );
            }
            Some(Change::ProbeEnded) => {}
        }
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for UpstreamHealth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamHealth").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A request on its way to being sent. Dropped before that, it gives its share of the budget back.
pub(super) struct Gate {
    health: Arc<UpstreamHealth>,
    ask: Ask,
    not_before: Timestamp,
    passed: bool,
}

impl Gate {
    /// How much it can wait.
    pub(super) fn urgency(&self) -> Urgency {
        self.ask.urgency
    }

    /// Passes now, or says when to try again; a change of the upstream's health may come sooner.
    pub(super) fn try_pass(&mut self) -> Result<Pass, Timestamp> {
        let now = self.health.clock.now();
        if now.at < self.not_before {
            return Err(self.not_before);
        }
        let verdict = self.health.lock().ask(&self.ask, now);
        match verdict {
            Verdict::Go(pass) => {
                self.passed = true;
                Ok(self.health.pass(pass))
            }
            Verdict::Wait(until) => Err(until),
        }
    }

    /// Waits until it may pass.
    pub(super) async fn pass(&mut self) -> Pass {
        self.pass_with(|| std::future::ready(())).await.1
    }

    /// Waits until it may pass and holds its place. Nobody keeps a place from others while it waits.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub(super) async fn pass_with<P, F>(&mut self, take: impl Fn() -> F) -> (P, Pass)
    where
        F: Future<Output = P>,
    {
        let health = self.health.clone();
        loop {
            let place = take().await;
            let mut changed = std::pin::pin!(health.changed.notified());
            // Before the question: what changes after it is not missed.
            changed.as_mut().enable();
            let until = match self.try_pass() {
                Ok(pass) => return (place, pass),
                Err(until) => until,
            };
            drop(place);
            let pause = until.since(health.clock.now().at);
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !self.passed {
            self.health.lock().give_back(&self.ask);
        }
    }
}

/// A request that was let through. Dropped without a word, it has shown nothing.
#[derive(Debug)]
pub struct Pass {
    health: Arc<UpstreamHealth>,
    pass: Option<health::Pass>,
}

impl Pass {
    /// The upstream's answer; `None` where nothing went wrong.
    pub fn told(mut self, trouble: Option<&Trouble>) {
        let Some(pass) = self.pass.take() else { return };
        let says = trouble.map_or(Says::Well, |trouble| trouble.says);
        let words = trouble.map_or_else(Words::default, |trouble| Words {
            message: &trouble.message,
            retry_after: trouble.retry_after,
        });
        self.health.told(pass, says, words);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.health.told(pass, Says::Nothing, Words::default());
        }
    }
}

/// A read of a caller who waits for it.
fn a_read(now: Now) -> Ask {
    Ask { urgency: Urgency::Work, tried: Try::First, due: now.at, before: None }
}

fn shown(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros()).map_or_else(|_| String::new(), |at| format!("{at:.0}"))
}
