//! The engine under paused time: a ledger in memory, an upstream that answers as it is told.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod common;

use common::{Answer, Bench, Say, Script, accepted, created, ended, policy, refused, running, sealed, until};
use countermand::core::{
    Cause, OnDisconnect, Outcome, Phase, WhenCompleted,
    event::{CreateAnswer, End, FindAnswer, RequestAnswer, Trouble},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};

#[tokio::test(start_paused = true)]
async fn a_job_that_completes_waits_in_ended_until_its_answer_is_delivered() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(ended(End::Completed)));
    let mut operation = bench.start().await;
    let row = until(&mut operation, |row| row.phase == Phase::Ended).await;
    assert_eq!(row.outcome, Some(Outcome::Completed));
    operation.delivered();
    let row = until(&mut operation, |row| row.phase == Phase::Completed).await;
    assert!(sealed(&row) && row.delivered_at.is_some());
    assert_eq!(bench.upstream.count("cancel"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_while_the_create_is_in_flight_waits_for_the_id_and_cancels_by_it() {
    let bench = Bench::new(policy());
    let gate = Arc::new(Notify::new());
    bench.upstream.say("create", Say::Hold(gate.clone(), created()));
    bench.upstream.say("cancel", Say::Answer(accepted())).say("status", Say::Answer(ended(End::Cancelled)));
    let mut operation = bench.start().await;
    bench.upstream.sent("create", 1).await;
    operation.cancel(Cause::ClientCancelled, Some("enough".into()));
    let row = until(&mut operation, countermand::core::Row::cancel_wanted).await;
    assert_eq!(row.phase, Phase::Dispatched, "nothing is known of the create yet");
    gate.notify_one();
    let row = until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    assert_eq!((row.cause, row.reason.as_deref()), (Some(Cause::ClientCancelled), Some("enough")));
    assert_eq!(bench.upstream.count("cancel"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_create_that_never_answers_is_given_up_when_its_shield_ends_and_then_looked_up() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Hang).say("find", Say::Answer(Answer::Find(FindAnswer::Miss)));
    let started = Instant::now();
    let mut operation = bench.start().await;
    bench.upstream.sent("create", 1).await;
    operation.cancel(Cause::ClientCancelled, None);
    until(&mut operation, |row| row.phase == Phase::Unknown).await;
    assert_eq!(started.elapsed().as_secs(), 30, "the shield");
    until(&mut operation, |row| row.phase == Phase::NeverCreated).await;
    assert!(started.elapsed() >= Duration::from_secs(90), "a miss counts only after the horizon");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_endpoint_that_hangs_makes_a_visible_orphan_and_the_retries_go_on() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    let started = Instant::now();
    operation.cancel(Cause::ClientCancelled, None);
    let row = until(&mut operation, |row| row.phase == Phase::Orphaned).await;
    assert_eq!(started.elapsed().as_secs(), 30, "confirm_within");
    assert!(row.last_error.is_some());
    let tried = bench.upstream.count("cancel");
    bench.upstream.sent("cancel", tried + 3).await;
    bench.upstream.say("cancel", Say::Answer(accepted()));
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_fails_at_first_is_retried_with_a_status_read_in_between() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created()));
    bench.upstream.say("status", Say::Answer(running())).say("status", Say::Answer(running()));
    bench.upstream.say("cancel", Say::Answer(refused("503"))).say("cancel", Say::Answer(refused("503")));
    bench.upstream.say("cancel", Say::Answer(accepted()));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    operation.cancel(Cause::Operator, None);
    bench.upstream.sent("cancel", 3).await;
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    let sent = bench.upstream.sent.lock().unwrap().clone();
    let first = sent.iter().position(|request| *request == "cancel").unwrap();
    assert_eq!(sent[first..first + 4], ["cancel", "status", "cancel", "status"], "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_when_the_intent_cannot_be_written() {
    let bench = Bench::new(policy());
    bench.ledger.set_full(true);
    let error =
        bench.engine.start(bench.row(OnDisconnect::Cancel), &bench.definition, None).await.err().unwrap();
    assert!(error.to_string().contains("under test") && error.to_string().contains("no space"), "{error}");
    assert_eq!(bench.upstream.count("create"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_fails_while_a_job_runs_does_not_keep_its_cancel_from_the_upstream() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.upstream.say("cancel", Say::Answer(accepted()));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    bench.ledger.set_full(true);
    operation.cancel(Cause::ClientCancelled, None);
    bench.upstream.sent("cancel", 1).await;
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    assert_eq!(bench.ledger.inner.row(operation.id()).phase, Phase::Running, "the ledger could not take it");
    bench.ledger.set_full(false);
    while operation.changed().await.is_some() {}
    assert_eq!(
        bench.ledger.inner.row(operation.id()).phase,
        Phase::Cancelled,
        "it is recorded once the ledger is back"
    );
    assert!(
        bench.ledger.inner.events(operation.id()).contains(&"cancel_accepted".to_owned()),
        "and so is its history"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_dropped_without_a_word_is_a_client_that_has_left() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(ended(End::Cancelled)));
    bench.upstream.say("cancel", Say::Answer(accepted()));
    let gate = Arc::new(Notify::new());
    bench.upstream.say("status", Say::Hold(gate, running()));
    let operation = bench.start().await;
    let id = operation.id();
    bench.upstream.sent("create", 1).await;
    drop(operation);
    bench.upstream.sent("cancel", 1).await;
    assert_eq!(bench.ledger.inner.row(id).cause, Some(Cause::ClientDisconnected));
}

#[tokio::test(start_paused = true)]
async fn a_create_task_that_panics_leaves_an_unknown_and_not_a_lost_operation() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Panic);
    let found = FindAnswer::Hit { id: Some("job-9".into()), saved: serde_json::Map::new() };
    bench.upstream.say("find", Say::Answer(Answer::Find(found)));
    bench.upstream.say("cancel", Say::Answer(accepted())).say("status", Say::Answer(ended(End::Cancelled)));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Unknown).await;
    operation.cancel(Cause::ClientCancelled, None);
    let row = until(&mut operation, |row| row.phase == Phase::Cancelled).await;
    assert_eq!(row.upstream_id.as_ref().map(|id| id.as_str()), Some("job-9"));
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_next_incarnation_finds_the_lost_create_and_cancels_it() {
    let first = Bench::new(policy());
    first.upstream.say("create", Say::Hang);
    let operation = first.start().await;
    let id = operation.id();
    first.upstream.sent("create", 1).await;
    // The process dies here: its tasks are never polled again.
    let ledger = first.ledger.clone();
    std::mem::forget(operation);
    first.engine.shutdown(Duration::ZERO).await;
    let stored = ledger.inner.row(id);
    assert_eq!(stored.phase, Phase::Dispatched);

    let second = Bench::on(ledger, Arc::new(Script::default()), policy(), 2);
    let hit = FindAnswer::Hit { id: Some("job-1".into()), saved: serde_json::Map::new() };
    second.upstream.say("find", Say::Answer(Answer::Find(hit)));
    second.upstream.say("cancel", Say::Answer(accepted())).say("status", Say::Answer(ended(End::Cancelled)));
    second.engine.reconcile();
    second.upstream.sent("cancel", 1).await;
    while second.ledger.inner.row(id).phase != Phase::Cancelled {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let row = second.ledger.inner.row(id);
    assert_eq!((row.epoch, row.upstream_id.unwrap().0.as_str()), (2, "job-1"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_cancels_plain_calls_and_leaves_detached_jobs_alone() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.upstream.say("cancel", Say::Answer(accepted()));
    let mut plain = bench.start().await;
    let mut detached =
        bench.engine.start(bench.row(OnDisconnect::Detach), &bench.definition, None).await.unwrap();
    until(&mut plain, |row| row.phase == Phase::Running).await;
    until(&mut detached, |row| row.phase == Phase::Running).await;
    let engine = bench.engine.clone();
    #[expect(clippy::disallowed_methods, reason = "a test keeps its handle")]
    let shutdown = tokio::spawn(async move { engine.shutdown(Duration::from_secs(10)).await });
    let row = until(&mut plain, |row| row.phase == Phase::Cancelling).await;
    assert_eq!(row.cause, Some(Cause::Shutdown));
    let left = shutdown.await.unwrap();
    assert!(bench.upstream.count("cancel") >= 1);
    assert_eq!(bench.ledger.inner.row(detached.id()).phase, Phase::Running);
    assert!(!bench.ledger.inner.row(detached.id()).cancel_wanted());
    assert_eq!(left.rows.len(), 2, "what has not settled is named");
    let refused = bench.engine.start(bench.row(OnDisconnect::Cancel), &bench.definition, None).await;
    assert!(refused.is_err(), "nothing is started any more");
}

#[tokio::test(start_paused = true)]
async fn nobody_says_stop_and_the_lifetime_ends_it() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.upstream.say("cancel", Say::Answer(accepted()));
    let mut operation = bench.start().await;
    let started = Instant::now();
    let row = until(&mut operation, countermand::core::Row::cancel_wanted).await;
    assert_eq!(row.cause, Some(Cause::Deadline));
    assert_eq!(started.elapsed().as_secs(), 3600);
}

#[tokio::test(start_paused = true)]
async fn undo_requests_run_in_order_each_with_a_key_of_its_own_and_only_after_the_end() {
    let bench = Bench::new(countermand::core::Policy { undo_steps: 2, ..policy() });
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench
        .upstream
        .say("cancel", Say::Answer(accepted()))
        .say("undo", Say::Answer(Answer::Done(RequestAnswer::Done)));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Running).await;
    operation.cancel(Cause::ClientCancelled, None);
    until(&mut operation, |row| row.phase == Phase::Cancelling).await;
    assert_eq!(bench.upstream.count("undo"), 0, "it may still write");
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
    until(&mut operation, |row| row.phase == Phase::Compensated).await;
    assert_eq!(bench.upstream.count("undo"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_finished_before_its_cancel_is_undone_only_where_the_tool_says_so() {
    for (when_completed, phase) in
        [(WhenCompleted::Keep, Phase::Completed), (WhenCompleted::Compensate, Phase::Compensated)]
    {
        let bench = Bench::new(countermand::core::Policy { undo_steps: 1, when_completed, ..policy() });
        bench
            .upstream
            .say("create", Say::Answer(created()))
            .say("status", Say::Answer(ended(End::Completed)));
        bench.upstream.say("undo", Say::Answer(Answer::Done(RequestAnswer::Done)));
        let mut operation = bench.start().await;
        until(&mut operation, |row| row.phase == Phase::Ended).await;
        operation.cancel(Cause::ClientCancelled, None);
        let row = until(&mut operation, |row| row.phase == phase).await;
        assert_eq!(row.outcome, Some(Outcome::Completed), "it is never called cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_read_while_it_is_being_started_is_left_to_its_call() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(running()));
    bench.ledger.hold_inserts(true);
    let row = bench.row(OnDisconnect::Cancel);
    let id = row.id;
    let (engine, definition) = (bench.engine.clone(), bench.definition.clone());
    let starting =
        tokio::task::JoinSet::from_iter([async move { engine.start(row, &definition, None).await }]);
    while bench.engine.list(countermand::core::ports::Query::default()).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    bench.engine.reconcile_once().await.unwrap();
    assert_eq!(bench.engine.driven(), 0, "its call is about to drive it");
    bench.engine.cancel(id, Cause::Operator, None).await.unwrap();
    bench.ledger.hold_inserts(false);
    let mut operation = starting.join_all().await.remove(0).expect("starts");
    let row = until(&mut operation, |row| row.phase == Phase::NeverCreated).await;
    assert_eq!(row.cause, Some(Cause::Operator), "what was said meanwhile is not lost");
    assert_eq!(bench.upstream.count("create"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_create_that_was_not_sent_is_tried_again_with_the_same_key_and_then_fails() {
    let bench = Bench::new(policy());
    let refused = Answer::Create(CreateAnswer::NotSent(Trouble::new("connection refused")));
    bench.upstream.say("create", Say::Answer(refused));
    let mut operation = bench.start().await;
    let row = until(&mut operation, |row| row.phase == Phase::Failed).await;
    assert!(row.last_error.as_deref().unwrap().contains("connection refused"));
    let keys = bench.upstream.keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| *key == keys[0]));
}
