//! Every pair of a phase and an event is a transition or a typed error, and this is which.

use crate::kit::*;
use countermand_core::{
    Phase, Policy, Verdict,
    event::{End, Event, RequestAnswer},
};
use std::fmt::Write;

fn events(at: countermand_core::Timestamp) -> Vec<(&'static str, Event)> {
    vec![
        ("create_started", Event::CreateStarted),
        ("create_answered", lost()),
        ("find_answered", find_failed(at)),
        ("status_answered", status_failed()),
        ("cancel_answered", accepted()),
        ("mark_answered", Event::MarkAnswered(RequestAnswer::Done)),
        ("undo_answered", undone()),
        ("cancel_wanted", cancel()),
        ("client_left", left()),
        ("client_returned", Event::ClientReturned),
        ("delivered", Event::Delivered),
        ("taken_over", taken_over()),
        ("held_up", Event::HeldUp { why: String::new() }),
        ("time_passed", Event::TimePassed),
        ("resolved", Event::Resolved { verdict: Verdict::Ignored, note: String::new() }),
        ("retry_wanted", Event::RetryWanted),
    ]
}

/// One row per phase, and where it matters per what is in flight or owed there.
fn rows() -> Vec<(&'static str, Op)> {
    let undoable = || Policy { undo_steps: 1, ..policy() };
    let unstoppable = || Policy { can_cancel: false, ..policy() };
    let marked = || Policy { mark: true, ..unstoppable() };
    let settled = |phase| {
        let mut op = Op::new(policy()).on(cancel());
        op.row.phase = phase;
        op
    };
    vec![
        ("intent", Op::new(policy())),
        ("dispatched", Op::new(policy()).dispatched()),
        ("dispatched, retry", Op::new(policy()).dispatched().on(not_sent())),
        ("unknown, replay", Op::new(policy()).unknown()),
        ("unknown, replaying", Op::new(policy()).unknown().on(Event::CreateStarted)),
        ("unknown, find", Op::new(policy()).unknown().on(cancel())),
        ("running", Op::new(policy()).running()),
        ("cancel_requested", Op::new(policy()).cancel_requested()),
        ("cancelling", Op::new(policy()).cancelling()),
        ("draining", Op::new(unstoppable()).draining()),
        ("draining, mark", Op::new(marked()).draining()),
        ("ended", Op::new(policy()).running().on(ended(End::Completed))),
        ("ended, confirming", Op::new(policy()).ended_cancelled()),
        ("compensating", Op::new(undoable()).compensating()),
        ("orphaned, unknown", Op::new(Policy { key_window: None, ..policy() }).orphaned_unknown()),
        ("orphaned, running", Op::new(policy()).orphaned_running()),
        ("orphaned, cancel_requested", Op::new(policy()).orphaned_running().on(cancel())),
        ("orphaned, cancelling", Op::new(policy()).cancelling().time_passes(secs(30))),
        ("orphaned, draining", Op::new(unstoppable()).orphaned_running().on(cancel())),
        ("orphaned, ended", Op::new(policy()).ended_cancelled().time_passes(secs(30))),
        ("completed", settled(Phase::Completed)),
        ("failed", settled(Phase::Failed)),
        ("cancelled", settled(Phase::Cancelled)),
        ("never_created", settled(Phase::NeverCreated)),
        ("compensated", settled(Phase::Compensated)),
        ("unverified", settled(Phase::Unverified)),
        ("resolved", settled(Phase::Resolved)),
        ("needs_intervention", Op::new(policy()).needs_intervention()),
        ("compensation_failed", Op::new(undoable()).compensation_failed()),
    ]
}

#[test]
fn every_phase_has_an_answer_to_every_event() {
    let mut table = String::new();
    for (name, op) in rows() {
        let phase = name.split(',').next().expect("a phase");
        assert_eq!(op.row.phase.as_str(), phase, "the row is what it is named");
        let legal: Vec<_> =
            events(op.at).into_iter().filter(|(_, e)| op.clone().try_on(e.clone())).map(|(n, _)| n).collect();
        writeln!(table, "{}", format!("{name}: {}", legal.join(" ")).trim_end()).expect("a string");
    }
    assert_eq!(table.trim(), EXPECTED.trim(), "\n{table}");
}

#[test]
fn every_phase_is_in_the_table() {
    for &phase in Phase::ALL {
        assert!(rows().iter().any(|(_, op)| op.row.phase == phase), "{phase}");
    }
}

#[test]
fn an_illegal_event_says_what_and_where() {
    let error = countermand_core::step(Op::new(policy()).row, Event::Delivered, Default::default())
        .expect_err("nothing to deliver");
    assert_eq!(error.to_string(), "`delivered` has no meaning in phase `intent`");
}

const EXPECTED: &str = "
intent: create_started cancel_wanted client_left client_returned taken_over held_up time_passed
dispatched: create_answered cancel_wanted client_left client_returned taken_over held_up time_passed
dispatched, retry: create_started cancel_wanted client_left client_returned taken_over held_up time_passed
unknown, replay: create_started find_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
unknown, replaying: create_answered find_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
unknown, find: find_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
running: status_answered cancel_wanted client_left client_returned taken_over held_up time_passed
cancel_requested: status_answered cancel_answered cancel_wanted client_left client_returned taken_over held_up time_passed
cancelling: status_answered cancel_answered cancel_wanted client_left client_returned taken_over held_up time_passed
draining: status_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
draining, mark: status_answered mark_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
ended: cancel_wanted client_left client_returned delivered taken_over held_up time_passed
ended, confirming: status_answered cancel_wanted client_left client_returned delivered taken_over held_up time_passed
compensating: undo_answered cancel_wanted client_left client_returned delivered taken_over held_up time_passed
orphaned, unknown: find_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
orphaned, running: status_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
orphaned, cancel_requested: status_answered cancel_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
orphaned, cancelling: status_answered cancel_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
orphaned, draining: status_answered cancel_wanted client_left client_returned taken_over held_up time_passed resolved
orphaned, ended: status_answered cancel_wanted client_left client_returned delivered taken_over held_up time_passed resolved
completed:
failed:
cancelled:
never_created:
compensated:
unverified:
resolved:
needs_intervention: cancel_wanted client_left client_returned delivered taken_over resolved retry_wanted
compensation_failed: cancel_wanted client_left client_returned delivered taken_over resolved retry_wanted
";
