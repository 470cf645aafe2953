//! Drives one operation: asks the row what is due, performs it, tells the row what happened.
//!
//! One request is in flight at a time. While it is, events and timers are still heard, so that a cancel
//! is durable at once and a hanging upstream cannot hold up a deadline.

use super::{
    Inner, Performer, View,
    audience::{Audience, Said, may_join},
    flight::{Flight, Landed},
    health::Pass,
    operation::{Joined, Word},
    report,
};
use countermand_core::{
    Cause, News, Row, Timestamp, Turn,
    due::{self, Due},
    event::{CreateAnswer, Effect, Event, Trouble},
    health::{Ask, Urgency},
    notice,
    ports::{Entry, LedgerError, Payload},
    step,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// A row that waits longer than this, with nobody watching, goes back to the reconciler.
const HAND_BACK: Duration = Duration::from_secs(30);

/// The pause after the ledger could not be written.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Driver {
    inner: Arc<Inner>,
    row: Row,
    performer: Performer,
    /// The calls that it serves.
    audience: Audience,
    inbox: mpsc::UnboundedReceiver<Word>,
    view: watch::Sender<View>,
    flight: Option<Flight>,
    /// What is due may be sent now.
    cleared: Option<Pass>,
    progress: Option<f64>,
    payload: Option<Arc<Payload>>,
    /// The epoch that the stored row has.
    stored_epoch: u64,
    /// What the ledger has not taken yet.
    unwritten: Vec<Unwritten>,
    /// Whether the row in memory is the stored one.
    clean: bool,
    /// Somebody else has written the row: it is not ours any more.
    fenced: bool,
    /// Whether the engine's table still names this driver.
    listed: bool,
}

impl Drop for Driver {
    /// Signals only: a driver that was stopped, or that panicked, leaves its row to the reconciler.
    fn drop(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.abort();
        }
        if self.listed {
            self.inner.lock().live.remove(&self.row.id);
            self.inner.wake.notify_one();
        }
    }
}

/// A line of the history, and what it makes worth telling.
struct Unwritten {
    entry: Entry,
    news: Option<News>,
}

/// What woke the driver.
enum Woke {
    Stop,
    Told(Word),
    Landed(Landed),
    Time,
}

impl Driver {
    pub(super) fn new(
        inner: Arc<Inner>,
        row: Row,
        performer: Performer,
        audience: Audience,
        inbox: mpsc::UnboundedReceiver<Word>,
        view: watch::Sender<View>,
    ) -> Self {
        let stored_epoch = row.epoch;
        Self {
            inner,
            row,
            performer,
            audience,
            inbox,
            view,
            flight: None,
            cleared: None,
            progress: None,
            payload: None,
            stored_epoch,
            unwritten: Vec::new(),
            clean: true,
            fenced: false,
            listed: true,
        }
    }

    pub(super) async fn run(mut self) {
        // What was told with the row comes before anything that is due in it: a takeover, a cancel.
        while let Ok(word) = self.inbox.try_recv() {
            self.hear(word).await;
        }
        while !self.is_done() {
            self.launch();
            self.say_why_held().await;
            let woke = self.wait().await;
            match woke {
                Woke::Stop => break,
                Woke::Told(word) => self.hear(word).await,
                Woke::Landed(landed) => self.land(landed).await,
                Woke::Time => self.time().await,
            }
            self.reconsider();
        }
    }

    /// Whether nothing is left to do here. Checked under the engine's lock, so that an event
    /// is either in the inbox or finds no driver.
    fn is_done(&mut self) -> bool {
        let over = self.fenced
            || (self.unwritten.is_empty()
                && self.flight.is_none()
                && due::due(&self.row, self.now()) == Due::Nothing)
            || self.may_hand_back();
        if !over {
            return false;
        }
        let inner = self.inner.clone();
        let mut state = inner.lock();
        if self.fenced || self.inbox.is_empty() {
            state.live.remove(&self.row.id);
            self.listed = false;
            return true;
        }
        false
    }

    fn may_hand_back(&self) -> bool {
        // One watcher is the engine's own.
        self.clean
            && self.flight.is_none()
            && self.view.receiver_count() <= 1
            && self.row.next_at.is_some_and(|at| at.since(self.now()) > HAND_BACK)
    }

    fn now(&self) -> Timestamp {
        self.inner.clock.now().at
    }

