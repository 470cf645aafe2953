//! The one function that decides: `step(row, event, now)`.
//!
//! It is total: every pair of a phase and an event is a transition or an [`IllegalEvent`].
//! Production, the property tests and the model checker run this same function.

mod create;
mod end;
mod orphan;
mod run;
mod stop;
mod time;

use crate::{
    Cause, due,
    event::{Alarm, Effect, Event, IllegalEvent},
    phase::{Desired, Outcome, Phase},
    policy::OnDisconnect,
    row::{Row, Turn},
    schedule,
    time::{Now, Timestamp},
};
use serde_json::{Map, Value};
use std::time::Duration;

/// What an event makes of a row: the row as it is now, and what must be done.
///
/// # Errors
/// [`IllegalEvent`] where the event has no meaning in the row's phase.
pub fn step(row: Row, event: Event, now: Now) -> Result<(Row, Vec<Effect>), IllegalEvent> {
    let illegal = IllegalEvent { phase: row.phase, event: event.name() };
    let mut life = Life { row, now, persist: false, alarms: Vec::new() };
    life.apply(event).map_err(|Illegal| illegal)?;
    Ok(life.finish())
}

/// The fall-through arm of a phase.
struct Illegal;

type Legal = Result<(), Illegal>;

/// A row in the middle of a step.
struct Life {
    row: Row,
    now: Now,
    persist: bool,
    alarms: Vec<Alarm>,
}

impl Life {
    fn apply(&mut self, event: Event) -> Legal {
        match event {
            Event::TimePassed => time::passed(self),
            Event::HeldUp { why } => time::held_up(self, why),
            Event::TakenOver { owner, epoch } => time::taken_over(self, owner, epoch),
            Event::Resolved { .. } => orphan::resolved(self),
            Event::RetryWanted => orphan::retry_wanted(self),
            event => match self.row.phase {
                Phase::Orphaned => orphan::while_late(self, event),
                Phase::NeedsIntervention => orphan::awaiting_operator(self, &event),
                phase => self.in_phase(phase, event),
            },
        }
    }

    /// What the event means in a phase: the row's own, or the one that an orphan owes.
    fn in_phase(&mut self, phase: Phase, event: Event) -> Legal {
        match phase {
            Phase::Intent => create::intent(self, event),
            Phase::Dispatched => create::dispatched(self, event),
            Phase::Unknown => create::unknown(self, event),
            Phase::Running => run::running(self, event),
            Phase::CancelRequested | Phase::Cancelling => stop::stopping(self, phase, event),
            Phase::Draining => run::draining(self, event),
            Phase::Ended => end::ended(self, event),
            Phase::Compensating => end::compensating(self, event),
            Phase::CompensationFailed => orphan::awaiting_operator(self, &event),
            _ => Err(Illegal),
        }
    }

    fn at(&self) -> Timestamp {
        self.now.at
    }

    /// Enters a phase, with nothing due in it yet.
    fn enter(&mut self, phase: Phase) {
        self.persist = true;
        self.row.phase = phase;
        self.row.phase_since = self.at();
        // How often a cancel was sent stays to be seen once it is over.
        if !phase.is_settled() && !matches!(phase, Phase::Cancelling | Phase::Ended) {
            self.row.attempts = 0;
        }
        self.row.missing_since = None;
        self.rest();
        if phase.is_settled() {
            self.row.settled_at = Some(self.at());
            self.row.inputs.seal();
        }
        if phase != Phase::Orphaned && phase != Phase::NeedsIntervention {
            self.row.was = None;
        }
    }

    /// Nothing is due until the next event.
    fn rest(&mut self) {
        self.row.turn = None;
        self.row.turn_at = None;
        self.row.cancel_at = None;
    }

    /// Keeps what an answer's `save` named.
    fn save(&mut self, saved: Map<String, Value>) {
        for (name, value) in saved {
            if self.row.detail.get(&name) != Some(&value) {
                self.row.detail.insert(name, value);
                self.persist = true;
            }
        }
    }

    /// Its answer reached the transport: nobody waits any more.
    fn delivered(&mut self) {
        let at = self.at();
        self.persist = true;
        self.row.awaited = false;
        self.row.disconnect_at = None;
        self.row.delivered_at.get_or_insert(at);
    }

