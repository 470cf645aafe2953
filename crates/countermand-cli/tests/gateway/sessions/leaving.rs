//! The client leaves: its policy decides, and the ledger tells the causes apart.

use super::{REVISIONS, call, opened, running, stage, status};
use crate::points::count;
use crate::stage::{Caller, Session};
use countermand_testkit::client::message;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Case 24: a 2025 client that disconnects has not cancelled; it has its grace, and then it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stays_away_for_longer_than_its_grace_has_cancelled() {
    for (revision, json) in REVISIONS.into_iter().flat_map(|revision| [(revision, false), (revision, true)]) {
        let stage = stage().await;
        if json {
            stage.configure(|config| {
                config.replace("server: { name: stage }", "server: { name: stage, http: { json: true } }")
            });
        }
        let (gateway, session) = opened(&stage, revision).await;
        let exchange = running(&stage, &session, 1, "with_grace", "t").await;
        let left = Instant::now();
        drop(exchange);
        stage.fake.wait_for("cancel_received", 1).await;
        assert!(left.elapsed() >= Duration::from_secs(1), "{revision}: {:?}", left.elapsed());
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], "client_disconnected");
        stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
    }
}

/// Without a word in the config the grace is 30 s, and the ledger says until when.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grace_of_a_2025_session_is_thirty_seconds_unless_its_tool_says_otherwise() {
    let stage = stage().await;
    let (_gateway, session) = opened(&stage, "2025-11-25").await;
    let exchange = running(&stage, &session, 1, "run_report", "t").await;
    drop(exchange);
    let away = |rows: &[serde_json::Value]| rows.len() == 1 && rows[0]["disconnect_at"].is_string();
    let row = stage.operations_when("a grace", away).await.remove(0);
    let at = |name: &str| row[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let grace = at("disconnect_at").duration_since(at("updated_at"));
    assert_eq!(grace.as_secs(), 30, "{row:#}");
    assert_eq!((&row["phase"], &row["desired"]), (&json!("running"), &json!("run")));
    let said = status(&session).await;
    assert_eq!(said["structuredContent"]["operations"][0]["settled"], false, "{said:#}");
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_says_cancel_is_cancelled_at_once_when_its_client_leaves() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let exchange = running(&stage, &session, 1, "strict", "t").await;
    drop(exchange);
    assert_eq!(stage.phase("cancelled").await["cause"], "client_disconnected");
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// cases.md 14: the opposite wish. The job goes on without its client and without the session, visible and bounded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_job_outlives_its_client_and_its_session_and_stays_visible_and_bounded() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let exchange = running(&stage, &session, 1, "detached", "t").await;
    drop(exchange);
    let said = status(&session).await;
    let operation = &said["structuredContent"]["operations"][0];
    assert_eq!((&operation["settled"], &operation["upstream_id"]), (&json!(false), &json!("job-1")));
    session.delete().await;
    // The next session's call is a barrier: the end of the first one has been dealt with.
    let other = Session::open(&gateway.client, "2025-11-25").await;
    let mut next = call(&other, 1, "quick", "q").await;
    next.response().await;
    let row = stage.operations().await.remove(0);
    assert_eq!(
        (&row["phase"], &row["desired"], &row["cause"]),
        (&json!("running"), &json!("run"), &json!(null))
    );
    assert!(row["hard_deadline"].is_string());
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
    assert!(stage.fake.finish("job-1"));
    assert_eq!(stage.phase("completed").await["outcome"], "completed");
    stage.finish(Caller::Session(Box::new(gateway), other), &[]).await;
}

/// Case 26: DELETE reaches the upstream at once, grace or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_cancels_its_calls_at_once_present_or_away() {
    let mut took = Vec::new();
    for revision in REVISIONS {
        let stage = stage().await;
        let (gateway, session) = opened(&stage, revision).await;
        let mut present = running(&stage, &session, 1, "run_report", "present").await;
        let away = running(&stage, &session, 2, "run_report", "away").await;
        let mut read = call(&session, 3, "search", "read").await;
        stage.fake.wait_for("slow_started", 1).await;
        drop(away);
        let gone = |rows: &[serde_json::Value]| rows.iter().any(|row| row["disconnect_at"].is_string());
        stage.operations_when("a grace", gone).await;
        let deleted = Instant::now();
        session.delete().await;
        stage.fake.wait_for("cancel_received", 2).await;
        stage.fake.wait(|events| events.iter().any(|event| event.is("closed_early"))).await;
        took.push(deleted.elapsed());
        for row in stage.settled(2).await {
            assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("session_ended")));
        }
        for exchange in [&mut present, &mut read] {
            let said = exchange.messages().await;
            assert!(said.iter().all(|message| message.get("id").is_none()), "no answer: {said:?}");
        }
        let other = Session::open(&gateway.client, revision).await;
        stage.finish(Caller::Session(Box::new(gateway), other), &[]).await;
    }
    println!("from DELETE to the upstream's cancels: {took:?}");
    assert!(took.iter().all(|took| *took <= Duration::from_millis(500)), "{took:?}");
}

