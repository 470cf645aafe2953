//! `compensating`: undo requests in order, each with its own durable key, never before the end.

use crate::kit::*;
use countermand_core::{
    Outcome, Phase, Policy, Turn, WhenCompleted,
    due::Due,
    event::{Alarm, End, Event, RequestAnswer, Trouble},
};
use std::collections::BTreeSet;

fn undoable(undo_steps: u32) -> Policy {
    Policy { undo_steps, ..policy() }
}

fn failed() -> Event {
    Event::UndoAnswered(RequestAnswer::Failed(Trouble::new("503")))
}

fn refused() -> Event {
    Event::UndoAnswered(RequestAnswer::Refused(Trouble::new("400")))
}

#[test]
fn an_undo_is_owed_after_every_end_but_a_completion_that_stays() {
    let cancelled = Op::new(undoable(1)).ended_cancelled().after(secs(1)).on(ended(End::Cancelled));
    cancelled.is(Phase::Compensating).outcome(Outcome::Cancelled).sends(Turn::Undo);
    let gone = Op::new(undoable(1)).cancelling().on(missing()).after(secs(10)).on(missing());
    gone.is(Phase::Compensating).outcome(Outcome::Gone);
    Op::new(undoable(1)).running().on(ended(End::Failed)).is(Phase::Compensating).outcome(Outcome::Failed);
    Op::new(undoable(1)).cancelling().on(ended(End::Completed)).is(Phase::Compensating);
    let keep = Policy { when_completed: WhenCompleted::Keep, ..undoable(1) };
    Op::new(keep).cancelling().on(ended(End::Completed)).is(Phase::Completed);
    Op::new(undoable(1)).running().on(ended(End::Completed)).on(Event::Delivered).is(Phase::Completed);
}

#[test]
fn nothing_is_undone_before_the_end_is_confirmed() {
    Op::new(undoable(1)).cancelling().refuses(undone());
    Op::new(undoable(1)).ended_cancelled().sends_after(Turn::Status, secs(1)).refuses(undone());
}

#[test]
fn what_was_never_made_has_nothing_to_undo() {
    Op::new(undoable(1)).on(cancel()).is(Phase::NeverCreated);
    Op::new(undoable(1)).dispatched().on(crate::kit::refused()).is(Phase::Failed);
}

#[test]
fn the_requests_run_in_order_each_with_a_fresh_durable_key() {
    let mut op = Op::new(undoable(3)).compensating().durable();
    let mut keys = BTreeSet::from([op.row.key]);
    for next in 0..3 {
        assert_eq!(op.row.undo_next, next);
        assert!(keys.insert(op.row.undo_key.expect("a key of its own")));
        op = op.sends(Turn::Undo).on(undone()).durable();
    }
    op.is(Phase::Compensated).sealed();
}

#[test]
fn an_undo_that_fails_is_tried_again_with_the_same_key() {
    let op = Op::new(undoable(2)).compensating().on(undone());
    let key = op.row.undo_key;
    let op = op.on(failed()).is(Phase::Compensating).durable().sends_after(Turn::Undo, millis(200));
    assert_eq!((op.row.undo_key, op.row.undo_next), (key, 1));
    let throttled = Trouble { retry_after: Some(secs(8)), ..Trouble::new("429") };
    let op = op.on(Event::UndoAnswered(RequestAnswer::Failed(throttled)));
    op.sends_after(Turn::Undo, secs(8));
}

#[test]
fn a_refused_undo_is_for_an_operator() {
    let op = Op::new(undoable(2)).compensating().on(undone());
    let key = op.row.undo_key;
    let op = op.on(refused()).is(Phase::CompensationFailed).alarms(Alarm::CompensationFailed);
    assert_eq!((op.row.undo_key, op.row.undo_next), (key, 1));
    assert_eq!((op.due(), op.row.next_at), (Due::Nothing, None));
}

#[test]
fn an_undo_that_fails_for_a_day_is_for_an_operator() {
    let op = Op::new(undoable(1)).compensating().on(failed()).time_passes(secs(24 * 3600 - 1));
    let op = op.is(Phase::Compensating).time_passes(secs(1)).is(Phase::CompensationFailed);
    op.alarms(Alarm::CompensationFailed);
}

#[test]
fn an_operators_retry_goes_on_where_it_stopped() {
    let op = Op::new(undoable(2)).compensating().on(undone());
    let key = op.row.undo_key;
    let op = op.on(refused()).after(secs(99)).on(Event::RetryWanted).is(Phase::Compensating).durable();
    assert_eq!((op.row.undo_key, op.row.undo_next), (key, 1));
    op.sends(Turn::Undo).on(undone()).is(Phase::Compensated);
}

#[test]
fn a_crash_between_two_requests_goes_on_at_the_durable_one() {
    let op = Op::new(undoable(2)).compensating().on(undone()).on(failed());
    let key = op.row.undo_key;
    let op = op.on(taken_over()).is(Phase::Compensating).sends(Turn::Undo);
    assert_eq!((op.row.undo_key, op.row.undo_next, op.row.attempts), (key, 1, 1));
}

#[test]
fn clients_and_deliveries_do_not_disturb_it() {
    let op = Op::new(undoable(1)).running().on(ended(End::Failed)).is(Phase::Compensating);
    let op = op.on(Event::Delivered).on(left()).on(Event::ClientReturned).on(cancel());
    let op = op.is(Phase::Compensating).sends(Turn::Undo);
    assert!(!op.row.cancel_wanted(), "the answer was delivered before");
}
