//! While a cancel is owed (`cancel_requested`) or accepted and not confirmed (`cancelling`).

use super::{Illegal, Legal, Life, run};
use crate::{
    event::{Alarm, CancelAnswer, Event, StatusAnswer, Trouble},
    phase::{Kind, Outcome, Phase},
    row::Turn,
    schedule::{self, RESEND_AFTER, UNAUTHORISED_PAUSE},
    time::Timestamp,
};

pub(super) fn stopping(life: &mut Life, phase: Phase, event: Event) -> Legal {
    match event {
        Event::CancelAnswered(CancelAnswer::Accepted { .. }) => {
            accepted(life, phase);
            Ok(())
        }
        Event::CancelAnswered(CancelAnswer::NotAccepted(trouble)) => {
            not_accepted(life, trouble);
            Ok(())
        }
        Event::StatusAnswered(answer) => {
            status(life, phase, answer);
            Ok(())
        }
        Event::CancelWanted { .. } | Event::ClientLeft { .. } | Event::ClientReturned => run::again(life),
        _ => Err(Illegal),
    }
}

/// A receipt: the status tells the rest.
fn accepted(life: &mut Life, phase: Phase) {
    let attempts = life.row.attempts + 1;
    let late = life.row.phase == Phase::Orphaned;
    if late && life.row.kind == Kind::Mcp {
        return life.enter(Phase::Unverified);
    }
    if phase == Phase::CancelRequested {
        let missing = life.row.missing_since;
        if late {
            life.row.was = Some(Phase::Cancelling);
            life.row.turn = None;
            life.persist = true;
        } else {
            life.enter(Phase::Cancelling);
        }
        life.row.missing_since = missing;
    }
    life.persist = true;
    life.row.attempts = attempts;
    if life.row.kind == Kind::Mcp {
        return await_late_answer(life);
    }
    let owed_for = owed_for(life);
    let pause = schedule::retry(attempts, owed_for, None, life.now).max(RESEND_AFTER);
    life.row.cancel_at = Some(force_in_time(life, life.at() + pause));
    life.turn(Turn::Status, life.at());
}

/// A server that was told once is not told again. It may still answer, which would show that it ran on; silence proves
/// nothing. What comes next is its timer, or the force.
fn await_late_answer(life: &mut Life) {
    let forced = life.row.policy.force_after.zip(life.row.cancel_requested_at);
    life.row.cancel_at = forced.map(|(after, since)| since + after).filter(|at| *at > life.at());
    life.turn(Turn::Status, life.at());
}

/// The cancel stays owed; a status read may still say that it has ended.
fn not_accepted(life: &mut Life, trouble: Trouble) {
    life.persist = true;
    life.row.attempts += 1;
    let mut pause = schedule::retry(life.row.attempts, owed_for(life), trouble.retry_after, life.now);
    if trouble.unauthorised {
        pause = pause.max(UNAUTHORISED_PAUSE);
    }
    let asked_to_wait = trouble.unauthorised || trouble.retry_after.is_some();
    let at = life.at() + pause;
    life.row.cancel_at = Some(if asked_to_wait { at } else { force_in_time(life, at) });
    life.turn(Turn::Status, life.at());
    life.trouble(format!("the cancel was not accepted: {}", trouble.message));
    if trouble.unauthorised && life.row.phase != Phase::Orphaned {
        life.alarm(Alarm::Unauthorised);
        life.orphan();
    }
}

fn status(life: &mut Life, phase: Phase, answer: StatusAnswer) {
    let confirming = phase == Phase::Cancelling;
    match answer {
        StatusAnswer::Ended { end, error, saved } => {
            life.save(saved);
            return life.end(end.outcome(), error);
        }
        StatusAnswer::Missing if run::missing_for_long(life) => return life.end(Outcome::Gone, None),
        StatusAnswer::Missing => return read_again(life, None),
        StatusAnswer::Running { state, listed, retry_after, saved } => {
            run::still_there(life, &state, listed, saved);
            if confirming && !listed && life.row.phase != Phase::Orphaned {
                // It says neither that it runs nor that it has ended: it may be about to stop.
                let at = life.at() + RESEND_AFTER;
                life.row.cancel_at = life.row.cancel_at.map(|due| due.max(at));
            }
            if confirming {
                return read_again(life, retry_after);
            }
        }
        StatusAnswer::Failed(trouble) => {
            let pause = trouble.unauthorised.then_some(UNAUTHORISED_PAUSE).or(trouble.retry_after);
            life.trouble(trouble.message);
            if confirming {
                read_again(life, pause);
                if trouble.unauthorised && life.row.phase != Phase::Orphaned {
                    life.alarm(Alarm::Unauthorised);
                    life.orphan();
                }
                return;
            }
        }
    }
    // The read that follows a cancel that was not accepted: the next cancel is scheduled already. That may be in a
    // minute, and until then the ledger should say so.
    life.persist = true;
    life.row.turn = None;
    life.row.turn_at = None;
}

fn read_again(life: &mut Life, retry_after: Option<std::time::Duration>) {
    let pause = schedule::confirm_poll(&life.row, retry_after, life.now);
    life.turn(Turn::Status, life.at() + pause);
}

/// A pause that the upstream did not ask for does not put the forced cancel off.
fn force_in_time(life: &Life, at: Timestamp) -> Timestamp {
    let forced = life.row.policy.force_after.zip(life.row.cancel_requested_at);
    match forced.map(|(after, since)| since + after) {
        Some(forced) if life.at() < forced => at.min(forced.max(life.at() + RESEND_AFTER)),
        _ => at,
    }
}

fn owed_for(life: &Life) -> std::time::Duration {
    life.at().since(life.row.cancel_requested_at.unwrap_or(life.row.phase_since))
}
