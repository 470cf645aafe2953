//! Between two gateways nobody acts: what is owed stays owed and visible, and nothing is said to be done that is not.

use super::{Caller, Stage, running, tagged, within};
use crate::{
    over_all,
    stage::{Door, Times, signal},
};
use countermand_testkit::{
    client::{StdioClient, message},
    fake::{Filter, Gate, HeldGate, Route},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

over_all! {
    /// cases.md 26: a cancel was taken, and nobody is there to carry it out.
    async fn a_wanted_cancel_that_nobody_is_there_to_send_is_visibly_pending_and_never_done(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        let cause = caller.cause();
        caller.cancel(pending).await;
        held.reached().await;
        caller.kill().await;
        held.release();
        stage.fake.wait_for("closed_early", 1).await;
        for _ in 0..3 {
            let row = stage.operations().await.remove(0);
            assert_eq!((&row["settled"], &row["desired"], &row["cause"]), (&json!(false), &json!("cancel"), &json!(cause)));
            let shown = stage.outcome(&["ops", "show", row["id"].as_str().unwrap()]).await.exited(0).stdout;
            assert!(shown.contains("The cancel is pending: the upstream has not confirmed that it stopped."), "{shown}");
        }
        assert_eq!(stage.agree().await.live, 1, "and so it is");
        let next = Caller::at(door, &stage).await;
        let row = stage.phase("cancelled").await;
        let shown = stage.outcome(&["ops", "show", row["id"].as_str().unwrap()]).await.exited(0).stdout;
        assert!(shown.contains("It was stopped: the upstream confirmed it."), "{shown}");
        assert_eq!(stage.agree().await.cancelled, 1);
        drop(next);
    }
}

over_all! {
    /// The same where there is a gateway, and it does nothing.
    async fn a_cancel_asked_of_a_gateway_that_is_frozen_is_not_said_to_be_done_and_is_done_when_it_goes_on(door) {
        let stage = Stage::new().await;
        let (caller, pending) = running(door, &stage, "run_report").await;
        let row = stage.phase("running").await;
        signal(Some(caller.pid()), "STOP");
        let said = stage.outcome(&["ops", "cancel", row["id"].as_str().unwrap(), "--no-wait"]).await.exited(0);
        assert!(said.stdout.contains("It is running upstream.") && !said.stdout.contains("stopped"), "{}", said.stdout);
        assert_eq!(stage.agree().await.live, 1, "and so it is");
        signal(Some(caller.pid()), "CONT");
        assert_eq!(stage.phase("cancelled").await["cause"], "operator");
        assert_eq!(stage.agree().await.cancelled, 1);
        drop((caller, pending));
    }
}

/// A client of a gateway whose job has been stopped by the end of stdin, and whose undo is held.
async fn undoing(stage: &Stage, grace: &str) -> (StdioClient, HeldGate) {
    let route = Filter { route: Some(Route::DeleteRows), ..Filter::default() };
    let held = stage.fake.hold(Gate::RequestHead, route);
    let mut client = StdioClient::spawn(stage.serve(&["--grace", grace])).unwrap();
    client.initialize("2025-11-25").await;
    client.send(&message::call(1, "with_undo", tagged("t"))).await;
    stage.fake.wait_for("job_polled", 1).await;
    client.close_input();
    held.reached().await;
    (client, held)
}

/// cases.md 13: a client closes stdin, and sends SIGTERM when that takes too long for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sigterm_behind_the_end_of_stdin_does_not_keep_the_undo_from_being_done() {
    let stage = Stage::new().await;
    let (mut client, held) = undoing(&stage, "10s").await;
    signal(client.pid(), "TERM");
    signal(client.pid(), "TERM");
    held.release();
    assert!(client.exit().await.success());
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("compensated"), &json!("client_disconnected")));
    assert_eq!(stage.fake.rows("t"), 0);
}

/// The same with an upstream that hangs: the grace bounds the exit, and what is owed is visible and done by the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_that_outlasts_the_grace_after_stdin_and_sigterm_is_visible_and_done_by_the_next_start() {
    let stage = Stage::new().await;
    let (client, held) = undoing(&stage, "3s").await;
    let since = Instant::now();
    signal(client.pid(), "TERM");
    let said = Caller::Stdio(Box::new(client)).ended().await;
    within(Duration::from_secs(6), since, "an exit with a grace of three seconds and an undo that hangs");
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["settled"]), (&json!("compensating"), &json!(false)));
    assert!(said.contains("left in the ledger") && said.contains(row["id"].as_str().unwrap()), "{said}");
    assert_eq!(stage.fake.rows("t"), 1, "not undone yet, and nobody says so");
    held.release();
    let _next = Caller::at(Door::Stdio, &stage).await;
    stage.phase("compensated").await;
    assert_eq!(stage.fake.rows("t"), 0);
}

/// The same for a client that loses its patience: SIGKILL comes last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_that_a_sigkill_cuts_off_after_stdin_and_sigterm_is_done_by_the_next_start() {
    let stage = Stage::new().await;
    let (mut client, held) = undoing(&stage, "1m").await;
    signal(client.pid(), "TERM");
    client.kill().await;
    assert_eq!(stage.operations().await[0]["phase"], "compensating");
    held.release();
    let _next = Caller::at(Door::Stdio, &stage).await;
    stage.phase("compensated").await;
    assert_eq!(stage.fake.rows("t"), 0);
}
