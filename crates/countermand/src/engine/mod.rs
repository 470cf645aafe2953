//! The engine: starts operations, drives each of them through its life, and finds those that nobody drives.
//!
//! An operation is driven by a task of its own, supervised here and never owned by a handler's
//! future. What a driver does next it reads off the row, so that the reconciler, which knows
//! nothing but the ledger, takes the same road after a crash.

mod attach;
mod audience;
mod driver;
mod flight;
mod health;
mod notices;
mod operation;
mod reconciler;
mod report;
mod shutdown;
mod start;
mod unperformable;

pub use health::{Healths, LeftAlone, Pass, UpstreamHealth};
pub use notices::{Heard, Teller};
pub use operation::{Operation, Output, View};
pub use shutdown::Left;
pub use start::StartError;

use audience::Audience;
use countermand_core::{
    Cause, HealthPolicy, Identity, OnDisconnect, OperationId, Owner, Row,
    event::Event,
    ports::{Clock, Definition, Ledger, LedgerError, Query, Upstream},
};
use driver::Driver;
use operation::{Line, Word};
use serde::Deserialize as _;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
pub use unperformable::Unperformable;

/// Makes the performer of a stored definition. The error says why it cannot be performed here.
pub type Performers = Arc<dyn Fn(&Definition) -> Result<Arc<dyn Upstream>, String> + Send + Sync>;

/// Status reads and the like in flight per upstream, and as many cancels.
const LANES: usize = 256;

/// How often the reconciler reads the ledger without being woken.
const RECONCILE_EVERY: Duration = Duration::from_secs(1);

/// How often requests filed from outside are looked for.
const REQUESTS_EVERY: Duration = Duration::from_millis(250);

/// Drives operations. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What an engine is made of.
pub struct Parts {
    /// Where operations are kept.
    pub ledger: Arc<dyn Ledger>,
    /// What performs their requests.
    pub performers: Performers,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// This process, in words.
    pub owner: Owner,
    /// This incarnation: greater than any before on the same ledger.
    pub epoch: u64,
    /// How long settled rows are kept.
    pub retention: Duration,
    /// How upstreams are: shared by all engines of a process, or its own.
    pub healths: Healths,
}

pub(crate) struct Inner {
    ledger: Arc<dyn Ledger>,
    performers: Performers,
    clock: Arc<dyn Clock>,
    owner: Owner,
    epoch: u64,
    retention: Duration,
    healths: Healths,
    state: Mutex<State>,
    /// Drivers, creates in flight, deliveries.
    tracker: TaskTracker,
    /// Stops every driver where it is.
    stop: CancellationToken,
    /// Wakes the reconciler.
    wake: Notify,
    /// Wakes who tells.
    news: Notify,
}

#[derive(Default)]
struct State {
    shutting_down: bool,
    live: HashMap<OperationId, Line>,
    /// Operations on their way from the ledger's insert to their driver, and what was said to them meanwhile. Their rows
    /// can be read already, and look as if nobody drove them.
    starting: HashMap<OperationId, Vec<Event>>,
    /// Calls that look for an identical one and else start anew: one at a time of each kind.
    reserved: HashMap<Identity, Arc<tokio::sync::Mutex<()>>>,
    defined: HashMap<countermand_core::DefinitionHash, Performer>,
    lanes: HashMap<String, Lanes>,
}

/// How many requests of one upstream are in flight at once, beside its creates: a flood of polls never holds up a cancel.
#[derive(Clone)]
struct Lanes {
    reads: Arc<Semaphore>,
    stops: Arc<Semaphore>,
}

impl Lanes {
    fn of(each: usize) -> Self {
        Self { reads: Arc::new(Semaphore::new(each)), stops: Arc::new(Semaphore::new(each)) }
    }
}

/// What performs one definition's requests, and how many of them at once.
#[derive(Clone)]
struct Performer {
    upstream: Arc<dyn Upstream>,
    lanes: Lanes,
    health: Arc<UpstreamHealth>,
}

impl Engine {
    /// An engine over this ledger. Nothing happens until [`start`](Self::start) or
    /// [`reconcile`](Self::reconcile).
    pub fn new(parts: Parts) -> Self {
        Self {
            inner: Arc::new(Inner {
                ledger: parts.ledger,
                performers: parts.performers,
                clock: parts.clock,
                owner: parts.owner,
                epoch: parts.epoch,
                retention: parts.retention,
                healths: parts.healths,
                state: Mutex::default(),
                tracker: TaskTracker::new(),
                stop: CancellationToken::new(),
                wake: Notify::new(),
                news: Notify::new(),
            }),
        }
    }

