//! Cancels that mean nothing, and those that mean exactly one call: cases 1, 2, 3 and 10.

use crate::{
    points::{at, count, tag},
    stage::{Caller, Stage},
};
use countermand_testkit::{
    client::{StdioClient, message},
    fake::{Gate, Route},
};
use serde_json::{Value, json};

/// What a gateway on stdio said up to its end, beside what was read.
async fn finished(stage: &Stage, client: StdioClient, cancelled: &[u64]) -> Vec<Value> {
    stage.finish(Caller::Stdio(Box::new(client)), cancelled).await
}

/// The answers to an id.
fn answers(messages: &[Value], id: &Value) -> usize {
    messages.iter().filter(|message| message["id"] == *id).count()
}

/// Case 1.
#[tokio::test]
async fn a_cancel_before_initialize_is_ignored() {
    let stage = Stage::new().await;
    let mut client = stage.stdio_raw();
    client.send(&message::cancelled(1, None)).await;
    client.send(&message::cancelled("initialize", Some("too early"))).await;
    client.barrier().await;
    let answer = client.initialize("2025-11-25").await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    client.send(&message::call(1, "quick", tag())).await;
    assert_eq!(client.response(&json!(1)).await["result"]["isError"], false);
    assert!(finished(&stage, client, &[]).await.is_empty());
}

/// Case 1.
#[tokio::test]
async fn initialize_cannot_be_cancelled() {
    let stage = Stage::new().await;
    let mut client = stage.stdio_raw();
    let initialize = message::initialize(7, "2025-11-25");
    client.send_at_once(&[initialize, message::cancelled(7, Some("changed my mind"))]).await;
    assert_eq!(client.response(&json!(7)).await["result"]["protocolVersion"], "2025-11-25");
    client.send(&message::notification("notifications/initialized", json!({}))).await;
    client.barrier().await;
    client.send(&message::call(7, "quick", tag())).await;
    assert_eq!(client.response(&json!(7)).await["result"]["isError"], false);
    assert!(finished(&stage, client, &[]).await.is_empty());
}

/// Case 2.
#[tokio::test]
async fn a_cancel_of_an_unknown_id_does_not_wait_for_the_call_that_uses_it_later() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    for id in [json!(5), json!("five"), json!(-1), json!(i64::MAX)] {
        client.send(&message::cancelled(id.clone(), None)).await;
        client.barrier().await;
        client.send(&message::call(id.clone(), "quick", tag())).await;
        assert_eq!(client.response(&id).await["result"]["isError"], false);
    }
    assert!(finished(&stage, client, &[]).await.is_empty());
}

/// Case 2: the id of a cancelled call names the next call that uses it, and nothing of the first comes back under it.
#[tokio::test]
async fn the_id_of_a_cancelled_call_can_be_used_again() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(6, "search", tag())).await;
    stage.fake.wait_for("slow_started", 1).await;
    client.send_at_once(&[message::cancelled(6, None), message::call(6, "quick", tag())]).await;
    let answer = client.response(&json!(6)).await;
    assert_eq!(
        answer["result"]["structuredContent"]["quick"], true,
        "the answer of the second call: {answer}"
    );
    stage.fake.wait_for("closed_early", 1).await;
    assert_eq!(answers(&finished(&stage, client, &[]).await, &json!(6)), 0, "only one answer");
}

/// Case 2: a cancelled job's late end says nothing under an id that is in use again, and the second cancel takes the second job.
#[tokio::test]
async fn a_used_again_id_cancels_the_call_that_has_it_now() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    for n in 1..=2 {
        client.send(&message::call(6, "run_report", tag())).await;
        stage.fake.wait_for("job_polled", n).await;
        stage
            .operations_when("a job that runs", |rows| rows.len() == n && rows[0]["phase"] == "running")
            .await;
        client.send(&message::cancelled(6, Some(&format!("time {n}")))).await;
        stage.settled(n).await;
    }
    let rows = stage.operations().await;
    let reasons: Vec<_> = rows.iter().map(|row| row["reason"].clone()).collect();
    assert_eq!(reasons, ["time 2", "time 1"]);
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 2);
    finished(&stage, client, &[6]).await;
}

/// Case 3, H and O.
#[tokio::test]
async fn malformed_cancels_are_ignored_and_the_call_goes_on() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(7, "search", tag())).await;
    client.send(&message::call("8", "search", tag())).await;
    stage.fake.wait_for("slow_started", 2).await;
    let params = [
        json!({}),
        json!({ "requestId": "7" }),
        json!({ "requestId": 8 }),
        json!({ "requestId": null }),
        json!({ "requestId": [7] }),
        json!({ "requestId": { "id": 7 } }),
        json!({ "requestId": true }),
        json!({ "requestId": 7.5 }),
        json!({ "requestid": 7 }),
        json!({ "request_id": 7 }),
        json!([7]),
        json!(7),
        json!("7"),
        Value::Null,
    ];
    for params in params {
        client.send(&message::notification("notifications/cancelled", params)).await;
    }
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" })).await;
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/canceled", "params": { "requestId": 7 } }))
        .await;
    client.send(&json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 7 } })).await;
    client.barrier().await;
    assert_eq!(stage.fake.release_slow(None), 2, "both still run");
    for id in [json!(7), json!("8")] {
        assert_eq!(client.response(&id).await["result"]["isError"], false);
    }
    assert!(finished(&stage, client, &[]).await.is_empty());
}

