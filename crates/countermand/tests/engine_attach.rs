//! Identical calls: one job upstream, and each call with its own say, under paused time.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod common;

use common::{Answer, Bench, Say, Script, accepted, created, ended, policy, running, until};
use countermand::{
    core::{
        Cause, Lookup, OnDisconnect, Phase, Policy, Principal, Row,
        event::{End, FindAnswer, RequestAnswer},
        ports::Payload,
    },
    engine::{Operation, StartError},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// A bench whose jobs run until they are told otherwise.
fn bench() -> Bench {
    on(policy())
}

fn on(policy: Policy) -> Bench {
    let bench = Bench::new(policy);
    runs(&bench.upstream);
    bench
}

fn runs(upstream: &Script) {
    upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    upstream.say("cancel", Say::Answer(accepted()));
}

async fn attach_row(bench: &Bench, row: Row) -> Operation {
    bench.engine.start_or_attach(row, &bench.definition, None).await.expect("starts or attaches")
}

async fn attach(bench: &Bench) -> Operation {
    attach_row(bench, bench.row(OnDisconnect::Cancel)).await
}

/// An operation that runs, and the call that started it.
async fn one(bench: &Bench, on_disconnect: OnDisconnect) -> Operation {
    let mut operation = attach_row(bench, bench.row(on_disconnect)).await;
    assert!(!operation.joined());
    until(&mut operation, |row| row.phase == Phase::Running).await;
    operation
}

async fn joins(bench: &Bench, first: &Operation) -> Operation {
    let second = attach(bench).await;
    assert!(second.joined());
    assert_eq!(second.id(), first.id());
    second
}

async fn starts_anew(bench: &Bench, first: &Operation) -> Operation {
    let second = attach(bench).await;
    assert!(!second.joined());
    assert_ne!(second.id(), first.id());
    second
}

async fn in_ledger(bench: &Bench, id: countermand::core::OperationId, phase: Phase) -> Row {
    loop {
        let row = bench.ledger.inner.row(id);
        if row.phase == phase {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_identical_calls_are_one_job_and_both_get_its_result() {
    let bench = bench();
    bench.upstream.separate_result.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut first = one(&bench, OnDisconnect::Cancel).await;
    let mut second = joins(&bench, &first).await;
    bench.upstream.say("status", Say::Answer(ended(End::Completed)));
    for operation in [&mut first, &mut second] {
        until(operation, |row| row.phase == Phase::Ended).await;
    }
    first.delivered();
    let row = until(&mut second, |row| row.phase == Phase::Completed).await;
    assert!(common::sealed(&row), "it is settled, and the second call has not read its result yet");
    for operation in [&first, &second] {
        assert_eq!(*operation.result().await.expect("has a result"), Payload::Json(json!("done")));
    }
    second.delivered();
    assert_eq!((bench.upstream.count("create"), bench.upstream.count("cancel")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn identical_calls_at_the_same_moment_are_one_insert_and_one_create() {
    let bench = bench();
    bench.ledger.hold_inserts(true);
    let calls = async { tokio::join!(attach(&bench), attach(&bench), attach(&bench)) };
    let release = async {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        bench.ledger.hold_inserts(false);
    };
    let ((first, second, third), ()) = tokio::join!(calls, release);
    let joined = [&first, &second, &third].map(Operation::joined);
    assert_eq!(joined.iter().filter(|joined| **joined).count(), 2);
    assert!(first.id() == second.id() && second.id() == third.id());
    let all = bench.engine.list(countermand::core::ports::Query::default()).await.unwrap();
    assert_eq!(all.len(), 1);
    bench.upstream.sent("status", 1).await;
    assert_eq!(bench.upstream.count("create"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_by_one_of_two_leaves_the_job_running_and_the_last_one_cancels() {
    let bench = bench();
    let mut first = one(&bench, OnDisconnect::Cancel).await;
    let mut second = joins(&bench, &first).await;
    first.cancel(Cause::ClientCancelled, Some("enough".into()));
    assert_eq!(first.heard().await, Some(false), "it has only left the other one");
    assert_eq!(second.view().row.phase, Phase::Running);
    second.cancel(Cause::Deadline, None);
    assert_eq!(second.heard().await, Some(true));
    let row = until(&mut second, |row| row.phase == Phase::Cancelling).await;
    assert_eq!((row.cause, row.reason.as_deref()), (Some(Cause::Deadline), None));
}

#[tokio::test(start_paused = true)]
async fn an_operators_cancel_concerns_all_of_its_calls() {
    let bench = bench();
    let first = one(&bench, OnDisconnect::Cancel).await;
    let mut second = joins(&bench, &first).await;
    bench.engine.cancel(first.id(), Cause::Operator, None).await.unwrap();
    let row = until(&mut second, Row::cancel_wanted).await;
    assert_eq!(row.cause, Some(Cause::Operator));

    let mut first = starts_anew(&bench, &first).await;
    let mut second = joins(&bench, &first).await;
    first.cancel(Cause::Shutdown, None);
    assert_eq!(until(&mut second, Row::cancel_wanted).await.cause, Some(Cause::Shutdown));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_differs_in_anything_is_a_job_of_its_own() {
    let bench = bench();
    let first = one(&bench, OnDisconnect::Cancel).await;
    let mut another = bench.definition.clone();
    another.hash = "another".into();
    let row = || bench.row(OnDisconnect::Cancel);
    for (row, definition) in [
        (Row { principal: Principal::from("q"), ..row() }, &bench.definition),
        (Row { args_hash: "another".into(), ..row() }, &bench.definition),
        (Row { tool: "another".into(), ..row() }, &bench.definition),
        (Row { definition: "another".into(), ..row() }, &another),
    ] {
        let other = bench.engine.start_or_attach(row, definition, None).await.unwrap();
        assert!(!other.joined() && other.id() != first.id());
        std::mem::forget(other);
    }
    bench.upstream.sent("create", 5).await;
    joins(&bench, &first).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_being_cancelled_is_never_joined() {
    let bench = bench();
    let mut first = one(&bench, OnDisconnect::Cancel).await;
    // Said, and not heard yet.
    first.cancel(Cause::ClientCancelled, None);
    let mut second = starts_anew(&bench, &first).await;
    until(&mut first, |row| row.phase == Phase::Cancelling).await;
    joins(&bench, &second).await;
    second.client_left(Cause::ClientDisconnected);
    starts_anew(&bench, &second).await;
}

#[tokio::test(start_paused = true)]
async fn what_drains_is_joined_only_where_nothing_is_done_about_it() {
    let plain = || Policy { can_cancel: false, ..policy() };
    for (policy, joined) in [
        (plain(), true),
        (Policy { mark: true, ..plain() }, false),
        (Policy { undo_steps: 1, ..plain() }, false),
    ] {
        let bench = on(policy);
        bench.upstream.say("mark", Say::Answer(Answer::Done(RequestAnswer::Done)));
        let mut first = one(&bench, OnDisconnect::Cancel).await;
        first.cancel(Cause::ClientCancelled, None);
        until(&mut first, |row| row.phase == Phase::Draining).await;
        if !joined {
            starts_anew(&bench, &first).await;
            continue;
        }
        let mut second = joins(&bench, &first).await;
        assert!(second.view().row.cancel_wanted(), "a wanted cancel stays");
        bench.upstream.say("status", Say::Answer(ended(End::Completed)));
        until(&mut second, |row| row.phase == Phase::Completed).await;
        assert!(second.view().has_completed());
        assert_eq!(*second.result().await.expect("has a result"), Payload::Json(json!("done")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_joins_within_a_grace_ends_it() {
    let bench = bench();
    let grace = OnDisconnect::Grace(Duration::from_secs(30));
    let mut first = one(&bench, grace).await;
    first.client_away(Cause::ClientDisconnected);
    until(&mut first, |row| row.disconnect_at.is_some()).await;
    drop(first);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let mut second = attach(&bench).await;
    assert!(second.joined());
    let row = second.view().row;
    assert_eq!((row.disconnect_at, row.awaited), (None, true));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(second.view().row.phase, Phase::Running);
    bench.upstream.say("status", Say::Answer(ended(End::Completed)));
    until(&mut second, |row| row.phase == Phase::Ended).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_away_and_back_keeps_its_call_and_its_session_s_end_ends_it() {
    let bench = bench();
    let grace = OnDisconnect::Grace(Duration::from_secs(30));
    let mut operation = one(&bench, grace).await;
    for _ in 0..3 {
        operation.client_away(Cause::ClientDisconnected);
        until(&mut operation, |row| row.disconnect_at.is_some()).await;
        tokio::time::sleep(Duration::from_secs(29)).await;
        operation.client_returned();
        until(&mut operation, |row| row.disconnect_at.is_none()).await;
    }
    assert_eq!(operation.view().row.phase, Phase::Running);
    operation.client_away(Cause::ClientDisconnected);
    operation.client_left(Cause::SessionEnded);
    let row = until(&mut operation, Row::cancel_wanted).await;
    assert_eq!(row.cause, Some(Cause::SessionEnded));
}

#[tokio::test(start_paused = true)]
async fn a_grace_begins_when_the_last_of_its_calls_is_away() {
    let bench = bench();
    let mut first = one(&bench, OnDisconnect::Grace(Duration::from_secs(30))).await;
    let mut second = joins(&bench, &first).await;
    first.client_away(Cause::ClientDisconnected);
    first.heard().await;
    assert_eq!(second.view().row.disconnect_at, None);
    second.client_left(Cause::SessionEnded);
    let row = until(&mut second, |row| row.disconnect_at.is_some()).await;
    assert!(!row.cancel_wanted(), "the first one may come back");
    first.client_returned();
    until(&mut first, |row| row.disconnect_at.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn where_the_first_call_cannot_be_recorded_the_second_tries_by_itself() {
    let bench = bench();
    let other =
        attach_row(&bench, Row { args_hash: "other".into(), ..bench.row(OnDisconnect::Cancel) }).await;
    bench.upstream.sent("create", 1).await;
    bench.ledger.set_full(true);
    bench.ledger.hold_inserts(true);
    let call = || {
        let row = bench.row(OnDisconnect::Cancel);
        bench.engine.start_or_attach(row, &bench.definition, None)
    };
    let release = async {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        bench.ledger.set_full(false);
        bench.ledger.hold_inserts(false);
    };
    let (first, second, ()) = tokio::join!(call(), call(), release);
    assert!(matches!(first, Err(StartError::Ledger(_))));
    let second = second.expect("starts");
    assert!(!second.joined() && second.id() != other.id());
    bench.upstream.sent("create", 2).await;
}

#[tokio::test(start_paused = true)]
async fn both_calls_see_the_same_view() {
    let bench = bench();
    let mut first = one(&bench, OnDisconnect::Cancel).await;
    let mut second = joins(&bench, &first).await;
    for operation in [&mut first, &mut second] {
        let row = until(operation, |row| row.upstream_id.is_some()).await;
        assert_eq!(row.upstream_id.as_ref().map(|id| id.as_str()), Some("job-1"));
    }
    bench.upstream.say("status", Say::Answer(ended(End::Failed)));
    for operation in [&mut first, &mut second] {
        until(operation, |row| row.phase == Phase::Ended).await;
        assert!(operation.view().is_over() && operation.view().payload.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_issued_again_after_a_restart_joins_what_was_recovered() {
    for (on_disconnect, reconciled) in [
        (OnDisconnect::Detach, false),
        (OnDisconnect::Detach, true),
        (OnDisconnect::Grace(Duration::from_secs(30)), false),
        (OnDisconnect::Grace(Duration::from_secs(30)), true),
    ] {
        let before = bench();
        let operation = one(&before, on_disconnect).await;
        let id = operation.id();
        // The process dies here: its tasks are never polled again.
        std::mem::forget(operation);
        let ledger = before.ledger.clone();
        kill(&before).await;

        let after = Bench::on(ledger, Arc::new(Script::default()), policy(), 2);
        runs(&after.upstream);
        if reconciled {
            after.engine.reconcile_once().await.unwrap();
        }
        let mut operation = attach(&after).await;
        assert!(operation.joined());
        assert_eq!(operation.id(), id);
        let row = operation.view().row;
        assert_eq!((row.epoch, row.awaited, row.disconnect_at), (2, true, None));
        tokio::time::sleep(Duration::from_secs(60)).await;
        after.upstream.say("status", Say::Answer(ended(End::Completed)));
        until(&mut operation, |row| row.phase == Phase::Ended).await;
        operation.delivered();
        in_ledger(&after, id, Phase::Completed).await;
        assert_eq!(after.upstream.count("create"), 0);
    }
}

/// A process that dies: it says nothing to anybody.
async fn kill(bench: &Bench) {
    bench.ledger.set_full(true);
    bench.engine.shutdown(Duration::ZERO).await;
    bench.ledger.set_full(false);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_issued_again_after_a_restart_does_not_join_what_the_restart_has_cancelled() {
    let before = bench();
    let operation = one(&before, OnDisconnect::Cancel).await;
    let id = operation.id();
    std::mem::forget(operation);
    let ledger = before.ledger.clone();
    kill(&before).await;
    let after = Bench::on(ledger, Arc::new(Script::default()), policy(), 2);
    runs(&after.upstream);
    let operation = attach(&after).await;
    assert!(!operation.joined() && operation.id() != id);
    assert!(after.ledger.inner.row(id).cancel_wanted());
}

#[tokio::test(start_paused = true)]
async fn a_detached_job_that_nobody_watches_is_joined_where_it_was_handed_back() {
    let bench =
        on(Policy { poll_every: Duration::from_secs(600), poll_max: Duration::from_secs(600), ..policy() });
    let operation = one(&bench, OnDisconnect::Detach).await;
    let id = operation.id();
    drop(operation);
    while bench.engine.driven() > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut operation = attach(&bench).await;
    assert!(operation.joined());
    assert_eq!((operation.id(), bench.engine.driven()), (id, 1));
    assert!(operation.view().row.awaited, "somebody waits again");
    bench.upstream.say("status", Say::Answer(ended(End::Completed)));
    until(&mut operation, |row| row.phase == Phase::Ended).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waits_for_its_client_goes_to_the_call_that_comes_instead() {
    let bench = bench();
    let mut first = one(&bench, OnDisconnect::Grace(Duration::from_secs(30))).await;
    first.client_left(Cause::ClientDisconnected);
    bench.upstream.say("status", Say::Answer(ended(End::Completed)));
    until(&mut first, |row| row.phase == Phase::Ended).await;
    let mut second = joins(&bench, &first).await;
    second.delivered();
    let row = until(&mut second, |row| row.phase == Phase::Completed).await;
    assert_eq!((row.cause, row.delivered_at.is_some()), (None, true));
    let third = starts_anew(&bench, &second).await;
    drop(third);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_may_still_run_is_joined_and_not_started_twice() {
    let bench = Bench::new(Policy { find: Some(Lookup::Consistent), key_window: None, ..policy() });
    bench.upstream.say("create", Say::Panic);
    bench.upstream.say(
        "find",
        Say::Answer(Answer::Find(FindAnswer::Failed(countermand::core::event::Trouble::new("503")))),
    );
    let mut first = attach(&bench).await;
    until(&mut first, |row| row.phase == Phase::Orphaned).await;
    let second = joins(&bench, &first).await;
    assert!(second.view().is_over());
    assert_eq!(bench.upstream.count("create"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_away_while_it_is_recorded_leaves_a_job_that_is_driven_and_was_left() {
    for attaches in [false, true] {
        let bench = bench();
        bench.ledger.hold_inserts(true);
        let row = bench.row(OnDisconnect::Cancel);
        let id = row.id;
        let starting = async {
            if attaches {
                attach_row(&bench, row).await
            } else {
                bench.engine.start(row, &bench.definition, None).await.expect("starts")
            }
        };
        let recorded = async {
            while bench.engine.list(countermand::core::ports::Query::default()).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = starting => panic!("its insert is held"),
            () = recorded => {}
        }
        // The future of the start is gone.
        bench.ledger.hold_inserts(false);
        let row = in_ledger(&bench, id, Phase::NeverCreated).await;
        assert_eq!(row.cause, Some(Cause::ClientDisconnected));
        assert_eq!(bench.upstream.count("create"), 0);
        let next = attach(&bench).await;
        assert!(!next.joined() && next.id() != id);
    }
}
