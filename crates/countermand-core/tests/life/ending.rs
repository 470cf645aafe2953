//! `ended`: the confirming read, and the delivery.

use crate::kit::*;
use countermand_core::{
    Cause, Desired, Kind, OnDisconnect, Outcome, Phase, Policy, Turn, WhenCompleted,
    event::{Alarm, End, Event},
};

#[test]
fn cancelled_over_http_is_read_once_more_after_a_second() {
    Op::new(policy()).ended_cancelled().outcome(Outcome::Cancelled).sends_after(Turn::Status, secs(1));
}

#[test]
fn a_second_cancelled_or_an_unknown_id_confirms() {
    for answer in [ended(End::Cancelled), missing()] {
        let op = Op::new(policy()).ended_cancelled().after(secs(1)).on(answer).is(Phase::Cancelled);
        op.outcome(Outcome::Cancelled).durable().sealed();
    }
}

#[test]
fn another_terminal_state_replaces_the_outcome() {
    for (end, outcome, phase) in [
        (End::Completed, Outcome::Completed, Phase::Completed),
        (End::Failed, Outcome::Failed, Phase::Failed),
    ] {
        let op = Op::new(policy()).ended_cancelled().after(secs(1)).on(ended(end)).is(phase);
        op.outcome(outcome).alarms(Alarm::TookBack).sealed();
    }
}

#[test]
fn what_runs_again_is_cancelled_again() {
    let op = Op::new(policy()).ended_cancelled().after(secs(1)).on(seen_running()).is(Phase::Cancelling);
    let op = op.alarms(Alarm::TookBack).sends(Turn::Cancel);
    assert_eq!((op.row.outcome, op.row.ended_seen_at), (None, None));
    let op = op.on(accepted()).on(ended(End::Cancelled)).after(secs(1)).on(ended(End::Cancelled));
    op.is(Phase::Cancelled);
}

#[test]
fn what_runs_again_and_nobody_wanted_cancelled_runs() {
    let op = Op::new(policy()).running().on(ended(End::Cancelled)).after(secs(1)).on(seen_running());
    op.is(Phase::Running).alarms(Alarm::TookBack);
}

#[test]
fn what_runs_again_and_cannot_be_stopped_drains() {
    let op = Op::new(Policy { can_cancel: false, ..policy() }).draining().on(ended(End::Cancelled));
    op.is(Phase::Ended).after(secs(1)).on(seen_running()).is(Phase::Draining);
}

#[test]
fn without_an_answer_the_read_is_retried_and_then_orphaned() {
    let op = Op::new(policy()).ended_cancelled().after(secs(1)).on(status_failed()).is(Phase::Ended);
    let op = op.sends_after(Turn::Status, millis(200)).on(status_failed()).at_second(30);
    let op = op.on(Event::TimePassed).was(Phase::Ended).alarms(Alarm::Orphaned).sends(Turn::Status);
    op.clone().on(ended(End::Cancelled)).is(Phase::Cancelled);
    op.clone().on(seen_running()).was(Phase::Cancelling).sends(Turn::Cancel);
    op.on(ended(End::Completed)).is(Phase::Completed).alarms(Alarm::TookBack);
}

#[test]
fn the_word_of_a_database_or_a_kernel_is_final() {
    for kind in [Kind::Sql, Kind::Command, Kind::Steps, Kind::Mcp] {
        let op = Op::new(Policy { kind, ..policy() }).cancel_requested().on(ended(End::Cancelled));
        op.is(Phase::Cancelled).sealed();
    }
}

#[test]
fn completed_waits_for_its_delivery() {
    let op = Op::new(policy()).running().on(ended(End::Completed)).is(Phase::Ended);
    assert_eq!(op.row.next_at, None);
    let op = op.after(secs(2)).on(Event::Delivered).is(Phase::Completed).sealed();
    assert_eq!(op.row.delivered_at, Some(START + secs(2)));
}

#[test]
fn the_hard_deadline_is_over_with_the_end() {
    let op = Op::new(policy()).running().on(ended(End::Completed)).at_second(3600).on(Event::TimePassed);
    assert_eq!((op.row.phase, op.row.desired), (Phase::Ended, Desired::Run));
}

#[test]
fn a_cancel_before_the_delivery_wins_the_race_for_the_answer() {
    for (when_completed, phase) in
        [(WhenCompleted::Compensate, Phase::Compensating), (WhenCompleted::Keep, Phase::Completed)]
    {
        let op = Op::new(Policy { undo_steps: 1, when_completed, ..policy() });
        let op = op.running().on(ended(End::Completed)).on(cancel()).is(phase);
        assert_eq!((op.row.desired, op.row.delivered_at), (Desired::Cancel, None));
    }
}

#[test]
fn a_cancel_after_the_delivery_is_ignored() {
    let op = Op::new(policy()).running().on(ended(End::Cancelled)).on(Event::Delivered);
    let op = op.on(cancel()).is(Phase::Ended);
    assert_eq!((op.row.desired, op.row.cause), (Desired::Run, None));
    Op::new(policy()).running().on(ended(End::Completed)).on(Event::Delivered).refuses(cancel());
}

#[test]
fn a_client_that_leaves_before_its_answer_is_a_cancel_by_its_policy() {
    let end = |policy| Op::of(self::policy(), policy).running().on(ended(End::Completed));
    let op = end(OnDisconnect::Cancel).on(left()).is(Phase::Completed);
    assert_eq!(op.row.cause, Some(Cause::ClientDisconnected));
    let op = end(OnDisconnect::Detach).on(left()).is(Phase::Completed);
    assert_eq!(op.row.desired, Desired::Run);
    let op = end(OnDisconnect::Grace(secs(30))).on(left()).is(Phase::Ended);
    op.clone().after(secs(9)).on(Event::ClientReturned).time_passes(secs(60)).is(Phase::Ended);
    let op = op.time_passes(secs(30)).is(Phase::Completed);
    assert_eq!(op.row.cause, Some(Cause::ClientDisconnected));
}

#[test]
fn an_end_after_a_cancel_owes_no_delivery() {
    Op::new(policy()).cancelling().on(ended(End::Completed)).is(Phase::Completed).refuses(Event::Delivered);
}
