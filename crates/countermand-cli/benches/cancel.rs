//! How long a cancel takes from the client's byte to the upstream, and what a call costs us.
//!
//! One process has the fake upstream and the clients, so that both ends of a latency are read off one clock; the gateway is a
//! process of its own. Prints a table; nothing here fails because a machine is slow.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, missing_docs)]

use countermand_testkit::{
    client::{HttpClient, StdioClient, message},
    fake::{Event, FakeUpstream, Filter, Gate, HeldGate, Route},
};
use serde_json::json;
use std::time::Duration;
use tokio::{process::Command, time::Instant};

const CANCELS: u64 = 1_000;
const CALLS: u64 = 3_000;
/// The revision of the sessions.
const REVISION: &str = "2025-11-25";

const CONFIG: &str = r#"
server: { name: bench }
ledger: sqlite:LEDGER
upstreams: { up: { http: BASE } }
tools:
  read:
    input: &input { type: object, properties: { tag: { type: string } } }
    upstream: up
    http: { request: GET /slow, query: { tag: "${args.tag}" } }
  quick:
    input: *input
    upstream: up
    http: { request: GET /quick, query: { tag: "${args.tag}" } }
  job:
    input: *input
    upstream: up
    job:
      create: { request: POST /jobs, headers: { Idempotency-Key: "${op.key}" }, query: { tag: "${args.tag}" }, id: $.id }
      status: { request: "GET /jobs/${op.id}", every: 10ms, state: $.status, running: [running, cancelling], succeeded: [done], failed: [failed], cancelled: [cancelled] }
      cancel: { request: "DELETE /jobs/${op.id}" }
      key_window: 24h
"#;

struct Stage {
    fake: FakeUpstream,
    started: Instant,
    offset: f64,
    client: StdioClient,
    http: HttpClient,
    _dir: tempfile::TempDir,
}

async fn stage() -> Stage {
    let started = Instant::now();
    let fake = FakeUpstream::start().await;
    let offset = offset(&fake, started).await;
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("bench.db").display().to_string();
    let file = dir.path().join("bench.yaml");
    std::fs::write(&file, CONFIG.replace("BASE", &fake.base_url()).replace("LEDGER", &ledger)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_countermand"));
    command
        .args(["--log", "warn,countermand_cli=info", "serve", "--stdio", "--http", "127.0.0.1:0", "-c"])
        .arg(&file);
    let mut client = StdioClient::spawn(command).unwrap();
    client.initialize("2025-11-25").await;
    let http = HttpClient::new(&client.stderr_line("http://").await);
    Stage { fake, started, offset, client, http, _dir: dir }
}

/// Milliseconds on the clock of the fake's record.
fn now(stage: &Stage) -> f64 {
    stage.started.elapsed().as_secs_f64() * 1_000.0 - stage.offset
}

/// How far our clock is ahead of the record's: half way between the moments around a request that the record dates.
async fn offset(fake: &FakeUpstream, started: Instant) -> f64 {
    let ms = || started.elapsed().as_secs_f64() * 1_000.0;
    let client = HttpClient::new(&format!("{}/quick", fake.base_url()));
    let mut best = (f64::INFINITY, 0.0);
    for nth in 1..=20 {
        let before = ms();
        client.post(&[], b"{}").await.head().await;
        let after = ms();
        let events = fake.wait_for("request", nth).await;
        let at = events.iter().filter(|event| event.is("request")).nth(nth - 1).unwrap().at;
        if after - before < best.0 {
            best = (after - before, (before + after) / 2.0 - at);
        }
    }
    best.1
}

/// Latencies in milliseconds: from each `sent` time to the event of this kind with the tag of its index.
fn latencies(events: &[Event], kind: &str, sent: &[f64]) -> Vec<f64> {
    let mut all = Vec::with_capacity(sent.len());
    for event in events.iter().filter(|event| event.is(kind)) {
        if let Some(index) = event.tag.as_deref().and_then(|tag| tag.parse::<usize>().ok())
            && let Some(sent) = sent.get(index)
        {
            all.push(event.at - sent);
        }
    }
    all.sort_by(f64::total_cmp);
    all
}

fn line(name: &str, sorted: &[f64]) {
    let at =
        |share: f64| sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)));
    let shown = |value: Option<&f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    println!(
        "| {name:<58} | {:>5} | {:>8} | {:>8} | {:>8} |",
        sorted.len(),
        shown(at(0.5)),
        shown(at(0.99)),
        shown(sorted.last())
    );
}

/// Keeps the upstream's request of one call where it is, until the handle is dropped.
fn hold(stage: &Stage, gate: Gate, route: Route, index: u64) -> HeldGate {
    stage.fake.hold(gate, Filter { route: Some(route), tag: Some(index.to_string()), ..Filter::default() })
}

/// Calls, waits until the upstream holds the request, cancels by `notifications/cancelled`.
async fn over_stdio(tool: &str, gate: Gate, route: Route, kind: &str) -> Vec<f64> {
    let mut stage = stage().await;
    let mut sent = Vec::new();
    for index in 0..CANCELS {
        let id = index + 1;
        let held = hold(&stage, gate, route, index);
        stage.client.send(&message::call(id, tool, json!({ "tag": index.to_string() }))).await;
        held.reached().await;
        sent.push(now(&stage));
        stage.client.send(&message::cancelled(id, None)).await;
        stage.client.barrier().await;
    }
    let events = stage.fake.wait_for(kind, CANCELS as usize).await;
    latencies(&events, kind, &sent)
}

