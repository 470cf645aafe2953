//! Clients that cancel, leave and return; and what never changes once it is said.

use crate::kit::*;
use countermand_core::{
    Cause, Desired, OnDisconnect, Phase, Policy,
    event::{End, Event},
};

#[test]
fn a_client_that_leaves_cancels_at_once() {
    for (op, phase) in [
        (Op::new(policy()), Phase::NeverCreated),
        (Op::new(policy()).dispatched(), Phase::Dispatched),
        (Op::new(policy()).dispatched().on(not_sent()), Phase::NeverCreated),
        (Op::new(policy()).unknown(), Phase::Unknown),
        (Op::new(policy()).running(), Phase::CancelRequested),
        (Op::new(Policy { can_cancel: false, ..policy() }).running(), Phase::Draining),
    ] {
        let op = op.on(left()).is(phase).durable();
        assert_eq!((op.row.desired, op.row.cause), (Desired::Cancel, Some(Cause::ClientDisconnected)));
        assert!(!op.row.awaited);
    }
}

#[test]
fn a_grace_is_durable_and_ends_in_a_cancel() {
    for (op, phase) in [
        (Op::of(policy(), OnDisconnect::Grace(secs(30))), Phase::NeverCreated),
        (Op::of(policy(), OnDisconnect::Grace(secs(30))).dispatched(), Phase::Dispatched),
        (Op::of(policy(), OnDisconnect::Grace(secs(30))).unknown(), Phase::Unknown),
        (Op::of(policy(), OnDisconnect::Grace(secs(30))).running(), Phase::CancelRequested),
    ] {
        let op = op.on(left()).durable();
        assert_eq!((op.row.desired, op.row.disconnect_at), (Desired::Run, Some(START + secs(30))));
        let op = op.time_passes(secs(29));
        assert_eq!(op.row.desired, Desired::Run);
        let op = op.time_passes(secs(1)).is(phase).durable();
        assert_eq!((op.row.desired, op.row.cause), (Desired::Cancel, Some(Cause::ClientDisconnected)));
    }
}

#[test]
fn a_client_that_returns_within_its_grace_ends_it() {
    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).running().on(left()).after(secs(20));
    let op = op.on(Event::ClientReturned).durable().time_passes(secs(60)).is(Phase::Running);
    assert!(op.row.awaited);
    op.on(ended(End::Completed)).is(Phase::Ended);
}

#[test]
fn a_second_farewell_does_not_lengthen_the_grace() {
    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).running().on(left()).after(secs(20)).on(left());
    op.time_passes(secs(10)).is(Phase::CancelRequested);
}

#[test]
fn a_detached_operation_goes_on_bounded_by_its_lifetime() {
    let op = Op::of(policy(), OnDisconnect::Detach).running().on(left()).durable().is(Phase::Running);
    assert_eq!((op.row.desired, op.row.disconnect_at), (Desired::Run, None));
    op.clone().on(ended(End::Completed)).is(Phase::Completed);
    op.at_second(3600).on(Event::TimePassed).is(Phase::CancelRequested);
}

#[test]
fn a_cancel_within_a_grace_is_a_cancel_at_once() {
    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).running().on(left()).on(cancel());
    let op = op.is(Phase::CancelRequested);
    assert_eq!((op.row.cause, op.row.disconnect_at), (Some(Cause::ClientCancelled), None));
}

#[test]
fn the_first_cause_and_its_words_stay_in_every_phase() {
    let first = || Event::CancelWanted { cause: Cause::Shutdown, reason: Some("first".into()), note: None };
    let undoable = Policy { undo_steps: 1, ..policy() };
    for op in [
        Op::new(policy()).dispatched().on(first()),
        Op::new(policy()).unknown().on(first()),
        Op::new(policy()).running().on(first()),
        Op::new(policy()).running().on(first()).on(accepted()),
        Op::new(policy()).running().on(first()).on(accepted()).on(ended(End::Cancelled)),
        Op::new(policy()).orphaned_running().on(first()),
        Op::new(undoable).running().on(first()).on(ended(End::Failed)),
        Op::new(Policy { lifetime: secs(7 * 24 * 3600), ..policy() }).needs_intervention().on(first()),
    ] {
        let phase = op.row.phase;
        let op = op.on(cancel_by(Cause::Operator)).on(left()).is(phase);
        assert_eq!(op.row.desired, Desired::Cancel);
        assert_eq!((op.row.cause, op.row.reason.as_deref()), (Some(Cause::Shutdown), Some("first")));
    }
}

#[test]
fn a_cancel_is_sticky() {
    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).dispatched().on(cancel());
    let op = op.on(Event::ClientReturned).on(lost()).on(Event::ClientReturned);
    assert_eq!(op.row.desired, Desired::Cancel);
    let at = op.at;
    op.on(hit(at)).is(Phase::CancelRequested).on(Event::ClientReturned).is(Phase::CancelRequested);
}

