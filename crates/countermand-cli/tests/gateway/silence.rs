//! Clients that are gone without a word: their network is lost, or they are frozen. Case 25.

mod namespace;

use crate::stage::{Gateway, Session, Stage, signal};
use countermand_testkit::{
    client::{Exchange, message},
    fake::Event,
};
pub use namespace::Namespace;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Comments every 5 s and 10 s for their acknowledgement, as it is without a word in the config; and something for a busy
/// machine.
const BOUND: Duration = Duration::from_secs(20);

/// A gateway that listens where the namespace can reach it.
async fn reachable(stage: &Stage, lost: &Namespace) -> Gateway {
    Gateway::start(stage.serve(&["--http", &format!("{}:0", lost.outside())])).await
}

/// A call of 2026-07-28 from within the namespace.
async fn call(gateway: &Gateway, from: &Namespace, accept: &str, tool: &str, tag: &str) -> Exchange {
    let request = message::call(tag, tool, json!({ "tag": tag }));
    let bytes = gateway.client.request_bytes(&request, &[("Accept", accept)]);
    gateway.client.write_on(from.connect(gateway.client.address()), &bytes).await
}

/// A call in a session, from within the namespace.
async fn session_call(session: &Session, from: &Namespace, tool: &str, tag: &str) -> Exchange {
    let headers = [("MCP-Protocol-Version", session.revision), ("Mcp-Session-Id", session.id.as_str())];
    let request = message::call(tag, tool, json!({ "tag": tag })).to_string();
    let bytes = session.client.post_bytes(&headers, request.as_bytes());
    session.client.write_on(from.connect(session.client.address()), &bytes).await
}

fn has(events: &[Event], kind: &str, tag: &str) -> bool {
    events.iter().any(|event| event.is(kind) && event.tagged(tag))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_network_is_lost_has_cancelled_within_the_bound_in_both_modes_of_2026_and_its_grace_begins_in_2025()
 {
    let lost = match Namespace::new() {
        Ok(lost) => lost,
        Err(why) => return println!("skipped: no network namespace here: {why}"),
    };
    let stage = Stage::new().await;
    let gateway = reachable(&stage, &lost).await;
    let events = "application/json, text/event-stream";
    let session = Session::open(&gateway.client, "2025-11-25").await;
    let mut calls = Vec::new();
    for (tag, accept) in [("events", events), ("json", "application/json")] {
        calls.push(call(&gateway, &lost, accept, "search", &format!("{tag}-read")).await);
        calls.push(call(&gateway, &lost, accept, "run_report", &format!("{tag}-job")).await);
    }
    calls.push(session_call(&session, &lost, "run_report", "session-job").await);
    for call in &mut calls {
        assert_eq!(call.head().await.status, 200);
    }
    // Somebody whose network is well.
    let mut stays = gateway.client.call(1, "run_report", json!({ "tag": "stays" })).await;
    let jobs = ["events-job", "json-job", "session-job", "stays"];
    stage.fake.wait(|events| jobs.iter().all(|tag| has(events, "job_polled", tag))).await;

    lost.take_down();
    let since = Instant::now();
    let seen = async |kind: &'static str, tag: &'static str| {
        stage.fake.wait_within(BOUND, |events| has(events, kind, tag)).await;
        println!("{tag}: {kind} after {:.1} s", since.elapsed().as_secs_f64());
    };
    let away = async {
        loop {
            // The ledger has no events for other processes: it is read again.
            let rows = stage.operations().await;
            if let Some(row) = rows.iter().find(|row| row["disconnect_at"].is_string()) {
                println!("session-job: its grace began after {:.1} s", since.elapsed().as_secs_f64());
                return row.clone();
            }
            assert!(since.elapsed() <= BOUND, "no grace began: {rows:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let (row, ..) = tokio::join!(
        away,
        seen("closed_early", "events-read"),
        seen("cancel_received", "events-job"),
        seen("closed_early", "json-read"),
        seen("cancel_received", "json-job"),
    );
    assert!(since.elapsed() <= BOUND, "{:?}", since.elapsed());
    assert_eq!((&row["phase"], &row["desired"]), (&json!("running"), &json!("run")), "{row:#}");
    let record = stage.fake.events();
    assert!(!has(&record, "cancel_received", "session-job"), "its grace has only begun");
    assert!(!has(&record, "cancel_received", "stays"), "nobody else is touched");

    let ended = |rows: &[Value]| rows.iter().filter(|row| row["phase"] == "cancelled").count() == 2;
    let rows = stage.operations_when("two jobs that were cancelled", ended).await;
    assert!(
        rows.iter()
            .filter(|row| row["phase"] == "cancelled")
            .all(|row| row["cause"] == "client_disconnected"),
        "{rows:#?}"
    );
    session.delete().await;
    stage.fake.wait(|events| has(events, "job_cancelled", "session-job")).await;
    for job in stage.fake.live_jobs() {
        stage.fake.finish(&job.id);
    }
    assert_eq!(stays.response().await["result"]["isError"], false);
    stage.settled(4).await;
    stage.agree().await;
}

/// A process that has a connection as its stdin, and reads it.
struct Frozen(std::process::Child);

impl Frozen {
    /// Sends the bytes, hands the connection to the process, and stops it.
    fn with(gateway: &Gateway, bytes: &[u8]) -> Self {
        use std::io::Write as _;
        let mut stream = std::net::TcpStream::connect(gateway.client.address()).unwrap();
        stream.write_all(bytes).unwrap();
        let child = std::process::Command::new("cat")
            .stdin(std::os::fd::OwnedFd::from(stream))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        signal(Some(child.id()), "STOP");
        Self(child)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Its kernel acknowledges what is sent, so it cannot be told from one that listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_client_whose_kernel_still_acknowledges_is_bounded_by_the_timeout_of_its_call() {
    let stage = Stage::with_more(
        "",
        "  quick_search: { input: *input, upstream: reports, timeout: 2s, http: { request: GET /slow, query: { tag: \"${args.tag}\" } } }\n",
    )
    .await;
    let gateway = stage.http().await;
    let mut frozen = Vec::new();
    let started = Instant::now();
    for (tool, tag) in [("quick_timeout", "job"), ("quick_search", "read")] {
        let request = message::call(tag, tool, json!({ "tag": tag }));
        frozen.push(Frozen::with(&gateway, &gateway.client.request_bytes(&request, &[])));
    }
    stage.fake.wait(|events| has(events, "cancel_received", "job")).await;
    println!("frozen: the job was cancelled after {:.1} s (timeout 1 s)", started.elapsed().as_secs_f64());
    stage.fake.wait(|events| has(events, "closed_early", "read")).await;
    println!("frozen: the read was aborted after {:.1} s (timeout 2 s)", started.elapsed().as_secs_f64());
    assert!(started.elapsed() <= Duration::from_secs(5), "{:?}", started.elapsed());
    let row = stage.phase("cancelled").await;
    assert_eq!(row["cause"], "deadline", "its client has not left: {row:#}");
    stage.agree().await;
    drop(frozen);
    gateway.client.barrier().await;
}
