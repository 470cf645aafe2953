//! `ops cancel`: through the gateway that drives the row, or without one.

use super::{a_running_job, has_all_keys, id, tagged};
use crate::{
    over_all,
    stage::{Caller, Door, Outcome, Stage},
};
use countermand_testkit::fake::{Filter, Gate};
use serde_json::{Value, json};

over_all! {
    async fn a_cancel_by_an_operator_goes_through_the_gateway_that_drives_the_row(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tagged("t")).await;
        stage.fake.wait_for("job_polled", 1).await;
        let row = stage.operations().await.remove(0);
        let said = stage.outcome(&["ops", "cancel", id(&row), "--note", "too dear"]).await.exited(0);
        assert!(said.stdout.contains("the upstream confirmed it"), "{}", said.stdout);
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("an operator cancelled it"), "{result}");
        let row = stage.operations().await.remove(0);
        assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
        assert_eq!(row["reason"], json!(null), "that is the client's text");
        let shown = stage.outcome(&["ops", "show", id(&row)]).await.exited(0).stdout;
        assert!(shown.contains("operator: too dear"), "{shown}");
        assert_eq!(stage.agree().await.cancelled, 1);
        let again = stage.outcome(&["ops", "cancel", id(&row)]).await.exited(0);
        assert!(again.stdout.contains("nothing to cancel"), "{}", again.stdout);
    }
}

over_all! {
    async fn a_cancel_by_an_operator_without_a_gateway_takes_the_lock_and_drives_the_row(door) {
        let stage = Stage::new().await;
        let (mut caller, row) = a_running_job(door, &stage).await;
        caller.kill().await;
        let said = stage.outcome(&["ops", "cancel", id(&row), "--note", "too dear", "--json"]).await.exited(0);
        let row: Value = serde_json::from_str(&said.stdout).unwrap();
        has_all_keys(&row);
        assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
        assert_eq!(row["reason"], json!(null));
        let shown = stage.outcome(&["ops", "show", id(&row)]).await.exited(0).stdout;
        assert!(shown.contains("operator: too dear"), "{shown}");
        assert_eq!(stage.agree().await.cancelled, 1);
        // The lock is free again, and nothing is left to do.
        let _next = Caller::at(door, &stage).await;
        assert_eq!(stage.operations().await[0]["cause"], "operator");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_gateway_only_the_named_row_is_driven() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    for call in 1..=2 {
        caller.call(call, "run_report", tagged(&format!("t{call}"))).await;
        stage.fake.wait_for("job_created", usize::try_from(call).unwrap()).await;
    }
    let rows = stage
        .operations_when("two that run", |rows| {
            rows.len() == 2 && rows.iter().all(|row| row["phase"] == "running")
        })
        .await;
    caller.kill().await;
    let first = rows.iter().find(|row| row["upstream_id"] == "job-1").unwrap();
    stage.outcome(&["ops", "cancel", id(first)]).await.exited(0);
    let live = stage.fake.live_jobs();
    assert_eq!((live.len(), live[0].id.as_str()), (1, "job-2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_without_a_gateway_of_a_create_whose_answer_was_lost_finds_the_job_and_stops_it() {
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    caller.call(1, "run_report", tagged("t")).await;
    held.reached().await;
    let row = stage.operations().await.remove(0);
    assert_eq!(row["phase"], "dispatched");
    caller.kill().await;
    held.release();
    stage.outcome(&["ops", "cancel", id(&row)]).await.exited(0);
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
    assert_eq!(stage.agree().await.cancelled, 1);
}

/// `ops cancel ID`, running.
fn cancelling(stage: &Stage, row: &Value) -> tokio::process::Child {
    let mut command = stage.command(&["ops", "cancel", id(row), "-c"]);
    command
        .arg(stage.config())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_whose_gateway_is_killed_meanwhile_goes_on_by_itself() {
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let (mut caller, row) = a_running_job(Door::Http, &stage).await;
    let mut command = cancelling(&stage, &row);
    held.reached().await;
    caller.kill().await;
    held.release();
    assert!(command.wait().await.unwrap().success());
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_cancels_at_once_without_a_gateway_take_turns() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    for call in 1..=2 {
        caller.call(call, "run_report", tagged(&format!("t{call}"))).await;
    }
    let rows = stage
        .operations_when("two that run", |rows| {
            rows.len() == 2 && rows.iter().all(|row| row["phase"] == "running")
        })
        .await;
    caller.kill().await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let mut first = cancelling(&stage, &rows[0]);
    held.reached().await;
    let mut second = cancelling(&stage, &rows[1]);
    held.release();
    assert!(first.wait().await.unwrap().success());
    assert!(second.wait().await.unwrap().success());
    assert!(
        stage.operations().await.iter().all(|row| row["phase"] == "cancelled" && row["cause"] == "operator")
    );
    assert_eq!(stage.agree().await.cancelled, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_is_killed_while_it_drives_the_row_leaves_it_wanted_for_the_next_start() {
    let stage = Stage::new().await;
    let (mut caller, row) = a_running_job(Door::Stdio, &stage).await;
    caller.kill().await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let mut command = cancelling(&stage, &row);
    held.reached().await;
    command.kill().await.unwrap();
    held.release();
    let left = stage.operations().await.remove(0);
    assert_eq!((&left["settled"], &left["cause"]), (&json!(false), &json!("operator")));
    let _next = stage.stdio().await;
    assert_eq!(stage.phase("cancelled").await["cause"], "operator");
    stage.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_finds_a_cancel_at_work_is_told_whose_the_lock_is_and_one_that_did_not_wait_has_let_go()
 {
    let stage = Stage::new().await;
    let (mut caller, row) = a_running_job(Door::Http, &stage).await;
    caller.kill().await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let mut command = cancelling(&stage, &row);
    held.reached().await;
    let refused = Outcome::of(stage.serve(&["--http", "127.0.0.1:0"])).await.exited(1);
    let pid = command.id().unwrap();
    assert!(refused.stderr.contains(&format!("(process {pid}) holds it")), "{}", refused.stderr);
    command.kill().await.unwrap();
    // The cancel is wanted already; who does not wait only makes sure of that.
    stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
    let _gateway = stage.http().await;
    held.release();
    assert_eq!(stage.phase("cancelled").await["cause"], "operator");
    assert_eq!(stage.agree().await.cancelled, 1);
}
