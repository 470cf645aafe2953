//! `draining`: it cannot be stopped; it is marked, watched and bounded.

use crate::kit::*;
use countermand_core::{
    Outcome, Phase, Policy, Turn, WhenCompleted,
    event::{Alarm, End, Event, RequestAnswer, Trouble},
};

fn unstoppable() -> Policy {
    Policy { can_cancel: false, ..policy() }
}

fn marked() -> Policy {
    Policy { mark: true, ..unstoppable() }
}

fn mark(answer: RequestAnswer) -> Event {
    Event::MarkAnswered(answer)
}

#[test]
fn the_mark_runs_on_entry() {
    let op = Op::new(marked()).draining().sends(Turn::Mark);
    op.on(mark(RequestAnswer::Done)).is(Phase::Draining).durable().sends(Turn::Status);
}

#[test]
fn a_mark_that_fails_is_tried_again_and_then_left() {
    let mut op = Op::new(marked()).draining();
    for pause in [200, 400, 800, 1600] {
        op = op.on(mark(RequestAnswer::Failed(Trouble::new("503"))));
        op = op.sends_after(Turn::Mark, millis(pause)).after(millis(pause));
    }
    let op = op.on(mark(RequestAnswer::Failed(Trouble::new("503")))).sends(Turn::Status);
    assert!(op.row.last_error.as_ref().is_some_and(|e| e.contains("mark")));
}

#[test]
fn a_refused_mark_is_not_tried_again() {
    let op = Op::new(marked()).draining().on(mark(RequestAnswer::Refused(Trouble::new("400"))));
    op.sends(Turn::Status).refuses(mark(RequestAnswer::Done));
}

#[test]
fn a_terminal_status_ends_it() {
    Op::new(unstoppable()).draining().on(ended(End::Completed)).is(Phase::Completed).sealed();
    Op::new(unstoppable()).draining().on(ended(End::Failed)).is(Phase::Failed).sealed();
    Op::new(unstoppable()).draining().on(ended(End::Cancelled)).is(Phase::Ended);
}

#[test]
fn what_completed_is_undone_or_kept_as_configured() {
    for (when_completed, phase) in
        [(WhenCompleted::Compensate, Phase::Compensating), (WhenCompleted::Keep, Phase::Completed)]
    {
        let policy = Policy { undo_steps: 1, when_completed, ..unstoppable() };
        Op::new(policy).draining().on(ended(End::Completed)).is(phase);
    }
}

#[test]
fn it_is_watched_at_the_pace_of_polls() {
    let op = Op::new(unstoppable()).draining().on(seen_running()).sends_after(Turn::Status, millis(500));
    op.after(secs(30)).on(status_failed()).sends_after(Turn::Status, secs(3));
}

#[test]
fn the_hard_deadline_orphans_it() {
    let op = Op::new(unstoppable()).draining().on(seen_running()).at_second(3599).on(Event::TimePassed);
    let op = op.is(Phase::Draining).time_passes(secs(1)).was(Phase::Draining).alarms(Alarm::Orphaned);
    op.sends(Turn::Status).on(ended(End::Completed)).is(Phase::Completed);
}

#[test]
fn what_enters_after_the_hard_deadline_is_marked_and_then_orphaned() {
    let op = Op::new(marked()).running().at_second(3600).on(Event::TimePassed);
    let op = op.is(Phase::Draining).sends(Turn::Mark).on(mark(RequestAnswer::Done));
    op.on(Event::TimePassed).was(Phase::Draining).sends(Turn::Status);
    Op::new(unstoppable()).running().at_second(3600).on(Event::TimePassed).was(Phase::Draining);
}

#[test]
fn a_mark_that_fails_does_not_put_the_hard_deadline_off() {
    let op = Op::new(marked()).draining().at_second(3600).on(Event::TimePassed).is(Phase::Draining);
    let trouble = Trouble { retry_after: Some(secs(600)), ..Trouble::new("503") };
    let op = op.on(mark(RequestAnswer::Failed(trouble))).on(Event::TimePassed).was(Phase::Draining);
    let op = op.after(secs(600)).sends(Turn::Mark).on(mark(RequestAnswer::Done));
    op.was(Phase::Draining).sends(Turn::Status);
}

#[test]
fn an_id_unknown_for_ten_seconds_is_gone() {
    let op = Op::new(unstoppable()).draining().on(missing()).is(Phase::Draining);
    op.after(secs(10)).on(missing()).is(Phase::Cancelled).outcome(Outcome::Gone);
}

#[test]
fn a_further_cancel_is_history() {
    let op = Op::new(unstoppable()).draining().on(cancel()).on(left()).is(Phase::Draining);
    op.refuses(accepted());
}
