//! An upstream that is ill, under paused time: what is due waits, and nothing is lost.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod common;

use common::{Answer, Bench, Say, accepted, created, ended, policy, running, until};
use countermand::{
    core::ports::Payload,
    core::{
        Cause, HealthPolicy, Phase,
        event::{CancelAnswer, CreateAnswer, End, FindAnswer, RequestAnswer, StatusAnswer, Trouble},
    },
    engine::{Healths, Operation},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};

fn down() -> Trouble {
    Trouble::ill("connection refused")
}

fn not_sent() -> Say {
    Say::Answer(Answer::Create(CreateAnswer::NotSent(down())))
}

fn cancel_failed() -> Say {
    Say::Answer(Answer::Cancel(CancelAnswer::NotAccepted(down())))
}

fn read_failed() -> Say {
    Say::Answer(Answer::Status(StatusAnswer::Failed(down())))
}

/// Fails so many reads of a running job of its own, until the upstream is left alone.
async fn fall_ill(bench: &Bench) -> Operation {
    bench.upstream.say("create", Say::Answer(created()));
    for _ in 0..5 {
        bench.upstream.say("status", read_failed());
    }
    let mut operation = bench.start().await;
    until(&mut operation, |row| {
        row.last_error.as_ref().is_some_and(|error| error.contains("left alone since"))
    })
    .await;
    assert_eq!(bench.upstream.count("status"), 5);
    operation
}

