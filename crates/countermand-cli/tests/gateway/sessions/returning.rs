//! The client comes back: within its grace, and not a moment too late.

use super::{REVISIONS, call, opened, running, stage};
use crate::points::count;
use crate::stage::{Caller, Stage};
use countermand_testkit::client::message;
use serde_json::{Value, json};

/// Waits until the ledger shows whether a grace runs.
async fn grace_runs(stage: &Stage, runs: bool) {
    stage
        .operations_when("a grace", |rows| rows.len() == 1 && rows[0]["disconnect_at"].is_string() == runs)
        .await;
}

/// Resumed by the id of the last event: what was missed is replayed, the rest follows, and nothing was cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_resumes_its_stream_gets_the_result_and_nothing_was_cancelled() {
    for revision in REVISIONS {
        let stage = stage().await;
        let (gateway, session) = opened(&stage, revision).await;
        let mut exchange = call(&session, 1, "run_report", "t").await;
        let started = exchange.progress().await;
        assert!(started["params"]["message"].as_str().unwrap().contains("job-1"), "{started}");
        drop(exchange);
        grace_runs(&stage, true).await;
        let mut back = session.get(Some("1-0")).await;
        assert_eq!(back.progress().await, started, "what came after that event is replayed");
        grace_runs(&stage, false).await;
        assert!(stage.fake.finish("job-1"));
        let answer = back.response().await;
        assert_eq!(answer["id"], 1);
        assert_eq!(answer["result"]["structuredContent"]["tag"], "t", "{answer:#}");
        let row = stage.phase("completed").await;
        assert_eq!((&row["cause"], count(&stage.fake.events(), "cancel_received")), (&json!(null), 0));
        stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_request_of_the_session_ends_the_grace_and_the_result_is_kept() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let exchange = running(&stage, &session, 1, "run_report", "t").await;
    drop(exchange);
    grace_runs(&stage, true).await;
    session.barrier().await;
    grace_runs(&stage, false).await;
    assert!(stage.fake.finish("job-1"));
    stage.phase("completed").await;
    let mut back = session.get(Some("1-0")).await;
    assert_eq!(back.response().await["result"]["structuredContent"]["tag"], "t");
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// Each time that a client leaves it has its whole grace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_comes_and_goes_is_cancelled_only_when_it_stays_away() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let mut exchange = running(&stage, &session, 1, "with_grace", "t").await;
    for _ in 0..4 {
        drop(exchange);
        grace_runs(&stage, true).await;
        exchange = session.get(Some("1-0")).await;
        exchange.progress().await;
        grace_runs(&stage, false).await;
    }
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
    drop(exchange);
    assert_eq!(stage.phase("cancelled").await["cause"], "client_disconnected");
    let head = session.get(Some("1-0")).await.head().await;
    assert_eq!(head.status, 204, "there is nothing to come back for");
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// While its client is away an answer is held: whether it was told or undone is decided once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_came_while_the_client_was_away_is_delivered_to_who_returns_and_undone_for_who_does_not()
 {
    for returns in [true, false] {
        let stage = stage().await;
        let (gateway, session) = opened(&stage, "2025-11-25").await;
        let exchange = running(&stage, &session, 1, "with_grace_and_undo", "t").await;
        drop(exchange);
        grace_runs(&stage, true).await;
        assert!(stage.fake.finish("job-1"));
        if returns {
            stage.operations_when("its end", |rows| rows[0]["phase"] == "ended").await;
            let mut back = session.get(Some("1-0")).await;
            assert_eq!(back.response().await["result"]["structuredContent"]["tag"], "t");
            let row = stage.phase("completed").await;
            assert_eq!(row["cause"], Value::Null);
            assert_ne!(stage.fake.rows("t"), 0, "its effects stay");
        } else {
            let row = stage.phase("compensated").await;
            assert_eq!(
                (&row["outcome"], &row["cause"]),
                (&json!("completed"), &json!("client_disconnected"))
            );
            assert_eq!(stage.fake.rows("t"), 0);
            assert_eq!(session.get(Some("1-0")).await.head().await.status, 204, "and nothing is told");
        }
        stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
    }
}

/// A cancel of a client that cannot read its stream any more is a cancel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_after_the_stream_broke_stops_the_job_at_once() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let exchange = running(&stage, &session, 1, "run_report", "t").await;
    drop(exchange);
    grace_runs(&stage, true).await;
    session.cancel(&json!(1), Some("stop")).await;
    let row = stage.phase("cancelled").await;
    assert_eq!((&row["cause"], &row["reason"]), (&json!("client_cancelled"), &json!("stop")));
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// A detached job's client that comes back gets its result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_a_detached_job_may_come_back_for_its_result() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    drop(running(&stage, &session, 1, "detached", "t").await);
    assert!(stage.fake.finish("job-1"));
    stage.phase("completed").await;
    let mut back = session.get(Some("1-0")).await;
    assert_eq!(back.response().await["result"]["structuredContent"]["tag"], "t");
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// A read that ends while its client is away: the answer waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_whose_client_returns_in_time_is_not_aborted() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let exchange = call(&session, 1, "search_with_grace", "t").await;
    stage.fake.wait_for("slow_started", 1).await;
    drop(exchange);
    let mut back = session.get(Some("1-0")).await;
    assert_eq!(back.head().await.status, 200);
    assert_eq!(stage.fake.release_slow(Some("t")), 1);
    assert_eq!(back.response().await["result"]["isError"], false);
    assert_eq!(count(&stage.fake.events(), "closed_early"), 0);
    let pinged = session.send(&message::request(2, "ping", json!({}))).await.response().await;
    assert_eq!(pinged["result"], json!({}));
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}
