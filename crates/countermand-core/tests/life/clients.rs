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
        assert_eq!((op.row.desired, op.row.cause), (Desired::Cancel, Some(Cause::SessionEnded)));
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
    let first = || Event::CancelWanted { cause: Cause::Shutdown, reason: Some("first".into()) };
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
    op.on(hit(at)).is(Phase::CancelRequested).refuses(Event::ClientReturned);
}
