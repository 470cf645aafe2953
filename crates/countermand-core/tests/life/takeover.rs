//! After a restart or a takeover: every unsettled row is driven again, and its client is gone.

use crate::kit::*;
use countermand_core::{
    Cause, Desired, Kind, OnDisconnect, OperationId, Phase, Policy, Turn, WhenCompleted,
    due::Due,
    event::{End, Event, RequestAnswer},
};

const POLICIES: [OnDisconnect; 3] =
    [OnDisconnect::Cancel, OnDisconnect::Grace(secs(30)), OnDisconnect::Detach];

#[test]
fn an_intent_was_never_created_unless_it_is_detached() {
    for on_disconnect in POLICIES {
        let op = Op::of(policy(), on_disconnect).after(secs(1)).on(taken_over()).durable();
        if on_disconnect == OnDisconnect::Detach {
            op.is(Phase::Intent).sends(Turn::Create);
        } else {
            let op = op.is(Phase::NeverCreated).sealed();
            assert_eq!(op.row.cause, Some(Cause::ClientDisconnected));
        }
    }
}

#[test]
fn a_create_in_flight_is_unknown_and_its_horizon_counts_from_the_restart() {
    for (on_disconnect, desired, turn) in [
        (OnDisconnect::Cancel, Desired::Cancel, Turn::Find),
        (OnDisconnect::Grace(secs(30)), Desired::Run, Turn::Replay),
        (OnDisconnect::Detach, Desired::Run, Turn::Replay),
    ] {
        let op = Op::of(policy(), on_disconnect).dispatched().after(secs(7)).on(taken_over());
        let op = op.is(Phase::Unknown).durable().sends(turn);
        assert_eq!((op.row.desired, op.row.create_horizon), (desired, Some(START + secs(67))));
        assert_eq!((op.row.owner.as_str(), op.row.epoch), ("second", 2));
    }
}

#[test]
fn a_replay_in_flight_gets_its_horizon_from_the_restart_and_one_that_ended_keeps_it() {
    let op = Op::new(policy()).unknown().on(Event::CreateStarted).after(secs(7)).on(taken_over());
    assert_eq!(op.is(Phase::Unknown).row.create_horizon, Some(START + secs(67)));
    let op = Op::new(policy()).unknown().after(secs(7)).on(taken_over());
    assert_eq!(op.row.create_horizon, Some(START + secs(60)));
    let op = Op::new(policy()).orphaned_unknown();
    let op = op.on(Event::CreateStarted).after(secs(7)).on(taken_over()).was(Phase::Unknown);
    assert_eq!(op.row.create_horizon, Some(op.at + secs(60)));
}

#[test]
fn a_retry_that_was_pending_has_nothing_on_the_wire() {
    let pending = |policy| Op::of(self::policy(), policy).dispatched().on(not_sent());
    pending(OnDisconnect::Cancel).on(taken_over()).is(Phase::NeverCreated);
    pending(OnDisconnect::Detach).on(taken_over()).is(Phase::Dispatched).sends(Turn::Create);
}

#[test]
fn what_ran_gets_the_disconnect_policy() {
    let op = Op::of(policy(), OnDisconnect::Cancel).running().on(taken_over()).is(Phase::CancelRequested);
    assert_eq!(op.row.cause, Some(Cause::ClientDisconnected));
    op.sends(Turn::Cancel);

    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).running().after(secs(7)).on(taken_over());
    let op = op.is(Phase::Running).sends(Turn::Status);
    assert_eq!(op.row.disconnect_at, Some(START + secs(37)), "counted from the takeover");
    let op = op.on(seen_running()).time_passes(secs(30)).is(Phase::CancelRequested);
    assert_eq!(op.row.cause, Some(Cause::ClientDisconnected));

    let op = Op::of(policy(), OnDisconnect::Detach).running().on(taken_over()).is(Phase::Running);
    let op = op.sends(Turn::Status);
    assert_eq!((op.row.desired, op.row.disconnect_at), (Desired::Run, None));
    op.on(ended(End::Completed)).is(Phase::Completed);

    let unstoppable = Policy { can_cancel: false, mark: true, ..policy() };
    Op::new(unstoppable).running().on(taken_over()).is(Phase::Draining).sends(Turn::Mark);
}

#[test]
fn an_owed_cancel_is_due_now_and_its_attempts_survive() {
    let op = Op::new(policy()).cancel_requested().on(not_accepted(Some(secs(20)))).on(seen_running());
    let op = op.after(secs(1)).on(taken_over()).is(Phase::CancelRequested).sends(Turn::Cancel);
    assert_eq!((op.row.attempts, op.row.next_at), (1, Some(op.at)));
}

