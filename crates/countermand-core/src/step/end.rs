//! After the upstream has ended it: the confirming read, the delivery, the undo.

use super::{Illegal, Legal, Life, client_left, run};
use crate::{
    event::{Alarm, End, Event, RequestAnswer, StatusAnswer},
    phase::{Desired, Outcome, Phase},
    policy::WhenCompleted,
    row::Turn,
    schedule,
};

pub(super) fn ended(life: &mut Life, event: Event) -> Legal {
    let confirming = life.row.turn == Some(Turn::Status);
    match event {
        Event::StatusAnswered(answer) if confirming => {
            confirm(life, answer);
            Ok(())
        }
        Event::Delivered => {
            life.delivered();
            if !confirming {
                conclude(life);
            }
            Ok(())
        }
        // Before the answer reached the transport a cancel wins the race for it; afterwards the
        // row is settled, or what is left is a confirmation that the cancel changes nothing about.
        Event::CancelWanted { cause, reason, .. } => {
            if life.row.delivered_at.is_none() {
                life.want_cancel(cause, reason);
            }
            life.persist = true;
            if !confirming {
                conclude(life);
            }
            Ok(())
        }
        // It has its answer.
        Event::ClientLeft { .. } if life.row.delivered_at.is_some() => run::again(life),
        Event::ClientLeft { cause } => {
            client_left(life, cause, |_| ());
            if !confirming {
                conclude(life);
            }
            Ok(())
        }
        Event::ClientReturned => life.client_returned(),
        _ => Err(Illegal),
    }
}

/// The second read of an HTTP API that said `cancelled`.
fn confirm(life: &mut Life, answer: StatusAnswer) {
    match answer {
        StatusAnswer::Missing | StatusAnswer::Ended { end: End::Cancelled, .. } => {
            life.persist = true;
            life.rest();
            leave_orphanage(life);
            conclude(life);
        }
        StatusAnswer::Ended { end, error, saved } => {
            life.save(saved);
            life.alarm(Alarm::TookBack);
            life.trouble(format!("the upstream said cancelled, then {}", end.outcome()));
            life.row.outcome = Some(end.outcome());
            if let Some(error) = error.filter(|_| end == End::Failed) {
                life.trouble(error);
            }
            life.rest();
            leave_orphanage(life);
            conclude(life);
        }
        StatusAnswer::Running { state, .. } => {
            let late = life.row.phase == Phase::Orphaned;
            life.alarm(Alarm::TookBack);
            life.trouble(format!("the upstream said cancelled, then `{state}`"));
            life.row.outcome = None;
            life.row.ended_seen_at = None;
            if !life.row.cancel_wanted() {
                // Nobody wanted a cancel; the upstream changed its mind twice.
                life.enter(Phase::Running);
                life.turn(Turn::Status, life.at());
                return;
            }
            if !life.row.policy.can_cancel {
                return life.owe_cancel();
            }
            if late {
                life.row.was = Some(Phase::Cancelling);
            } else {
                life.enter(Phase::Cancelling);
            }
            let at = life.at();
            life.row.cancel_requested_at.get_or_insert(at);
            life.row.cancel_at = Some(at);
            life.turn(Turn::Status, at + schedule::CONFIRM_AFTER);
        }
        StatusAnswer::Failed(trouble) => {
            let pause = schedule::confirm_poll(&life.row, trouble.retry_after, life.now);
            life.trouble(trouble.message);
            life.turn(Turn::Status, life.at() + pause);
        }
    }
}

fn leave_orphanage(life: &mut Life) {
    if life.row.phase == Phase::Orphaned {
        life.enter(Phase::Ended);
    }
}

/// Decides what an ended operation still owes: its undo, its delivery, or nothing.
pub(super) fn conclude(life: &mut Life) {
    let row = &life.row;
    let outcome = row.outcome.unwrap_or(Outcome::Gone);
    let wanted = row.desired == Desired::Cancel;
    let undo = row.policy.undo_steps > 0
        && row.inputs.values().is_some()
        && match outcome {
            Outcome::Completed => wanted && row.policy.when_completed == WhenCompleted::Compensate,
            Outcome::Cancelled | Outcome::Gone | Outcome::Failed => true,
        };
    if undo {
        life.enter(Phase::Compensating);
        life.row.undo_next = 0;
        life.row.undo_key = Some(life.now.dice.key());
        life.turn(Turn::Undo, life.at());
    } else if !(row.awaited && !wanted && row.delivered_at.is_none()) {
        life.enter(match outcome {
            Outcome::Completed => Phase::Completed,
            Outcome::Failed => Phase::Failed,
            Outcome::Cancelled | Outcome::Gone => Phase::Cancelled,
        });
    }
}

pub(super) fn compensating(life: &mut Life, event: Event) -> Legal {
    match event {
        Event::UndoAnswered(RequestAnswer::Done) => {
            life.persist = true;
            life.row.undo_next += 1;
            life.row.attempts = 0;
            if life.row.undo_next >= life.row.policy.undo_steps {
                life.enter(Phase::Compensated);
            } else {
                life.row.undo_key = Some(life.now.dice.key());
                life.turn(Turn::Undo, life.at());
            }
            Ok(())
        }
        Event::UndoAnswered(RequestAnswer::Failed(trouble)) => {
            life.persist = true;
            let pause = life.tried(trouble.retry_after);
            life.trouble(format!("undo {}: {}", life.row.undo_next + 1, trouble.message));
            life.turn(Turn::Undo, life.at() + pause);
            Ok(())
        }
        Event::UndoAnswered(RequestAnswer::Refused(trouble)) => {
            life.trouble(format!("undo {} was refused: {}", life.row.undo_next + 1, trouble.message));
            compensation_failed(life);
            Ok(())
        }
        Event::Delivered => {
            life.delivered();
            Ok(())
        }
        Event::CancelWanted { cause, reason, .. } => {
            if life.row.delivered_at.is_none() {
                life.want_cancel(cause, reason);
            }
            run::again(life)
        }
        Event::ClientLeft { .. } | Event::ClientReturned => run::again(life),
        _ => Err(Illegal),
    }
}

pub(super) fn compensation_failed(life: &mut Life) {
    life.enter(Phase::CompensationFailed);
    life.alarm(Alarm::CompensationFailed);
}
