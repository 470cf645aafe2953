//! What only time, or our own death, brings about.

use super::{Illegal, Legal, Life, create, end, orphan};
use crate::{
    Cause,
    event::{Alarm, Event},
    ids::Owner,
    phase::{Desired, Kind, Phase},
    policy::OnDisconnect,
    row::Turn,
    schedule::GIVE_UP_AFTER,
};

/// Every timer of the row that is due, the client's first: each can lead to the next.
pub(super) fn passed(life: &mut Life) -> Legal {
    if life.row.phase.is_settled() || life.row.phase.awaits_operator() {
        return Err(Illegal);
    }
    let at = life.at();
    let runs = life.row.desired == Desired::Run && life.row.owes().is_before_end();
    let keeps_answer = life.row.phase == Phase::Ended && life.row.awaited;
    if (runs || keeps_answer) && life.row.disconnect_at.is_some_and(|due| due <= at) {
        life.row.awaited = false;
        life.apply(Event::CancelWanted { cause: Cause::ClientDisconnected, reason: None, note: None })?;
    } else if runs && life.row.hard_deadline <= at {
        life.apply(Event::CancelWanted { cause: Cause::Deadline, reason: None, note: None })?;
    }
    if life.row.turn == Some(Turn::Replay) && !life.row.may_replay(at) {
        create::ask(life, at, false);
    }
    let confirm_by = |since: Option<crate::Timestamp>| {
        since.is_some_and(|since| since + life.row.policy.confirm_within <= at)
    };
    match life.row.phase {
        // It was delivered, and nothing can verify it.
        Phase::Cancelling if life.row.kind == Kind::Mcp && confirm_by(life.row.cancel_requested_at) => {
            life.enter(Phase::Unverified);
        }
        Phase::CancelRequested | Phase::Cancelling if confirm_by(life.row.cancel_requested_at) => {
            life.trouble_if_none("the cancel was not confirmed in time");
            life.orphan();
        }
        Phase::Unknown if confirm_by(Some(life.row.phase_since + life.row.policy.horizon)) => {
            life.trouble_if_none("whether it was created could not be found out in time");
            life.orphan();
        }
        Phase::Ended if life.row.turn.is_some() && confirm_by(life.row.ended_seen_at) => {
            life.trouble_if_none("its end was not confirmed in time");
            life.orphan();
        }
        Phase::Draining
            if life.row.hard_deadline <= at
                && (life.row.turn != Some(Turn::Mark) || life.row.attempts > 0) =>
        {
            life.trouble_if_none("it cannot be stopped, and its lifetime is over");
            life.orphan();
        }
        Phase::Orphaned if life.row.phase_since + GIVE_UP_AFTER <= at => {
            let was = life.row.owes();
            life.enter(Phase::NeedsIntervention);
            life.row.was = Some(was);
            life.alarm(Alarm::NeedsIntervention);
        }
        Phase::Compensating if life.row.phase_since + GIVE_UP_AFTER <= at => end::compensation_failed(life),
        _ => {}
    }
    Ok(())
}

/// What is due is put off, and stays due: the row only says why.
pub(super) fn held_up(life: &mut Life, why: String) -> Legal {
    if life.row.phase.is_settled() || life.row.phase.awaits_operator() {
        return Err(Illegal);
    }
    life.trouble(why);
    Ok(())
}

impl Life {
    fn trouble_if_none(&mut self, message: &str) {
        if self.row.last_error.is_none() {
            self.trouble(message.to_owned());
        }
    }
}

/// A new incarnation holds the row. Whoever called is gone, unless the operation is detached;
/// what was in flight is not any more, and what is owed is due now.
pub(super) fn taken_over(life: &mut Life, owner: Owner, epoch: u64) -> Legal {
    if life.row.phase.is_settled() {
        return Err(Illegal);
    }
    life.persist = true;
    life.row.owner = owner;
    life.row.epoch = epoch;
    // What waits for a step is its parent, and that is in the ledger too.
    life.row.awaited &= life.row.parent.is_some();
    let at = life.at();
    let detached = life.row.on_disconnect == OnDisconnect::Detach;
    match life.row.phase {
        Phase::Intent => return not_sent(life, detached),
        Phase::Dispatched if life.row.turn == Some(Turn::Create) => return not_sent(life, detached),
        Phase::Dispatched => {
            life.enter(Phase::Unknown);
            life.row.create_horizon = Some(at + life.row.policy.horizon);
        }
        Phase::Unknown | Phase::Orphaned if life.row.owes() == Phase::Unknown => {
            let horizon = at + life.row.policy.horizon;
            life.row.create_horizon.get_or_insert(horizon);
        }
        Phase::Ended if life.row.turn.is_none() => {
            end::conclude(life);
            return Ok(());
        }
        phase if phase.awaits_operator() => return Ok(()),
        // The server's connection died with us; a forwarded cancel is not repeated.
        Phase::CancelRequested | Phase::Cancelling if life.row.kind == Kind::Mcp => {
            life.enter(Phase::Unverified);
            return Ok(());
        }
        _ => {}
    }
    let owed = life.row.owes();
    if life.row.desired == Desired::Run && owed.is_before_end() && !detached {
        // The disconnect policy, its grace counted from now.
        life.apply(Event::ClientLeft { cause: Cause::ClientDisconnected })?;
    }
    if matches!(life.row.phase, Phase::Orphaned | Phase::Compensating)
        && life.row.phase_since + GIVE_UP_AFTER <= at
    {
        // Nobody tried while we were down: it is not given up before it was tried again.
        life.row.phase_since = at;
    }
    let owed = life.row.owes();
    orphan::resume(life, owed);
    Ok(())
}

/// A create that was never sent has no client any more that would want it.
fn not_sent(life: &mut Life, detached: bool) -> Legal {
    if detached {
        life.turn(Turn::Create, life.at());
    } else {
        life.want_cancel(Cause::ClientDisconnected, None);
        life.enter(Phase::NeverCreated);
    }
    Ok(())
}
