//! HTTP of 2026-07-28: whoever closes the response has cancelled, however the connection ends.

use super::{Stage, tagged, the_next_call_works};
use crate::stage::{Caller, Gateway};
use countermand_testkit::client::{Exchange, H2Client, message};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// How the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Fin,
    Reset,
    HalfClose,
    BehindUnreadBytes,
}

const WAYS: [Leaves; 4] = [Leaves::Fin, Leaves::Reset, Leaves::HalfClose, Leaves::BehindUnreadBytes];

/// What the client takes.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Events,
    Json,
}

impl Leaves {
    /// Leaves; what is returned keeps the other half of the connection open.
    async fn leave(self, mut exchange: Exchange) -> Option<Exchange> {
        match self {
            Self::Fin => exchange.close(),
            Self::Reset => exchange.reset(),
            Self::HalfClose => {
                exchange.half_close().await;
                return Some(exchange);
            }
            Self::BehindUnreadBytes => {
                // More than is read ahead: the end lies behind it.
                exchange.write(&[b'x'; 32 * 1024]).await;
                exchange.close();
            }
        }
        None
    }
}

async fn call(gateway: &Gateway, mode: Mode, id: u64, tool: &str) -> Exchange {
    let accept = match mode {
        Mode::Events => "application/json, text/event-stream",
        Mode::Json => "application/json",
    };
    let request = message::call(id, tool, tagged(&format!("t{id}")));
    let mut exchange =
        gateway.client.write(&gateway.client.request_bytes(&request, &[("Accept", accept)])).await;
    let media = match mode {
        Mode::Events => "text/event-stream",
        Mode::Json => "application/json",
    };
    assert_eq!(exchange.head().await.header("content-type"), Some(media));
    exchange
}

async fn a_disconnect_aborts_a_read(mode: Mode) {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    for way in WAYS {
        // The middle of three: one of them may meet a busy machine.
        let mut took = Vec::new();
        for _ in 0..3 {
            let before = stage.fake.events().len();
            let seen = |kind: &'static str| {
                stage.fake.wait(move |events| events[before..].iter().any(|event| event.is(kind)))
            };
            let exchange = call(&gateway, mode, 1, "search").await;
            seen("slow_started").await;
            let left = Instant::now();
            let rest = way.leave(exchange).await;
            seen("closed_early").await;
            took.push(left.elapsed());
            drop(rest);
        }
        took.sort();
        println!("{mode:?}, {way:?}: to the upstream's abort {:.1} ms", took[1].as_secs_f64() * 1000.0);
        assert!(took[1] <= Duration::from_millis(100), "{mode:?}, {way:?}: {took:?}");
    }
    assert_eq!(stage.fake.connections_open(), 0, "every connection of an aborted request is closed");
    the_next_call_works(&mut Caller::Http(Box::new(gateway))).await;
}