#[tokio::test(start_paused = true)]
async fn a_create_that_waits_is_not_recorded_as_sent_and_a_cancel_meanwhile_leaves_nothing() {
    let bench = Bench::new(policy());
    let _ill = fall_ill(&bench).await;
    let mut operation = bench.start().await;
    let row = until(&mut operation, |row| row.last_error.is_some()).await;
    assert_eq!(row.phase, Phase::Intent);
    let why = row.last_error.clone().unwrap();
    assert!(why.contains("`u`") && why.contains("connection refused"), "{why}");
    assert!(
        bench.ledger.inner.events(operation.id()).contains(&"held_up".to_owned()),
        "it is in the history"
    );
    operation.cancel(Cause::ClientCancelled, None);
    let row = until(&mut operation, |row| row.phase == Phase::NeverCreated).await;
    assert_eq!((row.create_sent_at, bench.upstream.count("create")), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn while_it_is_left_alone_one_request_finds_out_and_then_all_go_on() {
    let bench = Bench::new(policy());
    let mut ill = fall_ill(&bench).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut operation = bench.start().await;
        until(&mut operation, |row| row.last_error.is_some()).await;
        waiting.push(operation);
    }
    let gate = Arc::new(Notify::new());
    let before = bench.upstream.sent.lock().unwrap().len();
    bench.upstream.say("status", Say::Hold(gate.clone(), running()));
    bench.upstream.say("create", Say::Hold(gate.clone(), created()));
    bench.upstream.say("create", Say::Answer(created()));
    let asked = Instant::now();
    while bench.upstream.sent.lock().unwrap().len() == before {
        bench.upstream.seen.notified().await;
    }
    assert!(asked.elapsed() >= Duration::from_secs(2), "half of the pause at least");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.upstream.sent.lock().unwrap().len(), before + 1, "one probe");
    bench.upstream.say("status", Say::Answer(running()));
    gate.notify_one();
    for operation in &mut waiting {
        // The one that was held as the probe may be among them.
        gate.notify_one();
        until(operation, |row| row.phase == Phase::Running).await;
    }
    assert_eq!(bench.upstream.count("create"), 21, "none is lost, and none is sent twice");
    bench.upstream.say("status", Say::Answer(ended(End::Completed)));
    until(&mut ill, |row| row.phase == Phase::Ended).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_sent_two_seconds_after_it_was_wanted_at_the_latest() {
    let bench = Bench::new(policy());
    let mut operation = fall_ill(&bench).await;
    bench.upstream.say("cancel", cancel_failed()).say("cancel", Say::Answer(accepted()));
    bench.upstream.say("status", read_failed());
    let wanted = Instant::now();
    operation.cancel(Cause::ClientCancelled, None);
    bench.upstream.sent("cancel", 1).await;
    assert!(wanted.elapsed() <= Duration::from_secs(2), "{:?}", wanted.elapsed());
    bench.upstream.sent("cancel", 2).await;
    assert!(wanted.elapsed() <= Duration::from_millis(4_300), "{:?}", wanted.elapsed());
    bench.upstream.say("status", Say::Answer(ended(End::Cancelled)));
    until(&mut operation, |row| row.phase == Phase::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_waits_is_hurried_by_a_cancel() {
    let bench = Bench::new(countermand::core::Policy { key_window: None, ..policy() });
    bench.upstream.say("create", Say::Answer(Answer::Create(CreateAnswer::Lost(down()))));
    bench.upstream.say("find", Say::Answer(Answer::Find(FindAnswer::Failed(down()))));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.last_error.as_ref().is_some_and(|error| error.contains("left alone")))
        .await;
    let tried = bench.upstream.count("find");
    let wanted = Instant::now();
    operation.cancel(Cause::ClientCancelled, None);
    bench.upstream.sent("find", tried + 1).await;
    assert!(wanted.elapsed() <= Duration::from_secs(2), "{:?}", wanted.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_undo_waits_for_as_long_as_it_takes() {
    let bench = Bench::new(countermand::core::Policy { undo_steps: 1, ..policy() });
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(ended(End::Failed)));
    let failed = || Say::Answer(Answer::Done(RequestAnswer::Failed(down())));
    for _ in 0..12 {
        bench.upstream.say("undo", failed());
    }
    bench.upstream.say("undo", Say::Answer(Answer::Done(RequestAnswer::Done)));
    let started = Instant::now();
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Compensated).await;
    assert_eq!(bench.upstream.count("undo"), 13);
    assert!(started.elapsed() >= Duration::from_secs(150), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_read_of_an_upstream_that_is_left_alone_fails_at_once_and_says_why() {
    let bench = Bench::new(policy());
    let _ill = fall_ill(&bench).await;
    let health = bench.engine.health("u", HealthPolicy::default());
    let error = health.try_read().unwrap_err().to_string();
    for part in ["`u`", "nothing was sent", "5 requests in a row", "connection refused", "asked again in"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(bench.engine.health("another", HealthPolicy::default()).try_read().is_ok());
}

#[tokio::test(start_paused = true)]
async fn creates_that_fail_are_retried_within_the_budget() {
    let bench = Bench::new(policy());
    bench.upstream.say("create", not_sent());
    let _health = bench.engine.health("u", HealthPolicy { failures: 1_000_000, ..HealthPolicy::default() });
    let started = Instant::now();
    let mut operations = Vec::new();
    for _ in 0..300 {
        operations.push(bench.start().await);
    }
    for operation in &mut operations {
        until(operation, |row| row.phase == Phase::Failed).await;
    }
    assert_eq!(bench.upstream.count("create"), 1_200, "four tries each, and none is dropped");
    // 900 retries: 100 add up in ten seconds, 60 are earned by 300 first requests, ten come every second.
    let took = started.elapsed().as_secs();
    assert!((70..=80).contains(&took), "{took} s");
}

fn result(result: Result<(), Trouble>) -> Say {
    Say::Answer(Answer::Result(result.map(|()| Payload::Json(serde_json::json!("rows")))))
}

/// A job that has completed, and whose result takes a request of its own.
async fn completed(bench: &Bench) -> Operation {
    bench.upstream.separate_result.store(true, std::sync::atomic::Ordering::SeqCst);
    bench.upstream.say("create", Say::Answer(created())).say("status", Say::Answer(ended(End::Completed)));
    let mut operation = bench.start().await;
    until(&mut operation, |row| row.phase == Phase::Ended).await;
    operation
}

#[tokio::test(start_paused = true)]
async fn a_result_waits_for_an_upstream_that_is_left_alone_and_shows_that_it_is_back() {
    let bench = Bench::new(policy());
    let operation = completed(&bench).await;
    let health = bench.engine.health("u", HealthPolicy::default());
    for _ in 0..5 {
        health.try_read().unwrap().told(Some(&down()));
    }
    health.try_read().unwrap_err();
    bench.upstream.say("result", result(Ok(())));
    let asked = Instant::now();
    let mut read = Box::pin(operation.result());
    tokio::time::timeout(Duration::from_secs(2), &mut read).await.unwrap_err();
    assert_eq!(bench.upstream.count("result"), 0, "it is left alone");
    assert_eq!(*read.await.unwrap(), Payload::Json(serde_json::json!("rows")));
    assert!(asked.elapsed() <= Duration::from_secs(6), "{:?}", asked.elapsed());
    health.try_read().unwrap().told(None);
}

#[tokio::test(start_paused = true)]
async fn results_that_cannot_be_read_show_that_the_upstream_is_ill() {
    let bench = Bench::new(policy());
    let operation = completed(&bench).await;
    bench.upstream.say("result", result(Err(Trouble::ill("503 on the result"))));
    for _ in 0..5 {
        operation.result().await.unwrap_err();
    }
    let health = bench.engine.health("u", HealthPolicy::default());
    let error = health.try_read().unwrap_err().to_string();
    assert!(error.contains("503 on the result"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_one_engine_has_learnt_of_an_upstream_the_others_of_its_process_know() {
    let healths = Healths::default();
    let bench = || Bench::sharing(healths.clone(), Arc::default(), Arc::default(), policy(), 1);
    let (one, other) = (bench(), bench());
    let _ill = fall_ill(&one).await;
    let mut operation = other.start().await;
    let row = until(&mut operation, |row| row.last_error.is_some()).await;
    assert!(row.last_error.as_deref().unwrap().contains("left alone since"), "{row:?}");
    assert_eq!(other.upstream.sent.lock().unwrap().len(), 0, "it is not asked once more by each");
}
