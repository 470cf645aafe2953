//! `cancel_requested` and `cancelling`: a cancel is owed, accepted, confirmed.

use crate::kit::*;
use countermand_core::{
    Cause, Outcome, Phase, Policy, Turn,
    due::Due,
    event::{Alarm, CancelAnswer, End, Event},
};

#[test]
fn an_accepted_cancel_is_a_receipt_and_a_status_read_is_next() {
    let op = Op::new(policy()).cancelling().durable().sends(Turn::Status);
    assert_eq!((op.row.outcome, op.row.attempts), (None, 1));
}

#[test]
fn a_cancel_that_is_not_accepted_is_followed_by_a_status_read_and_tried_again() {
    let op = Op::new(policy()).cancel_requested().on(not_accepted(None)).is(Phase::CancelRequested).durable();
    assert_eq!(op.row.attempts, 1);
    let op = op.sends(Turn::Status).on(seen_running()).is(Phase::CancelRequested);
    let op = op.sends_after(Turn::Cancel, millis(200)).after(millis(200)).on(not_accepted(None));
    let op = op.sends(Turn::Status).on(status_failed()).sends_after(Turn::Cancel, millis(400));
    op.after(millis(400)).on(accepted()).is(Phase::Cancelling);
}

#[test]
fn a_status_read_between_two_tries_can_end_it() {
    for (end, phase) in [(End::Completed, Phase::Completed), (End::Failed, Phase::Failed)] {
        Op::new(policy()).cancel_requested().on(not_accepted(None)).on(ended(end)).is(phase).sealed();
    }
}

#[test]
fn retries_double_up_to_two_seconds_in_the_first_minute_and_sixty_later() {
    let confirm_within = secs(10_000);
    let mut op = Op::new(Policy { confirm_within, ..policy() }).cancel_requested();
    for pause in [200, 400, 800, 1600, 2000, 2000] {
        op = op.on(not_accepted(None)).on(seen_running()).sends_after(Turn::Cancel, millis(pause));
        op = op.after(millis(pause));
    }
    op = op.at_second(61).on(not_accepted(None)).on(seen_running()).sends_after(Turn::Cancel, millis(12_800));
    op = op.after(secs(13)).on(not_accepted(None)).on(seen_running()).after(secs(26)).on(not_accepted(None));
    op.on(seen_running()).sends_after(Turn::Cancel, millis(51_200));
}

#[test]
fn retry_after_wins() {
    let op = Op::new(policy()).cancel_requested().on(not_accepted(Some(secs(20)))).on(seen_running());
    op.sends_after(Turn::Cancel, secs(20));
}

#[test]
fn a_retry_after_of_zero_makes_no_storm() {
    let op = Op::new(policy()).cancel_requested().on(not_accepted(Some(secs(0)))).on(seen_running());
    op.sends_after(Turn::Cancel, millis(200));
}

#[test]
fn refused_credentials_orphan_at_once_and_are_not_tried_fast() {
    let answer = Event::CancelAnswered(CancelAnswer::NotAccepted(unauthorised()));
    let op = Op::new(policy()).cancel_requested().on(answer).was(Phase::CancelRequested);
    let op = op.alarms(Alarm::Unauthorised).alarms(Alarm::Orphaned).sends(Turn::Status);
    op.on(seen_running()).sends_after(Turn::Cancel, secs(60));
}

#[test]
fn without_a_confirmation_in_time_it_is_orphaned_and_the_retries_go_on() {
    let op = Op::new(policy()).cancel_requested().on(not_accepted(None)).on(seen_running());
    let op = op.after(secs(29)).on(Event::TimePassed).is(Phase::CancelRequested);
    let op = op.time_passes(secs(1)).was(Phase::CancelRequested).alarms(Alarm::Orphaned);
    assert_eq!(op.row.attempts, 1, "attempts go on");
    op.sends(Turn::Cancel);
    let op = Op::new(policy()).cancelling().on(seen_running()).time_passes(secs(30));
    op.was(Phase::Cancelling).sends(Turn::Status);
}

#[test]
fn a_terminal_status_confirms() {
    let op = Op::new(policy()).cancelling().on(ended(End::Cancelled)).is(Phase::Ended);
    op.outcome(Outcome::Cancelled).durable().sends_after(Turn::Status, secs(1));
    let op = Op::new(policy()).cancelling().on(ended(End::Completed)).is(Phase::Completed);
    op.outcome(Outcome::Completed).sealed();
    Op::new(policy()).cancelling().on(ended(End::Failed)).is(Phase::Failed).sealed();
}

#[test]
fn an_id_unknown_for_ten_seconds_is_gone() {
    let op = Op::new(policy()).cancelling().on(missing()).is(Phase::Cancelling).durable();
    let op = op.after(millis(9_999)).on(missing()).is(Phase::Cancelling);
    op.after(millis(1)).on(missing()).is(Phase::Cancelled).outcome(Outcome::Gone).sealed();
}

#[test]
fn what_still_runs_is_cancelled_again_on_the_retry_schedule() {
    let op = Op::new(policy()).cancelling().on(seen_running()).sends_after(Turn::Status, millis(200));
    let op = op.after(secs(1)).on(seen_running()).sends(Turn::Cancel).on(accepted()).is(Phase::Cancelling);
    assert_eq!(op.row.attempts, 2);
    op.sends(Turn::Status).on(seen_running()).after(secs(1)).on(seen_running()).sends(Turn::Cancel);
}

#[test]
fn a_resend_that_is_not_accepted_leaves_it_accepted() {
    let op = Op::new(policy()).cancelling().on(seen_running()).after(secs(1)).on(not_accepted(None));
    op.is(Phase::Cancelling).sends(Turn::Status);
}