#[test]
fn an_accepted_cancel_is_confirmed_now() {
    Op::new(policy()).cancelling().after(secs(9)).on(taken_over()).is(Phase::Cancelling).sends(Turn::Status);
}

#[test]
fn what_drains_is_watched_and_an_unfinished_mark_runs() {
    let marked = Policy { can_cancel: false, mark: true, ..policy() };
    let op = Op::new(marked).draining().on(taken_over()).is(Phase::Draining).sends(Turn::Mark);
    let op = op.on(Event::MarkAnswered(RequestAnswer::Done)).on(taken_over());
    op.is(Phase::Draining).sends(Turn::Status);
}

#[test]
fn an_ended_row_owes_no_delivery_and_no_undo_that_was_not_wanted() {
    for on_disconnect in POLICIES {
        let policy = Policy { undo_steps: 1, when_completed: WhenCompleted::Compensate, ..policy() };
        let op = Op::of(policy, on_disconnect).running().on(ended(End::Completed)).is(Phase::Ended);
        let op = op.on(taken_over()).is(Phase::Completed).sealed();
        assert_eq!(op.row.desired, Desired::Run);
    }
}

#[test]
fn an_unconfirmed_end_is_read_again() {
    let op = Op::new(policy()).ended_cancelled().on(taken_over()).is(Phase::Ended).sends(Turn::Status);
    op.on(ended(End::Cancelled)).is(Phase::Cancelled);
}

#[test]
fn a_step_that_is_done_waits_for_its_parent_across_restarts() {
    let mut op = Op::new(Policy { undo_steps: 1, ..policy() });
    op.row.parent = Some(OperationId(uuid::Uuid::from_u128(9)));
    let op = op.running().on(ended(End::Completed)).on(taken_over()).is(Phase::Ended);
    op.clone().on(Event::Delivered).is(Phase::Completed);
    op.on(cancel()).is(Phase::Compensating).sends(Turn::Undo);
}

#[test]
fn an_orphan_stays_one_and_goes_on_now() {
    let op = Op::of(policy(), OnDisconnect::Cancel).orphaned_running();
    let since = op.row.phase_since;
    let op = op.after(secs(9)).on(taken_over()).was(Phase::CancelRequested).sends(Turn::Cancel);
    assert_eq!(op.row.phase_since, since);
    let op = Op::of(policy(), OnDisconnect::Detach).orphaned_running().on(taken_over());
    op.was(Phase::Running).sends(Turn::Status);
    Op::new(policy()).orphaned_unknown().on(taken_over()).was(Phase::Unknown).sends(Turn::Find);
    let late = Op::new(policy()).ended_cancelled().time_passes(secs(30)).was(Phase::Ended);
    late.on(taken_over()).was(Phase::Ended).sends(Turn::Status);
}

#[test]
fn what_waits_for_an_operator_still_does() {
    let op = Op::new(policy()).needs_intervention().on(taken_over()).is(Phase::NeedsIntervention);
    assert_eq!((op.due(), op.row.epoch), (Due::Nothing, 2));
    let undoable = Policy { undo_steps: 1, ..policy() };
    Op::new(undoable).compensation_failed().on(taken_over()).is(Phase::CompensationFailed);
}

#[test]
fn a_settled_row_is_not_taken_over() {
    Op::new(policy()).on(cancel()).refuses(taken_over());
}

#[test]
fn a_forwarded_cancel_is_not_repeated() {
    let policy = Policy { kind: Kind::Mcp, find: None, key_window: None, ..policy() };
    Op::new(policy).cancel_requested().on(taken_over()).is(Phase::Unverified).sealed();
}

#[test]
fn what_became_too_old_while_nobody_ran_is_tried_again_before_it_is_given_up() {
    let (day, undo) = (secs(24 * 3600), Policy { undo_steps: 1, ..policy() });
    let op = Op::new(policy()).orphaned_running().after(day).on(taken_over());
    op.is(Phase::Orphaned).sends(Turn::Cancel).time_passes(day).is(Phase::NeedsIntervention);
    let op = Op::new(undo.clone()).compensating().after(day).on(taken_over());
    op.is(Phase::Compensating).sends(Turn::Undo).time_passes(day).is(Phase::CompensationFailed);
    // While somebody runs the count goes on over a restart.
    let op = Op::new(undo.clone()).compensating().after(day - secs(60)).on(taken_over());
    op.is(Phase::Compensating).time_passes(secs(60)).is(Phase::CompensationFailed);
}
