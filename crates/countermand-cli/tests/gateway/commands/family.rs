//! Gateways side by side: one alone over HTTP, several on stdio, each with a ledger of its own.

use super::tagged;
use crate::stage::{Outcome, Stage, signal};
use countermand_testkit::{
    client::message,
    fake::{Filter, Gate},
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_http_gateway_on_the_same_ledger_is_refused_and_the_first_is_untouched() {
    let stage = Stage::new().await;
    let first = stage.http().await;
    let mut call = first.client.call(1, "run_report", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    let refused = Outcome::of(stage.serve(&["--http", "127.0.0.1:0"])).await.exited(1);
    let pid = first.process.id().unwrap().to_string();
    for word in [stage.ledger_file().display().to_string().as_str(), "another gateway", &pid, "--ledger"] {
        assert!(refused.stderr.contains(word), "`{word}` is missing: {}", refused.stderr);
    }
    assert!(refused.stdout.is_empty());
    assert!(!stage.dir.path().join("ledger.2.db").exists());
    stage.fake.finish("job-1");
    assert_eq!(call.response().await["result"]["isError"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_gateway_beside_a_stdio_gateway_on_the_same_ledger_is_refused() {
    let stage = Stage::new().await;
    let _first = stage.stdio().await;
    let refused = Outcome::of(stage.serve(&["--http", "127.0.0.1:0"])).await.exited(1);
    assert!(refused.stderr.contains("another gateway"), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stdio_gateways_on_one_config_work_side_by_side_and_are_listed_together() {
    let stage = Stage::new().await;
    let mut first = stage.stdio().await;
    let mut second = stage.stdio().await;
    assert!(stage.dir.path().join("ledger.2.db").exists());
    first.send(&message::call(1, "run_report", tagged("first"))).await;
    stage.fake.wait_for("job_created", 1).await;
    second.send(&message::call(1, "run_report", tagged("second"))).await;
    stage.fake.wait_for("job_created", 2).await;
    let rows = stage
        .operations_when("both", |rows| rows.len() == 2 && rows.iter().all(|row| row["phase"] == "running"))
        .await;
    assert_eq!(rows[0]["upstream_id"], "job-2", "newest first, whichever ledger it is in");

    // The same id in another process is another call.
    first.send(&message::cancelled(1, None)).await;
    stage.fake.wait_for("job_cancelled", 1).await;
    assert_eq!(stage.fake.live_jobs()[0].id, "job-2");
    second.barrier().await;
    // An operator reaches the row of the second through the second's own ledger.
    let id = rows[0]["id"].as_str().unwrap();
    stage.outcome(&["ops", "cancel", id]).await.exited(0);
    let answer = second.response(&json!(1)).await;
    assert_eq!(answer["result"]["isError"], true);
    stage.settled(2).await;
    assert_eq!(stage.agree().await.cancelled, 2);
    for mut client in [first, second] {
        client.close_input();
        assert!(client.exit().await.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stdio_gateway_that_is_killed_is_finished_by_the_other_whichever_of_the_two() {
    for killed_is_first in [true, false] {
        let stage = Stage::new().await;
        let mut first = stage.stdio().await;
        let mut second = stage.stdio().await;
        let (killed, stays) =
            if killed_is_first { (&mut first, &mut second) } else { (&mut second, &mut first) };
        stays.send(&message::call(1, "run_report", tagged("stays"))).await;
        stage.fake.wait_for("job_created", 1).await;
        killed.send(&message::call(1, "run_report", tagged("killed"))).await;
        stage
            .fake
            .wait(|events| events.iter().any(|event| event.is("job_polled") && event.tagged("killed")))
            .await;
        killed.kill().await;
        let rows = stage
            .operations_when("the other's row settled", |rows| {
                rows.iter().any(|row| row["upstream_id"] == "job-2" && row["settled"] == true)
            })
            .await;
        let row = rows.iter().find(|row| row["upstream_id"] == "job-2").unwrap();
        assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("client_disconnected")));
        let live = stage.fake.live_jobs();
        assert_eq!((live.len(), live[0].id.as_str()), (1, "job-1"), "its own call goes on");
        stage.fake.finish("job-1");
        assert_eq!(stays.response(&json!(1)).await["result"]["isError"], false);
        stage.agree().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_of_two_killed_stdio_gateways_are_finished_by_a_third() {
    let stage = Stage::new().await;
    let mut gateways = [stage.stdio().await, stage.stdio().await];
    for (n, gateway) in (1..).zip(&mut gateways) {
        gateway.send(&message::call(1, "run_report", tagged(&format!("t{n}")))).await;
    }
    stage.fake.wait_for("job_created", 2).await;
    for gateway in &mut gateways {
        gateway.kill().await;
    }
    let mut third = stage.stdio().await;
    stage.settled(2).await;
    assert_eq!(stage.agree().await.cancelled, 2);
    assert!(!stage.dir.path().join("ledger.3.db").exists(), "a free ledger is used again");
    third.close_input();
    assert!(third.exit().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_told_to_end_while_it_finishes_anothers_row_waits_for_it() {
    let stage = Stage::new().await;
    let mut first = stage.stdio().await;
    let mut second = stage.stdio().await;
    first.send(&message::call(1, "run_report", tagged("t"))).await;
    stage.fake.wait_for("job_polled", 1).await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    first.kill().await;
    held.reached().await;
    signal(second.pid(), "TERM");
    held.release();
    assert!(second.exit().await.success());
    let said = second.stderr_to_end().await;
    assert!(
        said.contains("another gateway left operations") && !said.contains("left in the ledger"),
        "{said}"
    );
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("client_disconnected")));
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_a_gateway_was_killed_in_the_making_of_hides_no_other() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(1, "run_report", tagged("t"))).await;
    stage.fake.wait_for("job_polled", 1).await;
    std::fs::write(stage.dir.path().join("ledger.2.db"), "").unwrap();
    let rows = stage.operations().await;
    assert_eq!((rows.len(), &rows[0]["phase"]), (1, &json!("running")));
    stage.outcome(&["ops", "cancel", rows[0]["id"].as_str().unwrap()]).await.exited(0);
    // The next gateway makes it a whole one.
    let mut second = stage.stdio().await;
    second.send(&message::call(1, "run_report", tagged("t2"))).await;
    stage.operations_when("both", |rows| rows.len() == 2).await;
}
