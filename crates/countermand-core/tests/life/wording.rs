//! What we say of an operation, and never before it is known.

use crate::kit::*;
use countermand_core::{
    Cause, OnDisconnect, Phase, Policy,
    event::{End, Event},
    words::{Said, describe},
};

#[test]
fn what_we_say_is_what_is_known() {
    let undoable = || Policy { undo_steps: 1, ..policy() };
    let unstoppable = || Policy { can_cancel: false, ..policy() };
    for (op, said) in [
        (Op::new(policy()), Said::Running),
        (Op::new(policy()).dispatched(), Said::Running),
        (Op::new(policy()).dispatched().on(cancel()), Said::CancelPending),
        (Op::new(policy()).unknown(), Said::Unclear),
        (Op::new(policy()).unknown().on(cancel()), Said::CancelPending),
        (Op::new(policy()).cancel_requested(), Said::CancelPending),
        (Op::new(policy()).cancelling(), Said::CancelPending),
        (Op::new(policy()).ended_cancelled(), Said::CancelPending),
        (Op::new(policy()).ended_cancelled().on(ended(End::Cancelled)), Said::Stopped),
        (Op::new(policy()).on(cancel()), Said::NeverStarted),
        (Op::new(policy()).unknown().on(cancel()).on(miss(START + secs(60))), Said::NeverArrived),
        (Op::new(policy()).running().on(ended(End::Completed)), Said::Finished),
        (Op::new(policy()).cancelling().on(ended(End::Completed)), Said::FinishedBeforeCancel),
        (Op::new(policy()).running().on(ended(End::Failed)), Said::Failed),
        (Op::new(undoable()).compensating(), Said::UndoPending),
        (Op::new(undoable()).compensating().on(undone()), Said::Undone),
        (Op::new(undoable()).compensation_failed(), Said::NeedsOperator),
        (Op::new(unstoppable()).draining(), Said::CannotBeStopped { ends_by: START + secs(3600) }),
        (Op::new(policy()).orphaned_running(), Said::Orphaned),
        (Op::new(policy()).needs_intervention(), Said::NeedsOperator),
    ] {
        assert_eq!(describe(&op.row), said, "in `{}`", op.row.phase);
    }
}

#[test]
fn only_the_phase_cancelled_is_called_stopped() {
    for &phase in Phase::ALL {
        let mut op = Op::new(policy()).ended_cancelled();
        op.row.phase = phase;
        assert_eq!(describe(&op.row) == Said::Stopped, phase == Phase::Cancelled, "{phase}");
    }
}

#[test]
fn what_runs_on_without_its_client_says_until_when() {
    let away = Said::ClientAway { until: START + secs(30) };
    let grace = || Op::of(policy(), OnDisconnect::Grace(secs(30)));
    for op in [grace(), grace().dispatched(), grace().running()] {
        assert_eq!(describe(&op.row), Said::Running);
        let op = op.on(left());
        assert_eq!(describe(&op.row), away, "in `{}`", op.row.phase);
        assert_eq!(describe(&op.on(Event::ClientReturned).row), Said::Running);
    }
    assert_eq!(describe(&grace().unknown().on(left()).row), Said::Unclear, "nobody knows whether it runs");
    let over = grace().running().on(left()).time_passes(secs(30));
    assert_eq!(describe(&over.row), Said::CancelPending);
    assert_eq!(describe(&grace().running().on(left()).on(ended(End::Completed)).row), Said::Finished);

    let detached = Said::Detached { ends_by: START + secs(3600) };
    let op = Op::of(policy(), OnDisconnect::Detach).running();
    assert_eq!(describe(&op.row), Said::Running, "its client waits");
    let op = op.on(left_by(Cause::SessionEnded));
    assert_eq!(describe(&op.row), detached);
    assert_eq!(describe(&op.clone().on(taken_over()).row), detached);
    assert_eq!(describe(&op.clone().on(Event::ClientReturned).row), Said::Running);
    assert_eq!(describe(&op.on(cancel()).row), Said::CancelPending);
}