    /// Starts what is due, one at a time.
    fn launch(&mut self) {
        if self.flight.is_some() {
            return;
        }
        let at = self.now();
        let cleared = self.cleared.take();
        match due::due(&self.row, at) {
            Due::Send(turn @ (Turn::Create | Turn::Replay)) => {
                self.flight = Some(Flight::admission(turn, &self.row, &self.performer));
            }
            // A side effect waits for the ledger; what only reads or stops does not.
            Due::Send(Turn::Mark | Turn::Undo) if !self.unwritten.is_empty() => {}
            Due::Send(turn) => {
                let pass = match cleared {
                    Some(pass) => pass,
                    None => {
                        let mut gate = self.performer.health.gate(&self.row, turn);
                        match gate.try_pass() {
                            Ok(pass) => pass,
                            Err(_) => {
                                self.flight = Some(Flight::clearance(turn, &self.row, gate));
                                return;
                            }
                        }
                    }
                };
                let row = Arc::new(self.row.clone());
                self.flight = Some(Flight::request(turn, &row, &self.performer, at, pass));
            }
            Due::Nothing | Due::Later(_) | Due::Time => {}
        }
    }

    /// What may wait for long says so in its row, once.
    async fn say_why_held(&mut self) {
        let waits = self.flight.as_ref().is_some_and(|f| !f.sent && f.urgency == Urgency::Work);
        if !waits {
            return;
        }
        if let Some(why) = self.performer.health.why_held()
            && self.row.last_error.as_ref() != Some(&why)
        {
            self.apply(Event::HeldUp { why }).await;
        }
    }