    /// Its client is back, or another of its kind has come. What is to be cancelled still is; nobody waits for an
    /// orphan, whose callers are told at once, nor for what was delivered.
    fn client_returned(&mut self) -> Legal {
        self.persist = true;
        if !self.row.cancel_wanted() {
            self.row.disconnect_at = None;
            self.row.awaited |= self.row.phase != Phase::Orphaned && self.row.delivered_at.is_none();
        }
        Ok(())
    }

    /// Counts a try of what the phase owes, and says how long to wait for the next one.
    fn tried(&mut self, retry_after: Option<Duration>) -> Duration {
        self.row.attempts += 1;
        let owed_for = self.at().since(self.row.phase_since);
        schedule::retry(self.row.attempts, owed_for, retry_after, self.now)
    }

    fn turn(&mut self, turn: Turn, at: Timestamp) {
        self.row.turn = Some(turn);
        self.row.turn_at = Some(at);
    }

    fn trouble(&mut self, message: String) {
        if self.row.last_error.as_ref() != Some(&message) {
            self.row.last_error = Some(message);
            self.persist = true;
        }
    }

    fn alarm(&mut self, alarm: Alarm) {
        self.persist = true;
        self.alarms.push(alarm);
    }

    /// Records who wants the cancel; the first one stays.
    fn want_cancel(&mut self, cause: Cause, reason: Option<String>) {
        self.persist = true;
        if self.row.desired == Desired::Cancel {
            return;
        }
        self.row.desired = Desired::Cancel;
        self.row.cause = Some(cause);
        self.row.reason = reason;
        self.row.disconnect_at = None;
    }

    /// The upstream runs it and must stop: a cancel is owed, or it cannot be had.
    fn owe_cancel(&mut self) {
        if self.row.policy.can_cancel {
            self.enter(Phase::CancelRequested);
            let at = self.at();
            self.row.cancel_requested_at.get_or_insert(at);
            self.row.cancel_at = Some(at);
        } else {
            self.enter(Phase::Draining);
            let first = if self.row.policy.mark { Turn::Mark } else { Turn::Status };
            self.turn(first, self.at());
        }
    }

    /// The upstream has ended it.
    fn end(&mut self, outcome: Outcome, error: Option<String>) {
        self.enter(Phase::Ended);
        self.row.outcome = Some(outcome);
        self.row.ended_seen_at = Some(self.at());
        if let Some(error) = error.filter(|_| outcome == Outcome::Failed) {
            self.row.last_error = Some(error);
        }
        if outcome == Outcome::Cancelled && !self.row.kind.word_is_final() {
            self.turn(Turn::Status, self.at() + schedule::CONFIRM_AFTER);
        } else {
            end::conclude(self);
        }
    }

    fn orphan(&mut self) {
        let was = self.row.owes();
        let (turn, turn_at, cancel_at, attempts, missing) =
            (self.row.turn, self.row.turn_at, self.row.cancel_at, self.row.attempts, self.row.missing_since);
        self.enter(Phase::Orphaned);
        self.row.was = Some(was);
        self.row.turn = turn;
        self.row.turn_at = turn_at;
        self.row.cancel_at = cancel_at;
        self.row.attempts = attempts;
        self.row.missing_since = missing;
        // Whoever waited is told so now; only a step's parent waits on.
        self.row.awaited &= self.row.parent.is_some();
        self.alarm(Alarm::Orphaned);
    }

    fn finish(mut self) -> (Row, Vec<Effect>) {
        self.row.next_at = due::next_at(&self.row);
        let mut effects = Vec::new();
        if self.persist {
            self.row.updated_at = self.now.at;
            effects.push(Effect::Persist);
        }
        effects.extend(self.alarms.into_iter().map(Effect::Alarm));
        (self.row, effects)
    }
}

/// What a client's leaving means before the end.
fn client_left(life: &mut Life, cause: Cause, cancel: fn(&mut Life)) {
    life.persist = true;
    match life.row.on_disconnect {
        how if how.cancels_at_once(cause) => {
            life.row.awaited = false;
            life.want_cancel(cause, None);
            cancel(life);
        }
        OnDisconnect::Grace(grace) if !life.row.cancel_wanted() => {
            let at = life.at();
            life.row.disconnect_at.get_or_insert(at + grace);
        }
        OnDisconnect::Detach => life.row.awaited = false,
        OnDisconnect::Cancel | OnDisconnect::Grace(_) => {}
    }
}
