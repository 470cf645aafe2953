//! From the intent to the id: what is sent, what was lost, and how we find out.

use super::{Illegal, Legal, Life, client_left, run};
use crate::{
    event::{Alarm, CreateAnswer, Event, FindAnswer, Trouble},
    ids::UpstreamId,
    phase::{Kind, Outcome, Phase},
    policy::Lookup,
    row::Turn,
    schedule::{self, CREATE_ATTEMPTS, UNAUTHORISED_PAUSE},
    time::Timestamp,
};
use serde_json::{Map, Value};

pub(super) fn intent(life: &mut Life, event: Event) -> Legal {
    match event {
        Event::CreateStarted => {
            life.enter(Phase::Dispatched);
            life.row.create_sent_at = Some(life.at());
            Ok(())
        }
        Event::CancelWanted { cause, reason, .. } => {
            life.want_cancel(cause, reason);
            life.enter(Phase::NeverCreated);
            Ok(())
        }
        Event::ClientLeft { cause } => {
            client_left(life, cause, |life| life.enter(Phase::NeverCreated));
            Ok(())
        }
        Event::ClientReturned => life.client_returned(),
        _ => Err(Illegal),
    }
}

pub(super) fn dispatched(life: &mut Life, event: Event) -> Legal {
    match event {
        // A retry of a create that provably was not made.
        Event::CreateStarted if life.row.turn == Some(Turn::Create) => {
            life.persist = true;
            life.rest();
            Ok(())
        }
        Event::CreateAnswered(answer) if life.row.turn.is_none() => {
            created(life, answer);
            Ok(())
        }
        Event::CancelWanted { cause, reason, .. } => {
            life.want_cancel(cause, reason);
            leave_dispatched(life);
            Ok(())
        }
        Event::ClientLeft { cause } => {
            client_left(life, cause, leave_dispatched);
            Ok(())
        }
        Event::ClientReturned => life.client_returned(),
        _ => Err(Illegal),
    }
}

/// A cancel while a create is in flight only waits for its answer; between two tries of a
/// create that was not made there is nothing to wait for.
fn leave_dispatched(life: &mut Life) {
    if life.row.turn == Some(Turn::Create) {
        life.enter(Phase::NeverCreated);
    }
}

fn created(life: &mut Life, answer: CreateAnswer) {
    match answer {
        CreateAnswer::Created { id, saved } => exists(life, id, saved),
        CreateAnswer::NotSent(trouble) | CreateAnswer::Throttled(trouble) => not_made(life, trouble),
        CreateAnswer::Refused(trouble) => {
            life.trouble(trouble.message);
            if trouble.unauthorised {
                life.alarm(Alarm::Unauthorised);
            }
            life.row.outcome = Some(Outcome::Failed);
            life.enter(Phase::Failed);
        }
        CreateAnswer::Lost(trouble) => lost(life, trouble),
    }
}

/// Not one byte was written, or it was refused for now: there is nothing upstream.
fn not_made(life: &mut Life, trouble: Trouble) {
    life.trouble(trouble.message);
    if life.row.cancel_wanted() {
        return life.enter(Phase::NeverCreated);
    }
    life.persist = true;
    let pause = life.tried(trouble.retry_after);
    if life.row.attempts >= CREATE_ATTEMPTS {
        life.row.outcome = Some(Outcome::Failed);
        return life.enter(Phase::Failed);
    }
    life.turn(Turn::Create, life.at() + pause);
}

fn lost(life: &mut Life, trouble: Trouble) {
    life.trouble(trouble.message);
    life.enter(Phase::Unknown);
    life.row.create_horizon = Some(life.at() + life.row.policy.horizon);
    ask(life, life.at(), false);
}

/// It exists: its id leads on; one HTTP request has thereby ended.
fn exists(life: &mut Life, id: Option<UpstreamId>, saved: Map<String, Value>) {
    life.row.detail.extend(saved);
    if life.row.kind == Kind::Http {
        life.row.upstream_id = id;
        return life.end(Outcome::Completed, None);
    }
    let Some(id) = id else {
        return lost(life, Trouble::new("the create was answered without an id"));
    };
    life.row.upstream_id = Some(id);
    if life.row.cancel_wanted() {
        return life.owe_cancel();
    }
    life.enter(Phase::Running);
    let pause = schedule::poll(&life.row, None, life.now);
    life.turn(Turn::Status, life.at() + pause);
}

pub(super) fn unknown(life: &mut Life, event: Event) -> Legal {
    match event {
        Event::CreateStarted if life.row.turn == Some(Turn::Replay) && life.row.may_replay(life.at()) => {
            life.persist = true;
            life.row.create_horizon = None;
            life.rest();
            Ok(())
        }
        Event::CreateAnswered(answer) if life.row.turn.is_none() => {
            replayed(life, answer);
            Ok(())
        }
        Event::FindAnswered { sent_at, answer } => {
            found(life, sent_at, answer);
            Ok(())
        }
        Event::CancelWanted { .. } | Event::ClientLeft { .. } if life.row.cancel_wanted() => run::again(life),
        Event::CancelWanted { cause, reason, .. } => {
            life.want_cancel(cause, reason);
            ask_anew(life);
            Ok(())
        }
        Event::ClientLeft { cause } => {
            client_left(life, cause, ask_anew);
            Ok(())
        }
        Event::ClientReturned => life.client_returned(),
        _ => Err(Illegal),
    }
}