/// Case 3: a cancel with an id of its own is a request, and no cancel.
#[tokio::test]
async fn a_cancel_that_is_sent_as_a_request_is_refused_and_cancels_nothing() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(7, "search", tag())).await;
    stage.fake.wait_for("slow_started", 1).await;
    client.send(&message::request(8, "notifications/cancelled", json!({ "requestId": 7 }))).await;
    assert_eq!(client.response(&json!(8)).await["error"]["code"], -32601);
    client.barrier().await;
    assert_eq!(stage.fake.release_slow(None), 1);
    assert_eq!(client.response(&json!(7)).await["result"]["isError"], false);
    finished(&stage, client, &[]).await;
}

/// Case 3: what is no JSON, or no JSON-RPC, is answered, and the calls in flight do not mind.
#[tokio::test]
async fn garbage_lines_leave_calls_in_flight_alone() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(7, "search", tag())).await;
    stage.fake.wait_for("slow_started", 1).await;
    for line in [
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}\n",
        "\n",
        "nonsense\n",
        "\u{0}\n",
        "[]\n",
    ] {
        client.write(line.as_bytes()).await;
    }
    client.write(b"\xff\xfe{\"requestId\":7}\n").await;
    client.barrier().await;
    assert_eq!(stage.fake.release_slow(None), 1);
    assert_eq!(client.response(&json!(7)).await["result"]["isError"], false);
    let rest = finished(&stage, client, &[]).await;
    assert!(rest.iter().all(|message| message["error"]["code"].is_i64()), "{rest:#?}");
}

/// Case 3 of 2026-07-28 over HTTP: closing the response is the cancel; a posted notification is none.
#[tokio::test]
async fn a_posted_cancel_of_the_stateless_revision_cancels_nothing() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let mut exchange = gateway.client.call(7, "search", tag()).await;
    stage.fake.wait_for("slow_started", 1).await;
    for id in [json!(7), json!("7"), json!(99)] {
        let mut posted = gateway.client.request(&message::cancelled(id, None)).await;
        assert!(matches!(posted.head().await.status, 200..500), "it is answered");
    }
    gateway.client.barrier().await;
    assert_eq!(stage.fake.release_slow(None), 1, "it still runs");
    assert_eq!(exchange.response().await["result"]["isError"], false);
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}

/// Case 33 of the reports: over HTTP an id belongs to its stream.
#[tokio::test]
async fn two_http_clients_with_the_same_id_do_not_cancel_each_other() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let mut stays = gateway.client.call(1, "run_report", json!({ "tag": "stays" })).await;
    stage.fake.wait_for("job_created", 1).await;
    let leaves = gateway.client.call(1, "run_report", json!({ "tag": "leaves" })).await;
    stage.fake.wait_for("job_created", 2).await;
    leaves.close();
    let events = stage.fake.wait_for("job_cancelled", 1).await;
    assert!(events.iter().filter(|event| event.is("job_cancelled")).all(|event| event.tagged("leaves")));
    assert!(stage.fake.finish("job-1"));
    assert_eq!(stays.response().await["result"]["isError"], false);
    stage.settled(2).await;
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}

/// The stateless revision over stdio: no `initialize`, and a cancel is a notification.
#[tokio::test]
async fn a_stateless_call_over_stdio_is_cancelled_by_a_notification() {
    let stage = Stage::new().await;
    let mut client = stage.stdio_raw();
    client.speak_stateless();
    client.send(&message::stateless(message::call(1, "search", tag()))).await;
    client.send(&message::stateless(message::call(2, "run_report", tag()))).await;
    stage.fake.wait_for("slow_started", 1).await;
    stage.fake.wait_for("job_created", 1).await;
    client.send(&message::cancelled(1, None)).await;
    client.send(&message::cancelled(2, Some("enough"))).await;
    stage.fake.wait_for("closed_early", 1).await;
    stage.fake.wait_for("job_cancelled", 1).await;
    client.barrier().await;
    let row = stage.settled(1).await.remove(0);
    assert_eq!((row["cause"].as_str(), row["reason"].as_str()), (Some("client_cancelled"), Some("enough")));
    client.send(&message::stateless(message::call(3, "quick", tag()))).await;
    assert_eq!(client.response(&json!(3)).await["result"]["isError"], false);
    assert!(finished(&stage, client, &[1, 2]).await.is_empty());
}

/// The stateless revision over stdio, case 2: an early cancel does not wait for its call.
#[tokio::test]
async fn a_stateless_cancel_before_any_call_is_ignored() {
    let stage = Stage::new().await;
    let mut client = stage.stdio_raw();
    client.speak_stateless();
    client.send(&message::cancelled(1, None)).await;
    client.barrier().await;
    client.send(&message::stateless(message::call(1, "quick", tag()))).await;
    assert_eq!(client.response(&json!(1)).await["result"]["isError"], false);
    assert!(finished(&stage, client, &[]).await.is_empty());
}

/// JSON-RPC: of two calls in flight with one id the second is refused, and a cancel takes the first.
#[tokio::test]
async fn a_second_call_with_an_id_in_flight_is_refused_and_the_first_stays_cancellable() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    let held = stage.fake.hold(Gate::CreateCommitted, at(Route::CreateJob));
    client.send(&message::call(1, "run_report", tag())).await;
    held.reached().await;
    client.send(&message::call(1, "run_report", json!({ "tag": "twin" }))).await;
    assert_eq!(client.response(&json!(1)).await["error"]["code"], -32600);
    held.release();
    client.send(&message::cancelled(1, None)).await;
    stage.settled(1).await;
    let books = stage.agree().await;
    assert_eq!((books.created, books.cancelled), (1, 1));
    finished(&stage, client, &[1]).await;
}