/// The same over HTTP, where the cancel is the close of the response stream.
async fn over_http(tool: &str, gate: Gate, route: Route, kind: &str) -> Vec<f64> {
    let stage = stage().await;
    let mut sent = Vec::new();
    for index in 0..CANCELS {
        let held = hold(&stage, gate, route, index);
        let exchange = stage.http.call(index + 1, tool, json!({ "tag": index.to_string() })).await;
        held.reached().await;
        sent.push(now(&stage));
        exchange.close();
        stage.http.barrier().await;
    }
    let events = stage.fake.wait_for(kind, CANCELS as usize).await;
    latencies(&events, kind, &sent)
}

/// Begins a session: its id.
async fn session(http: &HttpClient) -> String {
    let params = json!({
        "protocolVersion": REVISION,
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1" },
    });
    let hello = message::request(0, "initialize", params).to_string();
    let head = http.post(&[], hello.as_bytes()).await.head().await;
    head.header("mcp-session-id").expect("a session id").to_owned()
}

/// The same in sessions, where the cancel is a POST, or the session's DELETE.
async fn in_sessions(deletes: bool, tool: &str, gate: Gate, route: Route, kind: &str) -> Vec<f64> {
    let stage = stage().await;
    let mut sent = Vec::new();
    let mut id = session(&stage.http).await;
    for index in 0..CANCELS {
        let held = hold(&stage, gate, route, index);
        let call = message::call(index + 1, tool, json!({ "tag": index.to_string() }));
        let _open = stage.http.in_session(Some(&id), REVISION, &call).await;
        held.reached().await;
        sent.push(now(&stage));
        if deletes {
            let headers = [("MCP-Protocol-Version", REVISION), ("Mcp-Session-Id", id.as_str())];
            stage.http.bodiless("DELETE", &headers).await.head().await;
            id = session(&stage.http).await;
        } else {
            let cancel = message::cancelled(index + 1, None);
            stage.http.in_session(Some(&id), REVISION, &cancel).await.head().await;
        }
    }
    let events = stage.fake.wait_for(kind, CANCELS as usize).await;
    latencies(&events, kind, &sent)
}

/// CPU time of a process so far: user and system, in clock ticks of 10 ms.
fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> = after.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // After the name come the state (no number) and the fields from the parent's id on: utime is the 11th, stime the 12th.
    let ticks = fields.get(10).copied().unwrap_or_default() + fields.get(11).copied().unwrap_or_default();
    Duration::from_millis(ticks * 10)
}

/// What one call of an `http` tool costs us: CPU time, and latency against asking the upstream directly.
async fn cost_of_a_call() {
    let mut stage = stage().await;
    let pid = stage.client.pid().unwrap();
    for id in 0..200 {
        stage.client.send(&message::call(id, "quick", json!({ "tag": "warm" }))).await;
        stage.client.response(&json!(id)).await;
    }
    let before = cpu(pid);
    let begun = Instant::now();
    for id in 1_000..1_000 + CALLS {
        stage.client.send(&message::call(id, "quick", json!({ "tag": "t" }))).await;
        stage.client.response(&json!(id)).await;
    }
    let (through, used) = (begun.elapsed() / CALLS as u32, (cpu(pid) - before) / CALLS as u32);
    let upstream = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/quick?tag=t", stage.fake.base_url());
    let begun = Instant::now();
    for _ in 0..CALLS {
        upstream.get(&url).send().await.unwrap().bytes().await.unwrap();
    }
    let direct = begun.elapsed() / CALLS as u32;
    println!("\n{CALLS} calls of an `http` tool over stdio, one after the other:");
    println!("  our CPU time per call   {:.3} ms", used.as_secs_f64() * 1_000.0);
    println!(
        "  latency per call        {:.3} ms, {:.1} × a direct request ({:.3} ms)",
        through.as_secs_f64() * 1_000.0,
        through.as_secs_f64() / direct.as_secs_f64(),
        direct.as_secs_f64() * 1_000.0
    );
}

#[tokio::main]
async fn main() {
    println!("Latency of a cancel in ms, from the client's byte to the upstream:\n");
    println!("| {:<58} | {:>5} | {:>8} | {:>8} | {:>8} |", "what", "n", "p50", "p99", "max");
    println!("|{:-<60}|{:->7}|{:->10}|{:->10}|{:->10}|", "", "", "", "", "");
    let read = (Gate::RequestHead, Route::Slow, "closed_early");
    let job = (Gate::Poll, Route::JobStatus, "cancel_received");
    line("stdio, `http` tool: upstream connection closed", &over_stdio("read", read.0, read.1, read.2).await);
    line(
        "HTTP stream closed, `http` tool: upstream connection closed",
        &over_http("read", read.0, read.1, read.2).await,
    );
    line("stdio, `job` tool: DELETE at the upstream", &over_stdio("job", job.0, job.1, job.2).await);
    line(
        "HTTP stream closed, `job` tool: DELETE at the upstream",
        &over_http("job", job.0, job.1, job.2).await,
    );
    for (how, deletes) in [("POST in a session", false), ("DELETE of a session", true)] {
        line(
            &format!("{how}, `http` tool: upstream connection closed"),
            &in_sessions(deletes, "read", read.0, read.1, read.2).await,
        );
        line(
            &format!("{how}, `job` tool: DELETE at the upstream"),
            &in_sessions(deletes, "job", job.0, job.1, job.2).await,
        );
    }
    cost_of_a_call().await;
}
