//! `running`: the upstream works, and is asked how far it is.

use crate::kit::*;
use countermand_core::{
    Cause, Desired, Outcome, Phase, Policy, Turn,
    event::{Alarm, End, Event, StatusAnswer, Trouble},
};

#[test]
fn a_terminal_status_ends_it() {
    for (end, outcome, settled) in [
        (End::Completed, Outcome::Completed, Phase::Completed),
        (End::Failed, Outcome::Failed, Phase::Failed),
    ] {
        let op = Op::new(policy()).running().on(ended(end)).is(Phase::Ended).outcome(outcome).durable();
        op.on(Event::Delivered).is(settled).sealed();
    }
}

#[test]
fn a_job_that_was_cancelled_by_others_is_read_once_more_too() {
    let op = Op::new(policy()).running().on(ended(End::Cancelled)).is(Phase::Ended);
    let op = op.sends_after(Turn::Status, secs(1)).on(Event::Delivered).is(Phase::Ended);
    op.on(ended(End::Cancelled)).is(Phase::Cancelled).sealed();
}

#[test]
fn a_cancel_is_owed_from_now_on() {
    let op = Op::new(policy()).running().after(secs(5)).on(cancel()).is(Phase::CancelRequested).durable();
    assert_eq!(op.row.cancel_requested_at, Some(START + secs(5)));
    op.sends(Turn::Cancel);
}

#[test]
fn what_cannot_be_stopped_drains() {
    let op = Op::new(Policy { can_cancel: false, ..policy() }).draining().durable().sends(Turn::Status);
    assert_eq!(op.row.cancel_requested_at, None);
}

#[test]
fn an_id_unknown_for_ten_seconds_orphans_it() {
    let op = Op::new(policy()).running().on(missing()).is(Phase::Running).durable();
    let op = op.after(millis(9_999)).on(missing()).is(Phase::Running);
    let op = op.after(millis(1)).on(missing()).was(Phase::Running).alarms(Alarm::Orphaned);
    assert!(!op.row.awaited, "its call has failed");
    assert!(op.row.last_error.as_ref().is_some_and(|e| e.contains("10 s")));
}

#[test]
fn an_id_that_is_known_again_is_not_missing() {
    let op = Op::new(policy()).running().on(missing()).after(secs(9)).on(seen_running()).durable();
    op.after(secs(9)).on(missing()).is(Phase::Running).quiet();
}

#[test]
fn a_failed_read_changes_nothing_but_the_schedule() {
    let op = Op::new(policy()).running().on(status_failed()).is(Phase::Running).quiet();
    op.sends_after(Turn::Status, millis(500));
}

#[test]
fn polls_slow_down_with_age_up_to_their_bound() {
    for (age, pause) in [(1, millis(500)), (20, secs(2)), (3000, secs(10))] {
        let op = Op::new(policy()).running().after(secs(age)).on(seen_running());
        op.sends_after(Turn::Status, pause);
    }
}

#[test]
fn retry_after_delays_the_next_read() {
    let answer = StatusAnswer::Running {
        state: "queued".into(),
        listed: true,
        retry_after: Some(secs(25)),
        saved: serde_json::Map::new(),
    };
    let op = Op::new(policy()).running().on(Event::StatusAnswered(answer));
    op.sends_after(Turn::Status, secs(25));
    let answer = StatusAnswer::Failed(Trouble { retry_after: Some(secs(9)), ..Trouble::new("503") });
    Op::new(policy()).running().on(Event::StatusAnswered(answer)).sends_after(Turn::Status, secs(9));
}

#[test]
fn an_unlisted_state_is_no_end_and_is_shown() {
    let op = Op::new(policy()).running().on(seen("paused", false)).is(Phase::Running);
    assert!(op.row.last_error.as_ref().is_some_and(|e| e.contains("`paused`")));
}

#[test]
fn refused_credentials_are_told_once_and_not_asked_fast() {
    let refused = || Event::StatusAnswered(StatusAnswer::Failed(unauthorised()));
    let op = Op::new(policy()).running().on(refused()).alarms(Alarm::Unauthorised);
    let op = op.sends_after(Turn::Status, secs(60)).after(secs(60)).on(refused()).quiet();
    op.is(Phase::Running);
}

#[test]
fn the_hard_deadline_cancels_without_any_client() {
    let op = Op::new(policy()).running().at_second(3600).on(Event::TimePassed).is(Phase::CancelRequested);
    assert_eq!((op.row.desired, op.row.cause), (Desired::Cancel, Some(Cause::Deadline)));
}

#[test]
fn the_hard_deadline_is_never_moved() {
    let deadline = Op::new(policy()).row.hard_deadline;
    assert_eq!(Op::new(policy()).running().after(secs(9)).on(taken_over()).row.hard_deadline, deadline);
    assert_eq!(Op::new(policy()).ended_cancelled().row.hard_deadline, deadline);
}

#[test]
fn what_status_saves_is_kept_and_durable_when_it_changes() {
    let saved = |url: &str| {
        let mut saved = serde_json::Map::new();
        saved.insert("url".into(), url.into());
        let answer =
            StatusAnswer::Running { state: "running".into(), listed: true, retry_after: None, saved };
        Event::StatusAnswered(answer)
    };
    let op = Op::new(policy()).running().on(saved("/1")).durable().on(saved("/1"));
    assert!(op.effects.is_empty());
    assert_eq!(op.on(saved("/2")).durable().row.detail["url"], "/2");
}
