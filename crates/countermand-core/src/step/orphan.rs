//! Orphans go on with what they owed; an operator's word ends what we could not.

use super::{Illegal, Legal, Life, run};
use crate::{event::Event, phase::Phase, row::Turn};

/// An orphan keeps doing what it owed. It leaves when the debt is paid, or when it is learnt
/// that it was created; a mere step within the debt (accepted, still unconfirmed) leaves it late.
pub(super) fn while_late(life: &mut Life, event: Event) -> Legal {
    let owed = life.row.owes();
    let since = life.row.phase_since;
    life.in_phase(owed, event)?;
    let now_in = life.row.phase;
    let a_new_debt = owed == Phase::Unknown && now_in != Phase::Unknown;
    let within_the_debt =
        matches!(now_in, Phase::Unknown | Phase::CancelRequested | Phase::Cancelling | Phase::Draining);
    if within_the_debt && !a_new_debt {
        life.row.phase = Phase::Orphaned;
        life.row.was = Some(now_in);
        life.row.phase_since = since;
    }
    Ok(())
}

/// A row that waits for an operator only notes that somebody wants it cancelled.
pub(super) fn awaiting_operator(life: &mut Life, event: &Event) -> Legal {
    match event {
        Event::CancelWanted { cause, reason, .. } => {
            life.want_cancel(*cause, reason.clone());
            if life.row.was == Some(Phase::Running) {
                let stop = if life.row.policy.can_cancel { Phase::CancelRequested } else { Phase::Draining };
                life.row.was = Some(stop);
            }
            Ok(())
        }
        Event::ClientLeft { .. } => {
            life.persist = true;
            life.row.awaited = false;
            Ok(())
        }
        Event::ClientReturned => run::again(life),
        Event::Delivered => {
            life.delivered();
            Ok(())
        }
        _ => Err(Illegal),
    }
}

pub(super) fn resolved(life: &mut Life) -> Legal {
    match life.row.phase {
        Phase::Unknown
        | Phase::Draining
        | Phase::Orphaned
        | Phase::NeedsIntervention
        | Phase::CompensationFailed => {
            life.enter(Phase::Resolved);
            Ok(())
        }
        _ => Err(Illegal),
    }
}

pub(super) fn retry_wanted(life: &mut Life) -> Legal {
    let at = life.at();
    match life.row.phase {
        Phase::NeedsIntervention => {
            let was = life.row.owes();
            life.enter(Phase::Orphaned);
            life.row.was = Some(was);
            resume(life, was);
            Ok(())
        }
        Phase::CompensationFailed => {
            life.enter(Phase::Compensating);
            life.turn(Turn::Undo, at);
            Ok(())
        }
        _ => Err(Illegal),
    }
}

/// What is owed in a phase is due now: after a restart, or an operator's retry.
pub(super) fn resume(life: &mut Life, owed: Phase) {
    let at = life.at();
    match owed {
        Phase::Unknown => super::create::ask(life, at, false),
        Phase::Running => life.turn(Turn::Status, at),
        Phase::CancelRequested => {
            life.row.cancel_requested_at.get_or_insert(at);
            life.row.turn = None;
            life.row.turn_at = None;
            life.row.cancel_at = Some(at);
        }
        Phase::Cancelling => {
            // The read goes first: it may have stopped in the meantime.
            let resend = life.row.cancel_at.unwrap_or(at + crate::schedule::RESEND_AFTER);
            life.row.cancel_at = Some(resend.max(at));
            life.turn(Turn::Status, at);
        }
        Phase::Draining => {
            let turn = life.row.turn.filter(|turn| *turn == Turn::Mark).unwrap_or(Turn::Status);
            life.turn(turn, at);
        }
        Phase::Ended => life.turn(Turn::Status, at),
        Phase::Compensating => life.turn(Turn::Undo, at),
        _ => {}
    }
}
