//! The ledger tells apart why a call was ended, and nothing is ever said after its client has ended it.

use super::{Caller, Door, Stage, running, tagged, text, the_next_call_works};
use crate::{over_all, stage::signal};
use countermand_testkit::{
    client::{HttpClient, StdioClient, message},
    fake::{Filter, Gate},
};
use serde_json::{Value, json};

fn row<'a>(rows: &'a [Value], tool: &str, upstream_id: &str) -> &'a Value {
    let found = rows.iter().find(|row| row["tool"] == tool && row["upstream_id"] == upstream_id);
    found.unwrap_or_else(|| panic!("no row of {tool}, {upstream_id}: {rows:#?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_a_timeout_a_lifetime_a_disconnect_an_operator_and_a_shutdown_are_six_causes() {
    let stage = Stage::new().await;
    // Without a timeout of its own the call would end with its lifetime, and either could be first.
    stage.configure(|config| config.replace("lifetime: 1s\n", "lifetime: 1s\n    timeout: 10m\n"));
    let mut client = StdioClient::spawn(stage.serve(&["--stdio", "--http", "127.0.0.1:0"])).unwrap();
    client.initialize("2025-11-25").await;
    let http = HttpClient::new(&client.stderr_line("http://").await);

    // One after the other, so that the upstream's ids are known.
    for (id, tool) in
        [(1, "run_report"), (2, "quick_timeout"), (3, "short_life"), (4, "run_report"), (5, "run_report")]
    {
        client.send(&message::call(id, tool, tagged(&format!("t{id}")))).await;
        stage.fake.wait_for("job_created", usize::try_from(id).unwrap()).await;
    }
    let exchange = http.call(6, "run_report", tagged("t6")).await;
    stage.fake.wait_for("job_created", 6).await;

    client.send(&message::cancelled(1, Some("the user pressed Esc"))).await;
    let timed_out = client.response(&json!(2)).await;
    assert!(text(&timed_out["result"]).contains("longer than its timeout of 1s"), "{timed_out}");
    let over = client.response(&json!(3)).await;
    assert!(text(&over["result"]).contains("its lifetime of 1s is over"), "{over}");
    drop(exchange);
    let rows = stage
        .operations_when("six rows", |rows| {
            rows.len() == 6 && rows.iter().all(|row| !row["upstream_id"].is_null())
        })
        .await;
    let id = row(&rows, "run_report", "job-4")["id"].as_str().unwrap().to_owned();
    stage.outcome(&["ops", "cancel", &id, "--note", "it costs too much"]).await.exited(0);
    let by_operator = client.response(&json!(4)).await;
    assert!(text(&by_operator["result"]).contains("an operator cancelled it"), "{by_operator}");
    stage
        .operations_when("five settled", |rows| rows.iter().filter(|row| row["settled"] == true).count() == 5)
        .await;
    signal(client.pid(), "TERM");
    let shut_down = client.response(&json!(5)).await;
    assert!(text(&shut_down["result"]).contains("the gateway is shutting down"), "{shut_down}");
    assert!(client.exit().await.success());

    let rows = stage.settled(6).await;
    for (tool, job, cause, reason) in [
        ("run_report", "job-1", "client_cancelled", json!("the user pressed Esc")),
        ("quick_timeout", "job-2", "deadline", json!(null)),
        ("short_life", "job-3", "deadline", json!(null)),
        ("run_report", "job-4", "operator", json!(null)),
        ("run_report", "job-5", "shutdown", json!(null)),
        ("run_report", "job-6", "client_disconnected", json!(null)),
    ] {
        let row = row(&rows, tool, job);
        assert_eq!(
            (&row["cause"], &row["reason"], &row["phase"]),
            (&json!(cause), &reason, &json!("cancelled"))
        );
    }
    assert_eq!(stage.agree().await.cancelled, 6);
}

over_all! {
    async fn the_first_cause_stays_whatever_comes_later(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        let first = caller.cause();
        caller.cancel(pending).await;
        held.reached().await;
        let row = stage.operations().await.remove(0);
        stage.outcome(&["ops", "cancel", row["id"].as_str().unwrap(), "--no-wait"]).await.exited(0);
        signal(Some(caller.pid()), "TERM");
        held.release();
        caller.ended().await;
        let row = stage.operations().await.remove(0);
        assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!(first)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_answers_after_the_cancel_adds_not_one_byte_for_that_id() {
    let stage = Stage::new().await;
    let result = stage.fake.hold(Gate::Result, Filter::default());
    let created = stage
        .fake
        .hold(Gate::CreateCommitted, Filter { tag: Some("create".to_owned()), ..Filter::default() });
    let (mut caller, late_result) = running(Door::Stdio, &stage, "run_report").await;
    let late_create = caller.call(2, "run_report", tagged("create")).await;
    created.reached().await;
    stage.fake.finish("job-1");
    result.reached().await;
    caller.cancel(late_result).await;
    caller.cancel(late_create).await;
    caller.barrier().await;
    result.release();
    created.release();
    let rows = stage.settled(2).await;
    assert_eq!(row(&rows, "run_report", "job-1")["phase"], "completed", "it had finished before the cancel");
    assert_eq!(row(&rows, "run_report", "job-2")["phase"], "cancelled");
    the_next_call_works(&mut caller).await;
    let status = caller.status().await;
    assert!(status.to_string().contains("finished_before_cancel"), "{status}");
    caller.nothing_was_sent_for(&[1, 2]).await;
}

over_all! {
    async fn a_call_whose_client_ignores_its_deadline_is_answered_and_its_connection_freed(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "quick_timeout", tagged("t")).await;
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], true);
        stage.phase("cancelled").await;
        the_next_call_works(&mut caller).await;
        stage.agree().await;
    }
}