/// A read has no row: the same policies hold for its request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_aborted_when_the_grace_is_over_and_never_when_it_is_detached() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let detached = call(&session, 1, "search_detached", "detached").await;
    stage.fake.wait_for("slow_started", 1).await;
    drop(detached);
    let waits = call(&session, 2, "search_with_grace", "waits").await;
    stage.fake.wait_for("slow_started", 2).await;
    let left = Instant::now();
    drop(waits);
    stage.fake.wait_for("closed_early", 1).await;
    assert!(left.elapsed() >= Duration::from_secs(1), "{:?}", left.elapsed());
    assert_eq!(count(&stage.fake.events(), "closed_early"), 1, "the other one runs on");
    assert_eq!(stage.fake.release_slow(Some("detached")), 1);
    // What it returned is kept for its client.
    let mut back = session.get(Some("1-0")).await;
    assert_eq!(back.response().await["result"]["isError"], false);
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// cases.md 10: the ledger tells apart what looks the same to a client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_tells_a_cancel_a_disconnect_a_session_s_end_and_a_timeout_apart() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-06-18").await;
    let other = Session::open(&gateway.client, "2025-06-18").await;
    let silent = Session::open(&gateway.client, "2025-06-18").await;
    let mut kept = vec![running(&stage, &session, 1, "run_report", "cancelled").await];
    drop(running(&stage, &silent, 2, "with_grace", "left").await);
    kept.push(running(&stage, &other, 3, "run_report", "ended").await);
    let mut slow = running(&stage, &session, 4, "quick_timeout", "slow").await;
    session.cancel(&json!(1), Some("enough")).await;
    other.delete().await;
    let said = slow.response().await;
    assert_eq!(said["result"]["isError"], true, "{said:#}");
    let rows = stage.settled(4).await;
    let told = |tag: &str| {
        let jobs = stage.fake.jobs();
        let job = jobs.iter().find(|job| job.tag.as_deref() == Some(tag)).unwrap();
        let row = rows.iter().find(|row| row["upstream_id"] == job.id.as_str()).unwrap();
        (row["cause"].as_str().unwrap().to_owned(), row["reason"].as_str().map(ToOwned::to_owned))
    };
    assert_eq!(told("cancelled"), ("client_cancelled".into(), Some("enough".into())));
    assert_eq!(told("left"), ("client_disconnected".into(), None));
    assert_eq!(told("ended"), ("session_ended".into(), None));
    assert_eq!(told("slow"), ("deadline".into(), None));
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// cases.md 6: a session does not expire under a call, however silent the call is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_call_outlives_the_idle_time_of_its_session() {
    let stage = stage().await;
    stage.configure(|config| {
        config.replace("server: { name: stage }", "server: { name: stage, http: { session_idle: 1s } }")
    });
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let mut silent = call(&session, 1, "search", "t").await;
    stage.fake.wait_for("slow_started", 1).await;
    // Three sessions in which nothing happens expire meanwhile, one after the other.
    for _ in 0..3 {
        let idle = Session::open(&gateway.client, "2025-11-25").await;
        expired(&idle).await;
    }
    assert_eq!(count(&stage.fake.events(), "closed_early"), 0);
    assert_eq!(stage.fake.release_slow(Some("t")), 1);
    assert_eq!(silent.response().await["result"]["isError"], false);
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// Waits until a session has expired, without a request that it would take for a sign of life: one of a revision that
/// nobody knows is refused before.
async fn expired(session: &Session) {
    let ping = message::request(1, "ping", json!({}));
    while session.client.in_session(Some(&session.id), "1999-01-01", &ping).await.head().await.status != 404 {
        tokio::task::yield_now().await;
    }
}

/// After our own death a session's client is gone; the policy of its tool still holds, its grace counted from then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_gives_the_jobs_of_sessions_their_grace_and_then_cancels_them() {
    let stage = stage().await;
    let (mut gateway, session) = opened(&stage, "2025-11-25").await;
    let _exchange = running(&stage, &session, 1, "with_grace", "t").await;
    gateway.kill().await;
    let restarted = Instant::now();
    let gateway = stage.http().await;
    stage.fake.wait_for("cancel_received", 1).await;
    assert!(restarted.elapsed() >= Duration::from_secs(1), "{:?}", restarted.elapsed());
    assert_eq!(stage.phase("cancelled").await["cause"], "client_disconnected");
    let unknown = Session { client: gateway.client.clone(), ..session };
    let head = unknown.send(&message::request(1, "ping", json!({}))).await.head().await;
    assert_eq!(head.status, 404, "its client begins a new session");
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}