    async fn wait(&mut self) -> Woke {
        let sleep = self.sleep_until();
        let timer = async {
            match sleep {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let landed = async {
            match &mut self.flight {
                Some(flight) => flight.landed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.inner.stop.cancelled() => Woke::Stop,
            Some(word) = self.inbox.recv() => Woke::Told(word),
            landed = landed => Woke::Landed(landed),
            () = timer => Woke::Time,
        }
    }

    /// When to look at the row again by itself.
    fn sleep_until(&self) -> Option<Instant> {
        let now = self.now();
        let row = if self.flight.is_some() { due::timer(&self.row) } else { self.row.next_at };
        let row = row.map(|at| at.since(now));
        let write = (!self.unwritten.is_empty()).then_some(WRITE_AGAIN);
        let shield = self.flight.as_ref().and_then(|f| f.shield_until).map(|until| until - Instant::now());
        let held_up = !self.unwritten.is_empty() && matches!(row, Some(Duration::ZERO));
        let row = if held_up { None } else { row };
        [row, write, shield].into_iter().flatten().min().map(|pause| Instant::now() + pause)
    }

    async fn time(&mut self) {
        if !self.unwritten.is_empty() {
            self.write().await;
        }
        if due::due(&self.row, self.now()) == Due::Time {
            self.apply(Event::TimePassed).await;
        }
        if let Some(flight) = &mut self.flight
            && flight.shield_until.is_some_and(|until| until <= Instant::now())
        {
            flight.shield_until = None;
            flight.abort();
        }
    }

    /// What was said, one word after the other: so whoever wants to join meets the row as the words before left it.
    async fn hear(&mut self, word: Word) {
        match word {
            Word::Happened(event) => self.apply(event).await,
            Word::Said(member, said) => {
                if let Some(event) = self.audience.hear(member, said) {
                    self.apply(event).await;
                }
            }
            Word::Join(reply) => {
                if self.fenced || !may_join(&self.row) {
                    return;
                }
                let (member, event) = self.audience.join();
                if let Some(event) = event {
                    self.apply(event).await;
                }
                let joined = Joined { member, row: self.view.borrow().row.clone() };
                if reply.send(joined).is_err()
                    && let Some(event) = self.audience.hear(member, Said::Left(Cause::ClientDisconnected))
                {
                    self.apply(event).await;
                }
            }
            Word::Hear(reply) => {
                let _gone = reply.send(self.row.cancel_wanted());
            }
        }
    }

    async fn land(&mut self, landed: Landed) {
        let Some(mut flight) = self.flight.take() else { return };
        flight.tell(&landed);
        match landed {
            Landed::Cleared(pass) => self.cleared = Some(pass),
            Landed::Admitted(permit, pass) => {
                self.apply(Event::CreateStarted).await;
                if self.unwritten.is_empty() {
                    let row = Arc::new(self.row.clone());
                    let mut sent =
                        Flight::create(flight.turn, &row, &self.performer, (permit, pass), &self.inner);
                    // A replay must not arrive after the upstream has forgotten its key: its connection is bounded.
                    sent.shield_until =
                        (flight.turn == Turn::Replay).then(|| Instant::now() + self.row.policy.shield);
                    self.flight = Some(sent);
                } else {
                    // Never send what is not recorded.
                    let why = "the operation could not be recorded, so nothing was sent";
                    let why = self.row.last_error.clone().unwrap_or_else(|| why.to_owned());
                    self.apply(Event::CreateAnswered(CreateAnswer::Refused(Trouble::new(why)))).await;
                }
            }
            Landed::Created(created) => {
                self.payload = created.payload.map(Arc::new).or(self.payload.take());
                self.apply(Event::CreateAnswered(created.answer)).await;
            }
            Landed::Read(read) => {
                self.progress = read.progress.or(self.progress);
                self.payload = read.payload.map(Arc::new).or(self.payload.take());
                self.apply(Event::StatusAnswered(read.answer)).await;
            }
            Landed::Answered(event) => self.apply(event).await,
        }
    }

    /// After every change: is the flight still wanted, and is its create on borrowed time?
    fn reconsider(&mut self) {
        let Some(flight) = &mut self.flight else { return };
        let creates = matches!(flight.turn, Turn::Create | Turn::Replay);
        let over = self.row.phase.is_settled() || self.row.phase.awaits_operator();
        let moved = self.row.phase != flight.phase;
        let superseded = match flight.turn {
            _ if !flight.sent => {
                let at = self.inner.clock.now().at;
                let due = due::due(&self.row, at);
                let still_due = due == Due::Time || due == Due::Send(flight.turn);
                !still_due || Ask::of(&self.row, flight.turn, at).urgency != flight.urgency
            }
            Turn::Status => moved,
            _ => false,
        };
        if over || superseded {
            self.flight = None;
        } else if creates && flight.sent && flight.shield_until.is_none() && self.row.cancel_wanted() {
            flight.shield_until = Some(Instant::now() + self.row.policy.shield);
        }
    }

    /// Tells the row what happened, and makes the answer durable before anything else happens.
    async fn apply(&mut self, event: Event) {
        let (name, note) = (event.name(), event.note());
        let before = self.row.phase;
        let now = self.inner.clock.now();
        let (row, effects) = match step(self.row.clone(), event, now) {
            Ok(stepped) => stepped,
            Err(illegal) => {
                // A wish that came too late, or an answer that something else was faster than.
                tracing::debug!(operation = %self.row.id, "{illegal}");
                return;
            }
        };
        let news = notice::news(&self.row, &row);
        self.row = row;
        self.clean = false;
        if effects.contains(&Effect::Persist) {
            report::happened(&self.row, name, note.as_deref(), before);
            let entry = Entry { at: now.at, event: name.to_owned(), phase: self.row.phase, note };
            self.unwritten.push(Unwritten { entry, news });
            self.write().await;
        }
        for effect in effects {
            if let Effect::Alarm(alarm) = effect {
                report::alarm(&self.row, alarm);
            }
        }
        self.publish();
    }

    /// Writes what is unwritten. While the ledger fails, the row in memory stands, and what only
    /// reads or cancels goes on.
    async fn write(&mut self) {
        while let Some(entry) = self.unwritten.first().map(|first| first.entry.clone()) {
            // The row is the newest one: all that it makes worth telling goes with it.
            let news: Vec<News> = self.unwritten.iter().filter_map(|unwritten| unwritten.news).collect();
            let tells = !news.is_empty();
            crash_point!(Before, event & entry.event);
            let row = self.row.clone();
            match self.inner.ledger.update_with_news(row, self.stored_epoch, entry, news).await {
                Ok(row) => {
                    crash_point!(After, event & self.unwritten[0].entry.event);
                    self.stored_epoch = row.epoch;
                    self.row.version = row.version;
                    self.clean = true;
                    self.unwritten.remove(0);
                    if tells {
                        self.unwritten.iter_mut().for_each(|unwritten| unwritten.news = None);
                        self.inner.news.notify_one();
                    }
                }
                Err(error @ (LedgerError::Fenced { .. } | LedgerError::Absent { .. })) => {
                    tracing::error!(operation = %self.row.id, "failed to go on with an operation: {error}");
                    self.fenced = true;
                    self.unwritten.clear();
                    self.flight = None;
                    return;
                }
                Err(error @ LedgerError::Store { .. }) => {
                    tracing::error!(
                        operation = %self.row.id,
                        upstream_id = self.row.upstream_id.as_ref().map(ToString::to_string),
                        key = %self.row.key,
                        "{error}; the operation goes on from memory and is recorded when the ledger is back"
                    );
                    self.row.last_error = Some(error.to_string());
                    return;
                }
            }
        }
    }

    fn publish(&mut self) {
        let row = Arc::new(self.row.clone());
        self.view.send_replace(View { row, progress: self.progress, payload: self.payload.clone() });
    }
}