#[test]
fn a_state_that_may_be_about_to_stop_defers_the_resend() {
    let op = Op::new(policy()).cancelling();
    assert_eq!(op.row.cancel_at, Some(START + secs(1)));
    let op = op.after(millis(900)).on(seen("stopping", false)).is(Phase::Cancelling);
    assert_eq!(op.row.cancel_at, Some(START + millis(1900)));
}

#[test]
fn force_is_used_from_its_time_on() {
    let force_after = Some(secs(10));
    let mut op = Op::new(Policy { force_after, confirm_within: secs(300), ..policy() }).cancelling();
    let mut sent = Vec::new();
    while op.at < START + secs(20) {
        let at = op.at;
        op = match op.due() {
            Due::Send(Turn::Status) => op.on(seen_running()),
            Due::Send(turn) => {
                sent.push((turn, op.at));
                op.on(accepted())
            }
            Due::Later(Some(next)) => op.after(next.since(at)),
            other => panic!("{other:?}"),
        };
    }
    let from = START + secs(10);
    assert!(sent.iter().all(|(turn, at)| (*turn == Turn::Force) == (*at >= from)), "{sent:?}");
    assert!(sent.iter().any(|(turn, at)| *turn == Turn::Force && *at < from + secs(1)), "{sent:?}");
    assert!((8..20).contains(&sent.len()), "{sent:?}");
}

#[test]
fn no_pause_of_ours_puts_the_force_off() {
    let policy = Policy { force_after: Some(secs(100)), confirm_within: secs(300), ..policy() };
    let mut op = Op::new(policy).cancelling().at_second(61);
    for _ in 0..9 {
        op = op.on(accepted());
    }
    assert_eq!(op.row.cancel_at, Some(START + secs(100)));
}

#[test]
fn a_cancel_that_is_sent_late_is_the_forced_one() {
    let policy = Policy { force_after: Some(secs(10)), confirm_within: secs(300), ..policy() };
    Op::new(policy).cancel_requested().at_second(12).sends(Turn::Force);
}

#[test]
fn further_wishes_are_history_and_the_first_cause_stays() {
    let first =
        Event::CancelWanted { cause: Cause::ClientCancelled, reason: Some("too dear".into()), note: None };
    let op = Op::new(policy()).running().on(first).on(cancel()).on(left()).is(Phase::CancelRequested);
    let op = op.on(accepted()).on(cancel_by(Cause::Deadline)).durable().on(left()).is(Phase::Cancelling);
    assert_eq!((op.row.cause, op.row.reason.as_deref()), (Some(Cause::ClientCancelled), Some("too dear")));
}

#[test]
fn what_an_operator_notes_is_history_and_no_reason() {
    let event = Event::CancelWanted { cause: Cause::Operator, reason: None, note: Some("too dear".into()) };
    assert_eq!(event.note().as_deref(), Some("operator: too dear"));
    let op = Op::new(policy()).running().on(event.clone()).is(Phase::CancelRequested).durable();
    assert_eq!((op.row.cause, op.row.reason.clone()), (Some(Cause::Operator), None));
    // One who comes after somebody else is in the history as well.
    let op = Op::new(policy()).running().on(cancel()).on(event).is(Phase::CancelRequested).durable();
    assert_eq!((op.row.cause, op.row.reason), (Some(Cause::ClientCancelled), None));
}

#[test]
fn a_cancel_that_nothing_can_verify_is_sent_once_and_settled_as_such_after_a_while() {
    let op = Op::forwarded(None).sends(Turn::Cancel).on(accepted()).is(Phase::Cancelling).sends(Turn::Status);
    let op = op.on(seen_running()).at_second(9).on(Event::TimePassed).is(Phase::Cancelling);
    assert_eq!(op.row.cancel_at, None);
    let op = op.at_second(10).on(Event::TimePassed).is(Phase::Unverified).sealed().quiet();
    assert_eq!((op.row.outcome, op.row.attempts), (None, 1));
}

#[test]
fn a_late_answer_of_a_server_shows_that_it_ran_on_and_its_death_that_it_stopped() {
    let op = Op::forwarded(None).on(accepted()).on(ended(End::Completed)).is(Phase::Completed).sealed();
    op.outcome(Outcome::Completed);
    Op::forwarded(None).on(accepted()).on(ended(End::Cancelled)).is(Phase::Cancelled).sealed();
}

#[test]
fn a_server_that_says_nothing_is_ended_by_force_where_that_is_wanted() {
    let op = Op::forwarded(Some(secs(10))).on(accepted()).on(seen_running()).at_second(9);
    assert_ne!(op.due(), Due::Send(Turn::Force));
    let op = op.at_second(10).on(seen_running()).sends(Turn::Force).on(accepted()).sends(Turn::Status);
    op.clone().on(ended(End::Cancelled)).is(Phase::Cancelled).sealed();
    // It may have to wait for others' calls; that is bounded as well.
    let op = op.on(not_accepted(None)).is(Phase::Cancelling);
    op.at_second(20).on(Event::TimePassed).is(Phase::Unverified).sealed();
}

#[test]
fn a_cancel_that_could_not_be_forwarded_is_an_orphan_until_it_is() {
    let op = Op::forwarded(None).on(not_accepted(None)).is(Phase::CancelRequested);
    let op = op.at_second(10).on(Event::TimePassed).was(Phase::CancelRequested).alarms(Alarm::Orphaned);
    op.on(accepted()).is(Phase::Unverified).sealed();
}
