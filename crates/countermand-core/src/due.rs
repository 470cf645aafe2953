//! What a row needs, and when: read off the row alone, so that a driver in the middle of its work
//! and a reconciler after a crash take the same road.

use crate::{
    phase::{Desired, Phase},
    row::{Row, Turn},
    schedule::GIVE_UP_AFTER,
    time::Timestamp,
};

/// What a row needs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing ever: it is settled, or an operator's.
    Nothing,
    /// Nothing yet: not before this time, or (`None`) not before an event.
    Later(Option<Timestamp>),
    /// A timer is due: [`Event::TimePassed`](crate::event::Event::TimePassed).
    Time,
    /// This request is due.
    Send(Turn),
}

/// What the row needs at this time.
pub fn due(row: &Row, at: Timestamp) -> Due {
    if row.phase.is_settled() || row.phase.awaits_operator() {
        return Due::Nothing;
    }
    if timer(row).is_some_and(|t| t <= at) {
        return Due::Time;
    }
    match request(row, at) {
        Some((turn, due)) if due <= at => Due::Send(turn),
        _ => Due::Later(row.next_at),
    }
}

/// The earliest of the row's requests and timers.
pub(crate) fn next_at(row: &Row) -> Option<Timestamp> {
    if row.phase.is_settled() || row.phase.awaits_operator() {
        return None;
    }
    [timer(row), request(row, row.updated_at).map(|(_, at)| at)].into_iter().flatten().min()
}

/// The next request: the row's turn, or its cancel where that is due earlier. Whether the cancel is
/// the forced one depends on when it is really sent.
fn request(row: &Row, now: Timestamp) -> Option<(Turn, Timestamp)> {
    let turn = row.turn.zip(row.turn_at);
    let cancel = row.cancel_at.map(|at| {
        let forced = row
            .policy
            .force_after
            .is_some_and(|after| row.cancel_requested_at.is_some_and(|since| at.max(now) >= since + after));
        (if forced { Turn::Force } else { Turn::Cancel }, at)
    });
    match (turn, cancel) {
        (Some(turn), Some(cancel)) => Some(if turn.1 <= cancel.1 { turn } else { cancel }),
        (turn, cancel) => turn.or(cancel),
    }
}

/// The earliest of the row's timers: what becomes due by itself, whatever is in flight.
pub fn timer(row: &Row) -> Option<Timestamp> {
    let confirm = row.policy.confirm_within;
    let by_phase = match row.phase {
        Phase::CancelRequested | Phase::Cancelling => row.cancel_requested_at.map(|at| at + confirm),
        // From the first horizon: replays move the horizon, and would put this off for ever.
        Phase::Unknown => Some(row.phase_since + row.policy.horizon + confirm),
        Phase::Ended if row.turn.is_some() => row.ended_seen_at.map(|at| at + confirm),
        // The mark goes first, but its retries do not put the deadline off.
        Phase::Draining if row.turn != Some(Turn::Mark) || row.attempts > 0 => Some(row.hard_deadline),
        Phase::Compensating | Phase::Orphaned => Some(row.phase_since + GIVE_UP_AFTER),
        _ => None,
    };
    let runs = row.desired == Desired::Run && row.owes().is_before_end();
    let lifetime = runs.then_some(row.hard_deadline);
    let keeps_answer = row.phase == Phase::Ended && row.awaited;
    let grace = if runs || keeps_answer { row.disconnect_at } else { None };
    let window = if row.turn == Some(Turn::Replay) { row.replay_until() } else { None };
    [by_phase, lifetime, grace, window].into_iter().flatten().min()
}