    /// The ledger.
    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.inner.ledger
    }

    /// Who we are in the rows, and which incarnation.
    pub fn identity(&self) -> (Owner, u64) {
        (self.inner.owner.clone(), self.inner.epoch)
    }

    /// The time of the engine's clock.
    pub fn now(&self) -> countermand_core::Timestamp {
        self.inner.clock.now().at
    }

    /// Tells whoever drives the operation that something happened to it, and starts to drive it
    /// where nobody does.
    ///
    /// # Errors
    /// [`LedgerError`] where the row is not driven and cannot be read.
    pub async fn tell(&self, id: OperationId, event: Event) -> Result<(), LedgerError> {
        if self.inner.tell_live(id, &event) || self.inner.tell_starting(id, &event) {
            return Ok(());
        }
        let row = self.inner.ledger.get(id).await?;
        self.adopt(row, Some(Word::Happened(event))).await.map(drop)
    }

    /// Cancels an operation.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    pub async fn cancel(
        &self,
        id: OperationId,
        cause: Cause,
        reason: Option<String>,
    ) -> Result<(), LedgerError> {
        self.tell(id, Event::CancelWanted { cause, reason, note: None }).await
    }

    /// How an upstream is: one for all that ask it, under the policy of who asks for it first.
    pub fn health(&self, upstream: &str, policy: HealthPolicy) -> Arc<UpstreamHealth> {
        self.inner.healths.of(upstream, policy, &self.inner.clock)
    }

    /// How many operations are being driven.
    pub fn driven(&self) -> usize {
        self.inner.lock().live.len()
    }

    /// Reads rows of the ledger.
    ///
    /// # Errors
    /// [`LedgerError::Store`].
    pub async fn list(&self, query: Query) -> Result<Vec<Row>, LedgerError> {
        self.inner.ledger.list(query).await
    }

    /// Drives a row of the ledger that nobody drives; takes it over first where it is another incarnation's. The way
    /// to its driver, where it has one then.
    async fn adopt(&self, row: Row, word: Option<Word>) -> Result<Option<Line>, LedgerError> {
        if row.phase.is_settled() || self.inner.is_starting(row.id) {
            return Ok(None);
        }
        let performer = match self.inner.known(&row.definition) {
            Some(performer) => performer,
            None => {
                let definition = self.inner.ledger.definition(row.definition.clone()).await?;
                self.inner.performer(&definition).unwrap_or_else(|why| {
                    tracing::error!(operation = %row.id, tool = row.tool, "failed to go on with an operation: {why}");
                    // Driven all the same: it becomes a visible orphan, and an operator can have a word with it.
                    let health = UpstreamHealth::new(&row.upstream, HealthPolicy::default(), self.inner.clock.clone());
                    Performer { upstream: Arc::new(Unperformable::new(why)), lanes: Lanes::of(LANES), health }
                })
            }
        };
        Ok(self.inner.drive(row, performer, Audience::default(), word))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, hash: &countermand_core::DefinitionHash) -> Option<Performer> {
        self.lock().defined.get(hash).cloned()
    }

    fn performer(&self, definition: &Definition) -> Result<Performer, String> {
        let upstream = (self.performers)(definition)?;
        let mut state = self.lock();
        let name = definition.body.pointer("/upstream/name").and_then(|n| n.as_str()).unwrap_or_default();
        let lanes = match upstream.is_local() {
            true => Lanes::of(Semaphore::MAX_PERMITS),
            false => state.lanes.entry(name.to_owned()).or_insert_with(|| Lanes::of(LANES)).clone(),
        };
        let policy = definition.body.pointer("/upstream/limits/health");
        let policy = policy.and_then(|policy| HealthPolicy::deserialize(policy).ok()).unwrap_or_default();
        let health = self.healths.of(name, policy, &self.clock);
        let performer = Performer { upstream, lanes, health };
        state.defined.insert(definition.hash.clone(), performer.clone());
        Ok(performer)
    }

    fn tell_live(&self, id: OperationId, event: &Event) -> bool {
        self.say_live(id, Word::Happened(event.clone())).is_ok()
    }

    /// Says it to the driver of an operation, or gives it back where there is none. Under the lock under which a driver
    /// leaves the table: it hears it, or is not there any more.
    fn say_live(&self, id: OperationId, word: Word) -> Result<Line, Word> {
        let state = self.lock();
        let Some(live) = state.live.get(&id) else { return Err(word) };
        live.words.send(word).map_err(|unsaid| unsaid.0)?;
        Ok(live.clone())
    }

    fn is_starting(&self, id: OperationId) -> bool {
        self.lock().starting.contains_key(&id)
    }

    /// Whether it has a driver, or is about to have one.
    fn is_driven(&self, id: OperationId) -> bool {
        let state = self.lock();
        state.live.contains_key(&id) || state.starting.contains_key(&id)
    }

    /// Keeps what is said to an operation that is being started, for its driver.
    fn tell_starting(&self, id: OperationId, event: &Event) -> bool {
        let mut state = self.lock();
        state.starting.get_mut(&id).map(|said| said.push(event.clone())).is_some()
    }

    /// Spawns the driver of a row, unless it has one; the word is for whichever it is.
    fn drive(
        self: &Arc<Self>,
        row: Row,
        performer: Performer,
        audience: Audience,
        word: Option<Word>,
    ) -> Option<Line> {
        let mut state = self.lock();
        if state.shutting_down && !row.cancel_wanted() {
            return None;
        }
        if let Some(live) = state.live.get(&row.id) {
            if let Some(word) = word {
                // A driver that has ended leaves the table under the same lock.
                let _driven = live.words.send(word);
            }
            return Some(live.clone());
        }
        let (words, inbox) = mpsc::unbounded_channel();
        let taken = (row.epoch != self.epoch || row.owner != self.owner)
            .then(|| Word::Happened(Event::TakenOver { owner: self.owner.clone(), epoch: self.epoch }));
        // What somebody says comes first: who wants a cancel is its cause, not the restart that it meets. But whoever
        // joins joins what the restart has left.
        let said = match word {
            Some(join @ Word::Join(_)) => [taken, Some(join)],
            word => [word, taken],
        };
        for word in said.into_iter().flatten() {
            let _inbox_is_here = words.send(word);
        }
        let (view, seen) = watch::channel(View::of(row.clone()));
        let line = Line {
            words,
            view: seen,
            upstream: performer.upstream.clone(),
            health: performer.health.clone(),
        };
        state.live.insert(row.id, line.clone());
        let driver = Driver::new(self.clone(), row, performer, audience, inbox, view);
        self.tracker.spawn(driver.run());
        Some(line)
    }

    /// Whether a cancel by our own shutdown concerns it: a detached job survives us.
    fn is_plain(row: &Row) -> bool {
        row.on_disconnect != OnDisconnect::Detach
    }
}
