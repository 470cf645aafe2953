//! Whose call a cancel means, and whose operations one may see.

use super::{opened, running, stage, status};
use crate::points::count;
use crate::stage::{Caller, Session};
use countermand_testkit::{
    client::message,
    fake::{Filter, Gate, Route},
};
use serde_json::{Value, json};

/// testing.md 21 and cases.md 33: equal and adjacent ids of two clients, and ids that differ in type only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_stops_the_call_of_its_own_session_and_its_own_type_of_id() {
    let stage = stage().await;
    let (gateway, one) = opened(&stage, "2025-11-25").await;
    let two = Session::open(&gateway.client, "2025-06-18").await;
    let calls: [(&Session, Value, &str); 6] = [
        (&one, json!(1), "one-1"),
        (&one, json!("1"), "one-text"),
        (&one, json!(2), "one-2"),
        (&two, json!(1), "two-1"),
        (&two, json!("1"), "two-text"),
        (&two, json!(2), "two-2"),
    ];
    let mut open = Vec::new();
    for (n, (session, id, tag)) in (1..).zip(&calls) {
        open.push(super::call(session, id.clone(), "run_report", tag).await);
        stage.fake.wait_for("job_created", n).await;
    }
    // A stateless client's, with the same id as well.
    let mut stateless = gateway.client.call(1, "run_report", json!({ "tag": "stateless" })).await;
    stage.fake.wait_for("job_created", 7).await;
    one.cancel(&json!(1), None).await;
    two.cancel(&json!("1"), None).await;
    one.cancel(&json!(3), None).await;
    stage.fake.wait_for("job_cancelled", 2).await;
    one.barrier().await;
    two.barrier().await;
    let live: Vec<String> = stage.fake.live_jobs().into_iter().filter_map(|job| job.tag).collect();
    assert_eq!(live, ["one-text", "one-2", "two-1", "two-2", "stateless"]);
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 2);
    for job in stage.fake.live_jobs() {
        assert!(stage.fake.finish(&job.id));
    }
    for (nth, tag) in [(1, "one-text"), (2, "one-2"), (3, "two-1"), (5, "two-2")] {
        let answer = open[nth].response().await;
        assert_eq!(answer["id"], calls[nth].1);
        assert_eq!(answer["result"]["structuredContent"]["tag"], tag);
    }
    assert_eq!(stateless.response().await["result"]["structuredContent"]["tag"], "stateless");
    stage.settled(7).await;
    stage.finish(Caller::Session(Box::new(gateway), one), &[]).await;
}

/// cases.md 17: whatever races, each cancel finds its own call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_sessions_with_equal_ids_exactly_the_cancelled_calls_stop_whatever_races() {
    const SESSIONS: usize = 12;
    let stage = stage().await;
    let (gateway, first) = opened(&stage, "2025-11-25").await;
    let mut sessions = vec![first];
    while sessions.len() < SESSIONS {
        sessions.push(Session::open(&gateway.client, "2025-11-25").await);
    }
    let called = sessions.iter().enumerate().map(|(nth, session)| async move {
        let mut open = Vec::new();
        for id in 1..=2 {
            open.push(super::call(session, id, "run_report", &format!("{nth}-{id}")).await);
        }
        open
    });
    let mut open = futures_util::future::join_all(called).await;
    stage.fake.wait_for("job_created", SESSIONS * 2).await;
    // Even sessions cancel their first call, odd ones their second: all at once.
    let cancels = sessions.iter().enumerate().map(|(nth, session)| session_cancel(session, 1 + nth % 2));
    futures_util::future::join_all(cancels).await;
    stage.fake.wait_for("job_cancelled", SESSIONS).await;
    let mut live: Vec<String> = stage.fake.live_jobs().into_iter().filter_map(|job| job.tag).collect();
    live.sort();
    let mut expected: Vec<String> = (0..SESSIONS).map(|nth| format!("{nth}-{}", 2 - nth % 2)).collect();
    expected.sort();
    assert_eq!(live, expected);
    for job in stage.fake.live_jobs() {
        assert!(stage.fake.finish(&job.id));
    }
    for (nth, open) in open.iter_mut().enumerate() {
        let kept = 2 - nth % 2;
        let answer = open[kept - 1].response().await;
        assert_eq!(answer["result"]["structuredContent"]["tag"], format!("{nth}-{kept}"));
    }
    stage.settled(SESSIONS * 2).await;
    let session = sessions.swap_remove(0);
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

async fn session_cancel(session: &Session, id: usize) {
    session.cancel(&json!(id), None).await;
}

/// cases.md 32: what we say and what the upstream does agree, at every moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_is_said_only_once_the_upstream_has_stopped() {
    let stage = stage().await;
    let (gateway, session) = opened(&stage, "2025-11-25").await;
    let mut exchange = running(&stage, &session, 1, "run_report", "t").await;
    let held =
        stage.fake.hold(Gate::CancelReceived, Filter { route: Some(Route::CancelJob), ..Filter::default() });
    session.cancel(&json!(1), Some("enough")).await;
    held.reached().await;
    let said = status(&session).await["structuredContent"]["operations"][0].clone();
    assert_eq!((&said["status"], &said["settled"]), (&json!("cancel_pending"), &json!(false)), "{said:#}");
    assert_eq!(stage.fake.live_jobs().len(), 1, "and so it is");
    held.release();
    stage.phase("cancelled").await;
    let said = status(&session).await["structuredContent"]["operations"][0].clone();
    assert_eq!((&said["status"], &said["settled"]), (&json!("stopped"), &json!(true)), "{said:#}");
    assert_eq!(stage.fake.live_jobs().len(), 0);
    assert!(exchange.messages().await.iter().all(|message| message.get("id").is_none()));
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}

/// A session sees its own operations, and nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_told_of_its_own_operations_only() {
    let stage = stage().await;
    let (gateway, one) = opened(&stage, "2025-11-25").await;
    let two = Session::open(&gateway.client, "2025-11-25").await;
    let _open = running(&stage, &one, 1, "run_report", "t").await;
    let mine = status(&one).await;
    let id = mine["structuredContent"]["operations"][0]["id"].clone();
    assert!(id.is_string(), "{mine:#}");
    assert_eq!(status(&two).await["structuredContent"]["operations"], json!([]));
    let asked = message::call(9, "cancellation_status", json!({ "operation": id }));
    let theirs = two.send(&asked).await.response().await;
    assert_eq!(theirs["result"]["structuredContent"]["operations"], json!([]), "{theirs:#}");
    let rows = stage.operations().await;
    let text = rows[0].to_string();
    assert!(!text.contains(&one.id), "the session's id is its client's secret: {text}");
    assert!(!gateway.logs().contains(&one.id));
    assert_eq!(rows[0]["principal"], format!("session:{}", rows[0]["session"].as_str().unwrap()));
    assert!(stage.fake.finish("job-1"));
    stage.settled(1).await;
    stage.finish(Caller::Session(Box::new(gateway), one), &[]).await;
}
