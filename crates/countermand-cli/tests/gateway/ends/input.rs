//! The end of stdin: every call of the client is cancelled at once, and the process ends.

use super::{Stage, tagged, within};
use crate::stage::Caller;
use countermand_testkit::{
    client::{StdioClient, message},
    fake::{Filter, Gate, Route},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_stdin_in_the_middle_of_a_job_cancels_it_upstream_within_half_a_second() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(1, "run_report", tagged("t"))).await;
    let before = stage.fake.wait_for("job_polled", 1).await.len();
    let closed = Instant::now();
    client.close_input();
    let events = stage.fake.wait_for("cancel_received", 1).await;
    within(Duration::from_millis(500), closed, "from the end of stdin to the upstream's cancel");
    assert!(!events[..before].iter().any(|event| event.is("cancel_received")), "not before the end");
    assert!(client.exit().await.success());
    within(Duration::from_secs(5), closed, "from the end of stdin to the exit, the cancel confirmed");
    assert!(client.read_to_end().await.is_empty(), "nothing is said to a client that has gone");
    let rows = stage.operations().await;
    assert_eq!((&rows[0]["phase"], &rows[0]["cause"]), (&json!("cancelled"), &json!("client_disconnected")));
    assert_eq!(rows[0]["reason"], json!(null));
    stage.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_stdin_with_many_calls_leaves_each_in_the_ledger_and_none_running() {
    const N: u64 = 100;
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    let calls: Vec<_> =
        (1..=N).map(|id| message::call(id, "run_report", tagged(&format!("t{id}")))).collect();
    client.send_at_once(&calls).await;
    stage.fake.wait_for("job_created", 100).await;
    let closed = Instant::now();
    client.close_input();
    stage.fake.wait_for("cancel_received", 100).await;
    within(Duration::from_secs(3), closed, "from the end of stdin to the last of 100 cancels");
    assert!(client.exit().await.success());
    let rows = stage.operations().await;
    assert_eq!(rows.len(), 100);
    for row in rows {
        assert_eq!(row["phase"], "cancelled", "{row:#}");
        assert_eq!(row["cause"], "client_disconnected", "{row:#}");
    }
    let books = stage.agree().await;
    assert_eq!((books.created, books.cancelled), (100, 100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_stdin_right_behind_the_calls_leaves_no_job_that_is_in_no_row() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    let calls: Vec<_> =
        (1..=50).map(|id| message::call(id, "run_report", tagged(&format!("t{id}")))).collect();
    client.send_at_once(&calls).await;
    client.close_input();
    assert!(client.exit().await.success());
    let rows = stage.operations().await;
    assert!(rows.iter().all(|row| row["settled"] == true), "{rows:#?}");
    let books = stage.agree().await;
    println!("{} rows, {} jobs", rows.len(), books.created);
    assert_eq!(books.created, books.cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_stdin_while_creates_are_held_waits_for_their_ids_and_cancels_them() {
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
    let mut client = stage.stdio().await;
    let calls: Vec<_> =
        (1..=5).map(|id| message::call(id, "run_report", tagged(&format!("t{id}")))).collect();
    client.send_at_once(&calls).await;
    held.reached_n(5).await;
    client.close_input();
    stage
        .operations_when("five wanted cancels", |rows| {
            rows.iter().filter(|row| row["desired"] == "cancel").count() == 5
        })
        .await;
    held.release();
    assert!(client.exit().await.success());
    assert!(stage.operations().await.iter().all(|row| row["phase"] == "cancelled"));
    assert_eq!(stage.agree().await.cancelled, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_stdin_aborts_a_read_only_request() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(1, "search", tagged("t"))).await;
    stage.fake.wait_for("slow_started", 1).await;
    let closed = Instant::now();
    client.close_input();
    stage.fake.wait_for("closed_early", 1).await;
    within(Duration::from_millis(500), closed, "from the end of stdin to the upstream's abort");
    assert!(client.exit().await.success());
    assert!(stage.operations().await.is_empty(), "a read has no row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_hangs_upstream_holds_the_exit_no_longer_than_the_grace_and_the_next_start_finishes_it()
{
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let mut client = StdioClient::spawn(stage.serve(&["--grace", "1s"])).unwrap();
    client.initialize("2025-11-25").await;
    client.send(&message::call(1, "run_report", tagged("t"))).await;
    stage.fake.wait_for("job_polled", 1).await;
    client.close_input();
    held.reached().await;
    let reached = Instant::now();
    let said = Caller::Stdio(Box::new(client)).ended().await;
    within(Duration::from_secs(4), reached, "an exit with a grace of one second");
    let left = stage.operations().await.remove(0);
    assert_eq!((&left["settled"], &left["desired"]), (&json!(false), &json!("cancel")));
    assert!(said.contains("left in the ledger") && said.contains(left["id"].as_str().unwrap()), "{said}");
    assert!(said.contains("upstream_id=\"job-1\""), "{said}");
    held.release();
    let next = stage.stdio().await;
    stage.phase("cancelled").await;
    assert_eq!(stage.agree().await.cancelled, 1);
    drop(next);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_job_survives_the_end_of_stdin_and_is_followed_by_the_next_start() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(1, "detached", tagged("t"))).await;
    stage.fake.wait_for("job_polled", 1).await;
    client.close_input();
    let said = Caller::Stdio(Box::new(client)).ended().await;
    assert!(said.contains("left in the ledger"), "{said}");
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["desired"]), (&json!("running"), &json!("run")));
    let next = stage.stdio().await;
    let polls = stage.fake.events().iter().filter(|event| event.is("job_polled")).count();
    stage.fake.wait_for("job_polled", polls + 1).await;
    stage.fake.finish("job-1");
    stage.phase("completed").await;
    assert!(!stage.fake.events().iter().any(|event| event.is("cancel_received")));
    drop(next);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_stdin_while_the_undo_is_held_lets_it_finish() {
    let stage = Stage::new().await;
    let route = Filter { route: Some(Route::DeleteRows), ..Filter::default() };
    let held = stage.fake.hold(Gate::RequestHead, route);
    let mut client = stage.stdio().await;
    client.send(&message::call(1, "with_undo", tagged("t"))).await;
    stage.fake.wait_for("job_polled", 1).await;
    client.close_input();
    held.reached().await;
    held.release();
    assert!(client.exit().await.success());
    assert_eq!(stage.operations().await[0]["phase"], "compensated");
    assert_eq!(stage.fake.rows("t"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_hangs_holds_the_exit_no_longer_than_the_grace_and_the_next_start_finds_the_job() {
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
    let mut client = StdioClient::spawn(stage.serve(&["--grace", "500ms"])).unwrap();
    client.initialize("2025-11-25").await;
    client.send(&message::call(1, "run_report", tagged("t"))).await;
    held.reached().await;
    let closed = Instant::now();
    client.close_input();
    let said = Caller::Stdio(Box::new(client)).ended().await;
    within(Duration::from_secs(3), closed, "an exit with a grace of half a second and a create in flight");
    let left = stage.operations().await.remove(0);
    assert_eq!((&left["settled"], &left["cause"]), (&json!(false), &json!("client_disconnected")));
    for named in ["left in the ledger", left["id"].as_str().unwrap(), left["key"].as_str().unwrap()] {
        assert!(said.contains(named), "{named} is missing: {said}");
    }
    held.release();
    let _next = stage.stdio().await;
    stage.phase("cancelled").await;
    let books = stage.agree().await;
    assert_eq!((books.created, books.cancelled), (1, 1));
}