#[test]
fn the_end_of_a_session_ends_a_grace_before_it_begins_and_while_it_runs() {
    let grace = || Op::of(policy(), OnDisconnect::Grace(secs(30)));
    for (op, phase) in [
        (grace(), Phase::NeverCreated),
        (grace().dispatched(), Phase::Dispatched),
        (grace().unknown(), Phase::Unknown),
        (grace().running(), Phase::CancelRequested),
        (grace().running().on(ended(End::Completed)), Phase::Completed),
    ] {
        for op in [op.clone(), op.clone().on(left()).after(secs(9))] {
            let op = op.on(left_by(Cause::SessionEnded)).is(phase).durable();
            assert_eq!((op.row.desired, op.row.cause), (Desired::Cancel, Some(Cause::SessionEnded)));
            assert_eq!((op.row.awaited, op.row.disconnect_at), (false, None));
        }
    }
    grace().orphaned_running().on(left_by(Cause::SessionEnded)).was(Phase::CancelRequested);
}

#[test]
fn the_end_of_a_session_leaves_a_detached_operation_alone() {
    let op = Op::of(policy(), OnDisconnect::Detach).running().on(left_by(Cause::SessionEnded));
    assert_eq!((op.is(Phase::Running).row.desired, false), (Desired::Run, false));
}

#[test]
fn a_client_that_leaves_again_gets_a_new_grace() {
    let grace = || Op::of(policy(), OnDisconnect::Grace(secs(30)));
    for op in [grace(), grace().dispatched(), grace().unknown(), grace().running()] {
        let phase = op.row.phase;
        let op = op.on(left()).after(secs(20)).on(Event::ClientReturned).after(secs(5)).on(left());
        assert_eq!(op.row.disconnect_at, Some(START + secs(55)), "in `{phase}`");
        assert_eq!(op.clone().time_passes(secs(29)).row.desired, Desired::Run);
        let op = op.on(Event::ClientReturned).time_passes(secs(31));
        assert_eq!((op.row.desired, op.row.disconnect_at, op.row.awaited), (Desired::Run, None, true));
    }
}

#[test]
fn an_answer_waits_as_long_as_its_client_may_come_back_however_often() {
    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).running().on(ended(End::Completed));
    let op = op.on(left()).after(secs(20)).on(Event::ClientReturned).after(secs(20)).on(left());
    let op = op.is(Phase::Ended).time_passes(secs(29)).is(Phase::Ended);
    op.clone().on(Event::ClientReturned).on(Event::Delivered).is(Phase::Completed);
    let op = op.time_passes(secs(1)).is(Phase::Completed);
    assert_eq!(op.row.cause, Some(Cause::ClientDisconnected));
}

#[test]
fn somebody_waits_again_for_a_detached_operation_whose_client_is_back() {
    let detached = || Op::of(policy(), OnDisconnect::Detach).running().on(left());
    let op = detached().on(Event::ClientReturned).durable();
    assert!(op.row.awaited);
    op.clone().on(ended(End::Completed)).is(Phase::Ended).on(Event::Delivered).is(Phase::Completed);
    let op = op.on(ended(End::Cancelled)).on(left()).on(Event::ClientReturned).on(ended(End::Cancelled));
    op.is(Phase::Ended).on(left()).is(Phase::Cancelled);
}

#[test]
fn a_client_that_returns_to_what_is_being_cancelled_changes_nothing() {
    let unstoppable = || Policy { can_cancel: false, ..policy() };
    let undoable = || Policy { undo_steps: 1, ..policy() };
    for op in [
        Op::new(policy()).dispatched().on(cancel()),
        Op::new(policy()).unknown().on(cancel()),
        Op::new(policy()).cancel_requested(),
        Op::new(policy()).cancelling(),
        Op::new(policy()).ended_cancelled(),
        Op::new(policy()).orphaned_running().on(cancel()),
        Op::new(unstoppable()).draining(),
        Op::new(undoable()).compensating(),
        Op::new(undoable()).compensation_failed(),
        Op::new(policy()).needs_intervention(),
    ] {
        let before = op.row.clone();
        let op = op.on(Event::ClientReturned).durable();
        assert_eq!(op.row, before);
    }
    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).dispatched().on(cancel()).on(left());
    assert_eq!(op.row.disconnect_at, None, "nobody is waited for");
}

#[test]
fn nobody_is_kept_waiting_for_an_orphan_that_recovers() {
    let op = Op::of(policy(), OnDisconnect::Grace(secs(30))).running().on(left()).on(missing());
    let op = op.after(secs(10)).on(missing()).was(Phase::Running).on(Event::ClientReturned);
    assert_eq!((op.row.awaited, op.row.disconnect_at), (false, None));
    op.on(seen_running()).is(Phase::Running).on(ended(End::Completed)).is(Phase::Completed);
}

#[test]
fn a_client_that_leaves_after_its_answer_cancels_nothing() {
    let op = Op::new(policy()).running().on(ended(End::Cancelled)).on(Event::Delivered).on(left());
    assert_eq!(op.is(Phase::Ended).row.desired, Desired::Run);
}
