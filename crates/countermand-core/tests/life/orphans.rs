//! `orphaned`, `needs_intervention`, and what an operator can do.

use crate::kit::*;
use countermand_core::{
    Outcome, Phase, Policy, Turn, Verdict,
    due::Due,
    event::{Alarm, End, Event},
};

fn resolve() -> Event {
    Event::Resolved { verdict: Verdict::Stopped, note: "looked".into() }
}

#[test]
fn an_orphan_keeps_doing_what_it_owed_and_success_takes_that_road() {
    let op = Op::new(policy()).orphaned_running().sends_after(Turn::Status, secs(1));
    op.clone().on(seen_running()).is(Phase::Running).sends_after(Turn::Status, millis(500));
    op.clone().on(status_failed()).was(Phase::Running);
    op.on(ended(End::Completed)).is(Phase::Completed).outcome(Outcome::Completed);

    let op = Op::new(policy()).orphaned_unknown();
    let at = op.at;
    op.clone().on(miss(at)).is(Phase::Failed);
    op.clone().on(hit(at)).is(Phase::Running);
    op.on(find_failed(at)).was(Phase::Unknown);
}

#[test]
fn progress_within_the_debt_leaves_it_late() {
    let op = Op::new(policy()).cancel_requested().on(not_accepted(None)).time_passes(secs(30));
    let op = op.was(Phase::CancelRequested);
    let since = op.row.phase_since;
    let op = op.after(secs(5)).on(accepted()).was(Phase::Cancelling).durable().quiet();
    assert_eq!(op.row.phase_since, since, "24 h count from when it became one");
    let op = op.on(ended(End::Cancelled)).is(Phase::Ended);
    op.after(secs(1)).on(ended(End::Cancelled)).is(Phase::Cancelled);
}

#[test]
fn what_is_found_late_is_cancelled_if_that_is_wanted() {
    let op = Op::new(policy()).unknown().on(cancel()).time_passes(secs(90)).was(Phase::Unknown);
    let at = op.at;
    let op = op.on(hit(at)).is(Phase::CancelRequested).sends(Turn::Cancel);
    assert_eq!(op.row.cancel_requested_at, Some(at));
}

#[test]
fn a_cancel_turns_an_orphan_that_ran_into_one_that_is_cancelled() {
    let op = Op::new(policy()).orphaned_running();
    let since = op.row.phase_since;
    let op = op.after(secs(3)).on(cancel()).was(Phase::CancelRequested).sends(Turn::Cancel);
    assert_eq!((op.row.phase_since, op.row.cancel_requested_at), (since, Some(op.at)));
    let op = op.on(accepted()).was(Phase::Cancelling).on(missing()).after(secs(10)).on(missing());
    op.is(Phase::Cancelled).outcome(Outcome::Gone);
    let unstoppable = Policy { can_cancel: false, mark: true, ..policy() };
    Op::new(unstoppable).orphaned_running().on(cancel()).was(Phase::Draining).sends(Turn::Mark);
}

#[test]
fn the_hard_deadline_holds_for_an_orphan_too() {
    let op = Op::new(policy()).orphaned_running().at_second(3600).on(Event::TimePassed);
    op.was(Phase::CancelRequested).sends(Turn::Cancel);
}

#[test]
fn after_a_day_it_needs_an_operator() {
    let op = Op::new(policy()).orphaned_unknown().time_passes(secs(24 * 3600 - 1)).is(Phase::Orphaned);
    let op = op.time_passes(secs(1)).is(Phase::NeedsIntervention).alarms(Alarm::NeedsIntervention);
    assert_eq!((op.row.was, op.row.next_at, op.due()), (Some(Phase::Unknown), None, Due::Nothing));
}

#[test]
fn a_retry_makes_it_an_orphan_again_due_now_for_another_day() {
    let op = Op::new(policy()).needs_intervention().after(secs(9)).on(Event::RetryWanted);
    let op = op.was(Phase::Unknown).durable().sends(Turn::Find);
    assert_eq!(op.row.phase_since, op.at);
    let op = Op::new(policy()).cancel_requested().time_passes(secs(30)).time_passes(secs(24 * 3600));
    let op = op.is(Phase::NeedsIntervention).on(Event::RetryWanted).was(Phase::CancelRequested);
    op.sends(Turn::Cancel);
}

#[test]
fn a_retry_is_legal_only_where_an_operator_is_awaited() {
    for op in [
        Op::new(policy()),
        Op::new(policy()).dispatched(),
        Op::new(policy()).unknown(),
        Op::new(policy()).running(),
        Op::new(policy()).cancelling(),
        Op::new(policy()).orphaned_running(),
        Op::new(policy()).on(cancel()),
    ] {
        op.refuses(Event::RetryWanted);
    }
}

#[test]
fn an_operators_word_settles_what_we_could_not() {
    let undoable = Policy { undo_steps: 1, ..policy() };
    for op in [
        Op::new(policy()).unknown(),
        Op::new(Policy { can_cancel: false, ..policy() }).draining(),
        Op::new(policy()).orphaned_running(),
        Op::new(policy()).needs_intervention(),
        Op::new(undoable).compensation_failed(),
    ] {
        op.on(resolve()).is(Phase::Resolved).durable().sealed();
    }
}

#[test]
fn an_operators_word_is_not_asked_where_we_still_can() {
    for op in [
        Op::new(policy()),
        Op::new(policy()).dispatched(),
        Op::new(policy()).running(),
        Op::new(policy()).cancel_requested(),
        Op::new(policy()).cancelling(),
        Op::new(policy()).ended_cancelled(),
        Op::new(Policy { undo_steps: 1, ..policy() }).compensating(),
        Op::new(policy()).on(cancel()),
    ] {
        op.refuses(resolve());
    }
}

#[test]
fn a_cancel_while_an_operator_is_awaited_is_kept_for_the_retry() {
    // An orphan that was `running` for a day has met its hard deadline, unless that is longer.
    let long = Policy { lifetime: secs(7 * 24 * 3600), ..policy() };
    let op = Op::new(long).orphaned_running().time_passes(secs(24 * 3600)).is(Phase::NeedsIntervention);
    let op = op.on(cancel()).is(Phase::NeedsIntervention);
    assert!(op.row.cancel_wanted());
    op.on(Event::RetryWanted).was(Phase::CancelRequested).sends(Turn::Cancel);
}

#[test]
fn an_orphan_whose_call_was_told_does_not_wait_for_a_delivery_when_it_is_back() {
    let op = Op::new(policy()).orphaned_running().on(seen_running()).is(Phase::Running);
    op.on(ended(End::Completed)).is(Phase::Completed).sealed();
}
