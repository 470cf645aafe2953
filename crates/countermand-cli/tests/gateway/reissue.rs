//! `on_reissue: attach`: an identical call joins the operation that still runs.

use crate::points::count;
use crate::stage::{Caller, Door, Session, Stage};
use countermand_testkit::client::message;
use serde_json::{Value, json};

const TOOLS: &str = r#"
  shared:
    input: *input
    upstream: reports
    job: *job
    on_disconnect: { grace: 5s }
    on_reissue: attach
  shared_at_once:
    input: *input
    upstream: reports
    job: *job
    on_disconnect: cancel
    on_reissue: attach
  shared_with_timeout:
    input: *input
    upstream: reports
    job: *job
    timeout: 3s
    on_reissue: attach
"#;

async fn stage() -> Stage {
    Stage::with_more("", TOOLS).await
}

fn tagged(tag: &str) -> Value {
    json!({ "tag": tag })
}

/// cases.md 25: a client whose connection broke calls again, as 2026-07-28 tells it to: there is one job upstream, and who
/// asks gets its result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_made_again_after_its_connection_broke_joins_its_job() {
    let stage = stage().await;
    let gateway = stage.http().await;
    let first = gateway.client.call(1, "shared", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    first.reset();
    let away = |rows: &[Value]| rows.len() == 1 && rows[0]["disconnect_at"].is_string();
    stage.operations_when("a grace", away).await;
    let mut again = gateway.client.call_with_progress(2, "shared", tagged("t")).await;
    let started = again.progress().await;
    assert!(started["params"]["message"].as_str().unwrap().contains("job-1"), "{started}");
    stage.operations_when("no grace", |rows| rows[0]["disconnect_at"].is_null()).await;
    assert!(stage.fake.finish("job-1"));
    assert_eq!(again.response().await["result"]["structuredContent"]["tag"], "t");
    stage.phase("completed").await;
    let books = stage.agree().await;
    assert_eq!((books.created, books.cancelled), (1, 0));
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}

/// Two calls of one caller at once: one job, and both are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identical_calls_at_the_same_time_make_one_job_and_each_gets_its_result() {
    for door in [Door::Stdio, Door::Http, Door::Session] {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut first = caller.call(1, "shared", tagged("t")).await;
        let mut second = caller.call(2, "shared", tagged("t")).await;
        let other = caller.call(3, "shared", tagged("other")).await;
        stage.fake.wait_for("job_created", 2).await;
        caller.barrier().await;
        let job = stage.fake.jobs().into_iter().find(|job| job.tag.as_deref() == Some("t")).unwrap();
        assert!(stage.fake.finish(&job.id));
        for pending in [&mut first, &mut second] {
            assert_eq!(caller.answer(pending).await["structuredContent"]["tag"], "t");
        }
        caller.cancel(other).await;
        if door == Door::Http {
            // There leaving is not a cancel for this tool, but its grace; the shutdown below cancels it.
            stage
                .operations_when("a grace", |rows| rows.iter().any(|row| row["disconnect_at"].is_string()))
                .await;
        } else {
            stage.fake.wait_for("job_cancelled", 1).await;
        }
        assert_eq!(count(&stage.fake.events(), "job_created"), 2, "{door:?}");
        stage.finish(caller, &[3]).await;
    }
}

/// A cancel by one of them detaches that one; the last one cancels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cancel_of_one_of_two_leaves_the_job_to_the_other_and_the_last_one_stops_it() {
    for door in [Door::Stdio, Door::Http, Door::Session] {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let first = caller.call_of(1, "shared_at_once", tagged("t")).await;
        let second = caller.call_of(2, "shared_at_once", tagged("t")).await;
        caller.cancel(first).await;
        caller.barrier().await;
        // A later identical call still finds it running.
        let third = caller.call_of(3, "shared_at_once", tagged("t")).await;
        let row = stage.operations().await.remove(0);
        assert_eq!((&row["desired"], &row["phase"]), (&json!("run"), &json!("running")), "{door:?}");
        caller.cancel(second).await;
        caller.cancel(third).await;
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], caller.cause());
        assert_eq!(count(&stage.fake.events(), "cancel_received"), 1, "{door:?}");
        assert_eq!(stage.agree().await.created, 1);
        stage.finish(caller, &[1, 2, 3]).await;
    }
}

/// A call that takes too long leaves those that came later with the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeout_of_one_call_is_its_own_while_others_wait() {
    let stage = stage().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut first = caller.call_of(1, "shared_with_timeout", tagged("t")).await;
    stage.fake.wait_for("job_polled", 3).await;
    let mut second = caller.call_of(2, "shared_with_timeout", tagged("t")).await;
    let said = caller.answer(&mut first).await;
    let text = said["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("timeout of 3s") && text.contains("Other calls wait for it"), "{text}");
    let row = stage.operations().await.remove(0);
    assert_eq!(row["desired"], "run");
    let said = caller.answer(&mut second).await;
    assert_eq!(said["isError"], true);
    assert_eq!(stage.phase("cancelled").await["cause"], "deadline");
    assert_eq!(stage.agree().await.created, 1);
    stage.finish(caller, &[]).await;
}

/// cases.md 25, the other half: a job that is being cancelled is joined by nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_after_a_cancel_starts_anew_and_the_cancelled_job_still_stops() {
    let stage = stage().await;
    let mut caller = Caller::at(Door::Session, &stage).await;
    let first = caller.call(1, "shared", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    caller.cancel(first).await;
    let mut again = caller.call(2, "shared", tagged("t")).await;
    stage.fake.wait_for("job_created", 2).await;
    stage.fake.wait_for("job_cancelled", 1).await;
    assert!(stage.fake.finish("job-2"));
    assert_eq!(caller.answer(&mut again).await["structuredContent"]["tag"], "t");
    let rows = stage.settled(2).await;
    assert_eq!((&rows[0]["phase"], &rows[1]["phase"]), (&json!("completed"), &json!("cancelled")));
    stage.finish(caller, &[1]).await;
}

/// Never across principals: the sessions of two clients do not share what they start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_two_sessions_never_share_a_job() {
    let stage = stage().await;
    let gateway = stage.http().await;
    let one = Session::open(&gateway.client, "2025-11-25").await;
    let two = Session::open(&gateway.client, "2025-11-25").await;
    let mut open = Vec::new();
    for session in [&one, &two] {
        open.push(session.send(&message::call(1, "shared", tagged("t"))).await);
    }
    stage.fake.wait_for("job_created", 2).await;
    for job in ["job-1", "job-2"] {
        assert!(stage.fake.finish(job));
    }
    for exchange in &mut open {
        assert_eq!(exchange.response().await["result"]["isError"], false);
    }
    stage.settled(2).await;
    stage.finish(Caller::Session(Box::new(gateway), one), &[]).await;
}

/// After our own death the row is all there is: the call that is made again joins what was recovered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_made_again_after_a_crash_joins_what_was_recovered() {
    let stage = stage().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let _lost = caller.call(1, "shared", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    caller.kill().await;
    let mut next = Caller::at(Door::Stdio, &stage).await;
    let mut again = next.call(1, "shared", tagged("t")).await;
    next.barrier().await;
    stage.operations_when("no grace", |rows| rows[0]["disconnect_at"].is_null()).await;
    assert!(stage.fake.finish("job-1"));
    assert_eq!(next.answer(&mut again).await["structuredContent"]["tag"], "t");
    stage.phase("completed").await;
    assert_eq!(stage.agree().await.created, 1);
    stage.finish(next, &[]).await;
}