async fn a_disconnect_stops_a_job(mode: Mode) {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let mut kept = Vec::new();
    for (id, way) in (1..).zip(WAYS) {
        let exchange = call(&gateway, mode, id, "run_report").await;
        let tag = format!("t{id}");
        stage
            .fake
            .wait(|events| events.iter().any(|event| event.is("job_polled") && event.tagged(&tag)))
            .await;
        let left = Instant::now();
        kept.extend(way.leave(exchange).await);
        stage
            .fake
            .wait(|events| events.iter().any(|event| event.is("cancel_received") && event.tagged(&tag)))
            .await;
        println!(
            "{mode:?}, {way:?}: to the upstream's cancel {:.1} ms",
            left.elapsed().as_secs_f64() * 1000.0
        );
        assert!(left.elapsed() <= Duration::from_millis(500), "{mode:?}, {way:?}: {:?}", left.elapsed());
    }
    let rows = stage.settled(WAYS.len()).await;
    for row in rows {
        assert_eq!(
            (&row["phase"], &row["cause"]),
            (&json!("cancelled"), &json!("client_disconnected")),
            "{row:#}"
        );
    }
    for exchange in &mut kept {
        let said = exchange.messages().await;
        assert!(
            said.iter().all(|message| message.get("id").is_none()),
            "no answer to who has left: {said:?}"
        );
    }
    stage.agree().await;
    the_next_call_works(&mut Caller::Http(Box::new(gateway))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnect_from_an_event_stream_aborts_a_read_within_a_tenth_of_a_second() {
    a_disconnect_aborts_a_read(Mode::Events).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnect_from_a_json_answer_aborts_a_read_within_a_tenth_of_a_second() {
    a_disconnect_aborts_a_read(Mode::Json).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnect_from_an_event_stream_stops_the_job() {
    a_disconnect_stops_a_job(Mode::Events).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnect_from_a_json_answer_stops_the_job() {
    a_disconnect_stops_a_job(Mode::Json).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_behind_pipelined_requests_cancels_the_call_and_starts_none_of_them() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let first = message::call(1, "search", tagged("first"));
    let behind = message::call(2, "run_report", tagged("behind"));
    let bytes =
        [gateway.client.request_bytes(&first, &[]), gateway.client.request_bytes(&behind, &[])].concat();
    let exchange = gateway.client.write(&bytes).await;
    stage.fake.wait_for("slow_started", 1).await;
    exchange.close();
    stage.fake.wait_for("closed_early", 1).await;
    gateway.client.barrier().await;
    let rows = stage.operations().await;
    assert!(rows.iter().all(|row| row["phase"] == "never_created"), "nobody waits for it: {rows:#?}");
    assert_eq!(stage.fake.books().created, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_of_one_http2_stream_stops_its_call_and_leaves_the_connection_and_its_other_calls() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let mut client = H2Client::connect(&gateway.url).await;
    let mut other = client.request(&message::call(1, "search", tagged("other"))).await;
    let job = client.request(&message::call(2, "run_report", tagged("job"))).await;
    let read = client.request(&message::call(3, "search", tagged("read"))).await;
    stage.fake.wait_for("slow_started", 2).await;
    stage.fake.wait_for("job_polled", 1).await;

    let reset = Instant::now();
    read.reset();
    stage
        .fake
        .wait(|events| events.iter().any(|event| event.is("closed_early") && event.tagged("read")))
        .await;
    println!("RST_STREAM: to the upstream's abort {:.1} ms", reset.elapsed().as_secs_f64() * 1000.0);
    let reset = Instant::now();
    job.reset();
    stage.fake.wait_for("cancel_received", 1).await;
    println!("RST_STREAM: to the upstream's cancel {:.1} ms", reset.elapsed().as_secs_f64() * 1000.0);
    assert!(reset.elapsed() <= Duration::from_millis(500));

    let row = stage.settled(1).await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("client_disconnected")));
    assert!(!stage.fake.events().iter().any(|event| event.is("closed_early") && event.tagged("other")));
    assert_eq!(stage.fake.release_slow(Some("other")), 1);
    assert_eq!(other.status().await, 200);
    assert!(other.text().await.contains("\"slow\":true"));
    let mut next = client.request(&message::call(4, "quick", tagged("next"))).await;
    assert_eq!(next.status().await, 200);
    assert!(next.text().await.contains("\"quick\":true"));
    stage.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_that_use_one_id_are_two_calls_and_the_one_who_leaves_stops_only_its_own() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let leaves = gateway.client.call(7, "run_report", tagged("leaves")).await;
    let mut stays = gateway.client.call(7, "run_report", tagged("stays")).await;
    stage
        .fake
        .wait(|events| {
            ["leaves", "stays"]
                .iter()
                .all(|tag| events.iter().any(|event| event.is("job_polled") && event.tagged(tag)))
        })
        .await;
    leaves.close();
    stage.fake.wait_for("job_cancelled", 1).await;
    let live = stage.fake.live_jobs();
    assert_eq!((live.len(), live[0].tag.as_deref()), (1, Some("stays")));
    stage.fake.finish(&live[0].id);
    let answer = stays.response().await;
    assert_eq!(answer["result"]["structuredContent"]["tag"], "stays", "{answer}");
    stage.settled(2).await;
    stage.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnect_of_a_detached_call_leaves_its_job_running_and_visible() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let exchange = gateway.client.call(1, "detached", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    exchange.close();
    gateway.client.barrier().await;
    let polls = stage.fake.events().iter().filter(|event| event.is("job_polled")).count();
    stage.fake.wait_for("job_polled", polls + 3).await;
    let row = stage.operations().await.remove(0);
    assert_eq!(
        (&row["phase"], &row["desired"], &row["settled"]),
        (&json!("running"), &json!("run"), &json!(false))
    );
    stage.fake.finish("job-1");
    stage.phase("completed").await;
    assert!(!stage.fake.events().iter().any(|event| event.is("cancel_received")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_of_an_http2_connection_stops_every_call_on_it() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let mut client = H2Client::connect(&gateway.url).await;
    let mut calls = Vec::new();
    for id in 1..=5 {
        calls.push(client.request(&message::call(id, "run_report", tagged(&format!("job{id}")))).await);
    }
    calls.push(client.request(&message::call(6, "search", tagged("read"))).await);
    stage.fake.wait_for("job_created", 5).await;
    stage.fake.wait_for("slow_started", 1).await;
    // The connection goes first: streams that are dropped before it would be reset one by one.
    drop(client);
    drop(calls);
    stage.fake.wait_for("cancel_received", 5).await;
    stage
        .fake
        .wait(|events| events.iter().any(|event| event.is("closed_early") && event.tagged("read")))
        .await;
    assert!(stage.settled(5).await.iter().all(|row| row["cause"] == "client_disconnected"));
    assert_eq!(stage.agree().await.cancelled, 5);
    the_next_call_works(&mut Caller::Http(Box::new(gateway))).await;
}
