//! Calls over HTTP that are answered with one JSON object: a client that takes nothing else.

use crate::{
    points::{at, count, tag},
    stage::{Caller, Gateway, Stage},
};
use countermand_testkit::{
    client::{Exchange, message},
    fake::{Gate, Route},
};
use serde_json::{Value, json};

/// A call whose client accepts only `application/json`.
async fn call(gateway: &Gateway, id: u64, tool: &str, arguments: Value) -> Exchange {
    send(gateway, message::call(id, tool, arguments)).await
}

async fn send(gateway: &Gateway, call: Value) -> Exchange {
    let call = message::stateless(call);
    let headers = [
        ("Accept", "application/json"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", call["params"]["name"].as_str().unwrap()),
    ];
    gateway.client.post(&headers, call.to_string().as_bytes()).await
}

#[tokio::test]
async fn a_client_that_accepts_only_json_gets_one_json_object() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let with_progress = message::call_with_progress(1, "run_report", tag(), "p");
    let mut exchange = send(&gateway, with_progress).await;
    stage.fake.wait_for("job_polled", 2).await;
    assert!(stage.fake.finish("job-1"));
    let head = exchange.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/json")));
    let messages = exchange.messages().await;
    assert_eq!(messages.len(), 1, "no room for progress: {messages:#?}");
    assert_eq!(messages[0]["result"]["structuredContent"]["tag"], "t");
    stage.settled(1).await;
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}

/// Case 7, as case 24 has it.
#[tokio::test]
async fn leaving_a_json_response_aborts_the_read_upstream() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    // One waits for the head of its response, and one is told early that there will be one.
    let early = call(&gateway, 1, "search", tag()).await;
    stage.fake.wait_for("slow_started", 1).await;
    let mut late = call(&gateway, 2, "search", tag()).await;
    stage.fake.wait_for("slow_started", 2).await;
    assert_eq!(late.head().await.status, 200);
    early.close();
    stage.fake.wait_for("closed_early", 1).await;
    late.half_close().await;
    let rest = String::from_utf8_lossy(&late.read_to_end().await).into_owned();
    assert!(!rest.contains("jsonrpc"), "no answer after the cancel: {rest}");
    stage.fake.wait_for("closed_early", 2).await;
    let mut caller = Caller::Http(Box::new(gateway));
    caller.works().await;
    stage.finish(caller, &[]).await;
}

/// Cases 12 and 14.
#[tokio::test]
async fn leaving_a_json_response_cancels_the_job_wherever_it_is() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let points = [(Gate::CreateCommitted, Route::CreateJob), (Gate::Poll, Route::JobStatus)];
    for (n, (gate, route)) in (1..).zip(points) {
        let held = stage.fake.hold(gate, at(route));
        let exchange = call(&gateway, n as u64, "with_undo", tag()).await;
        held.reached().await;
        exchange.reset();
        stage
            .operations_when("a wanted cancel", |rows| rows.len() == n && rows[0]["desired"] == "cancel")
            .await;
        held.release();
        let row = stage.settled(n).await.remove(0);
        assert_eq!((&row["phase"], &row["cause"]), (&json!("compensated"), &json!("client_disconnected")));
        assert_eq!(stage.fake.rows("t"), 0);
    }
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 2);
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}

/// Case 10.
#[tokio::test]
async fn leaving_after_the_json_response_changes_nothing() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let mut exchange = call(&gateway, 1, "run_report", tag()).await;
    stage.fake.wait_for("job_created", 1).await;
    assert!(stage.fake.finish("job-1"));
    assert_eq!(exchange.response().await["result"]["isError"], false);
    exchange.reset();
    gateway.client.barrier().await;
    let row = stage.settled(1).await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("completed"), &Value::Null));
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}