/// A cancel changes which question is asked first, unless one is being asked.
fn ask_anew(life: &mut Life) {
    if life.row.turn.is_some() {
        ask(life, life.at(), false);
    }
}

/// A replay's answer without an id proves nothing about the first create.
fn replayed(life: &mut Life, answer: CreateAnswer) {
    let trouble = match answer {
        CreateAnswer::Created { id, saved } if id.is_some() || life.row.kind == Kind::Http => {
            return exists(life, id, saved);
        }
        CreateAnswer::Created { .. } => Trouble::new("the replay was answered without an id"),
        CreateAnswer::NotSent(trouble)
        | CreateAnswer::Throttled(trouble)
        | CreateAnswer::Refused(trouble)
        | CreateAnswer::Lost(trouble) => trouble,
    };
    life.persist = true;
    life.row.create_horizon = Some(life.at() + life.row.policy.horizon);
    try_again(life, trouble, true);
}

fn found(life: &mut Life, sent_at: Timestamp, answer: FindAnswer) {
    match answer {
        FindAnswer::Hit { id, saved } if id.is_some() || life.row.kind == Kind::Http => {
            exists(life, id, saved)
        }
        // A replay is in flight: its answer leads on, and what a look-up from before it missed proves nothing.
        _ if life.row.turn.is_none() && life.row.create_horizon.is_none() => {}
        FindAnswer::Hit { .. } => {
            try_again(life, Trouble::new("the look-up found it, but no id in it"), false);
        }
        FindAnswer::Failed(trouble) => try_again(life, trouble, false),
        FindAnswer::Miss if is_valid(life, sent_at) && is_enough(life, sent_at) => {
            if life.row.cancel_wanted() {
                life.enter(Phase::NeverCreated);
            } else {
                life.trouble("the create was lost, and the upstream has nothing under its key".into());
                life.row.outcome = Some(Outcome::Failed);
                life.enter(Phase::Failed);
            }
        }
        FindAnswer::Miss => {
            let counts = is_valid(life, sent_at);
            if counts {
                life.persist = true;
                life.row.missing_since.get_or_insert(sent_at);
            }
            let pause = life.tried(None);
            let next = if counts {
                life.at() + pause.clamp(schedule::CONFIRM_AFTER, schedule::MISSING_FOR)
            } else {
                // The first look-up that can decide is not put off by the pauses of those that cannot.
                let horizon = life.row.create_horizon.filter(|horizon| *horizon > life.at());
                horizon.map_or(life.at() + pause, |horizon| horizon.min(life.at() + pause))
            };
            ask(life, next, false);
        }
    }
}

/// A miss proves something only if no create could arrive after the look-up was *sent*.
fn is_valid(life: &Life, sent_at: Timestamp) -> bool {
    life.row.create_horizon.is_some_and(|horizon| sent_at >= horizon)
}

/// A list that lags behind takes two misses, and the second look-up has to be another one, sent later.
fn is_enough(life: &Life, sent_at: Timestamp) -> bool {
    match life.row.policy.find {
        Some(Lookup::Eventual) => {
            life.row.missing_since.is_some_and(|first| sent_at >= first + schedule::CONFIRM_AFTER)
        }
        _ => true,
    }
}

fn try_again(life: &mut Life, trouble: Trouble, replayed: bool) {
    let mut pause = life.tried(trouble.retry_after);
    life.trouble(trouble.message);
    if trouble.unauthorised {
        pause = pause.max(UNAUTHORISED_PAUSE);
        life.alarm(Alarm::Unauthorised);
    }
    // After a replay the look-up is next; it is another request and need not wait for the retry.
    let at = if replayed && life.row.policy.find.is_some() { life.at() } else { life.at() + pause };
    ask(life, at, replayed);
    if trouble.unauthorised && life.row.phase != Phase::Orphaned {
        life.orphan();
    }
}

/// Chooses the next question: was it created? With a cancel wanted the look-up comes first, and a
/// replay only where there is none; else the replay comes first, and after it the look-up. Every
/// replay moves the horizon, so after a few of them only look-ups are left: else no miss would ever count.
pub(super) fn ask(life: &mut Life, at: Timestamp, replayed: bool) {
    let row = &life.row;
    let replay = row.may_replay(life.now.at.max(at)) && row.inputs.values().is_some();
    let find = row.policy.find.is_some();
    let tired = row.missing_since.is_some() || row.attempts >= CREATE_ATTEMPTS;
    let next = match (row.cancel_wanted() || replayed || tired, find, replay) {
        (true, true, _) | (false, true, false) => Turn::Find,
        (_, _, true) => Turn::Replay,
        (_, false, false) => {
            life.rest();
            // Nobody can say: an operator must. An orphan is one already.
            if life.row.phase == Phase::Unknown {
                life.orphan();
            }
            return;
        }
    };
    life.turn(next, at);
}
