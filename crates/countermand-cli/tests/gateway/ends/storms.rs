//! Many cancels at once: all of them arrive, nothing is left over, and the next call works.

use super::{Caller, Door, Stage, tagged, the_next_call_works, within};
use crate::over_all;
use countermand_testkit::{
    client::message,
    fake::{Filter, Gate},
};
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

/// What a process holds: descriptors, and resident memory in KiB.
pub(super) fn held_by(pid: u32) -> (usize, u64) {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    (descriptors, line.split_whitespace().nth(1).unwrap().parse().unwrap())
}

/// Where a storm leaves a process: as many descriptors as a pool may keep idle, and bounded memory.
pub(super) fn is_bounded(pid: u32, before: (usize, u64), kib: u64, what: &str) {
    let after = held_by(pid);
    println!("{what}: {} → {} descriptors, {} → {} KiB", before.0, after.0, before.1, after.1);
    assert!(after.0 <= before.0 + 64 + 16, "descriptors: {before:?} → {after:?}");
    assert!(after.1 <= before.1 + kib, "memory: {before:?} → {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_cancels_of_unknown_ids_on_stdio_are_read_and_mean_nothing() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.barrier().await;
    let before = held_by(client.pid().unwrap());
    let cancels: Vec<_> = (1..=10_000).map(|id| message::cancelled(id, Some("no such call"))).collect();
    let sent = Instant::now();
    client.send_at_once(&cancels).await;
    client.barrier().await;
    within(Duration::from_secs(5), sent, "10,000 cancels of unknown ids and a barrier, stdio");
    is_bounded(client.pid().unwrap(), before, 16 * 1024, "10,000 unknown ids, stdio");
    // An id that was cancelled before it was used is not cancelled.
    client.send(&message::call(5_000, "quick", tagged("next"))).await;
    assert_eq!(client.response(&json!(5_000)).await["result"]["isError"], false);
    client.close_input();
    assert!(client.read_to_end().await.is_empty(), "not a word about them");
    assert!(client.exit().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_cancels_of_unknown_ids_over_http_are_read_and_mean_nothing() {
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    let bystander = gateway.client.call(1, "search", tagged("bystander")).await;
    stage.fake.wait_for("slow_started", 1).await;
    let before = held_by(gateway.process.id().unwrap());
    let sent = Instant::now();
    for round in 0..100 {
        let mut stream = TcpStream::connect(gateway.client.address()).await.unwrap();
        let mut bytes = Vec::new();
        for n in 0..100 {
            let cancel = message::cancelled(round * 100 + n, None).to_string();
            let mut headers =
                vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "notifications/cancelled")];
            headers.extend((n == 99).then_some(("Connection", "close")));
            bytes.extend(gateway.client.post_bytes(&headers, cancel.as_bytes()));
        }
        stream.write_all(&bytes).await.unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("HTTP/1.1 202 ").count(), 100, "{}", &answers[..answers.len().min(300)]);
    }
    gateway.client.barrier().await;
    within(Duration::from_secs(20), sent, "10,000 cancels of unknown ids and a barrier, HTTP");
    is_bounded(gateway.process.id().unwrap(), before, 16 * 1024, "10,000 unknown ids, HTTP");
    assert!(!stage.fake.events().iter().any(|event| event.is("closed_early")), "nobody else is touched");
    bystander.close();
    the_next_call_works(&mut Caller::Http(Box::new(gateway))).await;
}

over_all! {
    async fn a_thousand_jobs_cancelled_at_once_are_all_cancelled_upstream_and_the_next_call_works(door) {
        const N: u64 = 1_000;
        let stage = Stage::new().await;
        // The storm is one of cancels, not of polls.
        stage.configure(|config| config.replace("every: 100ms", "every: 1m"));
        let mut caller = Caller::at(door, &stage).await;
        caller.barrier().await;
        let before = held_by(caller.pid());
        let mut calls = Vec::new();
        for id in 1..=N {
            calls.push(caller.call(id, "run_report", tagged(&format!("t{id}"))).await);
        }
        stage.fake.wait_for("responded", 1_000).await;
        stage.operations_when("a thousand jobs that run", |rows| rows.iter().filter(|row| row["phase"] == "running").count() == 1_000).await;
        let loaded = held_by(caller.pid());
        println!("{door:?}: a call in flight takes {} KiB (debug build)", loaded.1.saturating_sub(before.1) / N);
        let cancelled = Instant::now();
        for call in calls {
            caller.cancel(call).await;
        }
        stage.fake.wait_for("cancel_received", 1_000).await;
        within(Duration::from_secs(20), cancelled, &format!("{door:?}: 1,000 cancels, to the last upstream cancel"));
        the_next_call_works(&mut caller).await;
        let rows = stage.settled(1_000).await;
        let wanted = caller.cause();
        assert!(rows.iter().all(|row| row["phase"] == "cancelled" && row["cause"] == wanted));
        let events = stage.fake.events();
        assert_eq!(events.iter().filter(|event| event.is("cancel_received")).count(), 1_000, "one cancel a job");
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (N, N));
        is_bounded(caller.pid(), before, 256 * N, &format!("{door:?}: 1,000 real jobs"));
        caller.barrier().await;
        let ids: Vec<u64> = (1..=N).collect();
        caller.nothing_was_sent_for(&ids).await;
    }
}

over_all! {
    async fn as_many_calls_as_the_upstream_takes_and_two_more_all_end_and_the_next_call_works(door) {
        const SLOTS: u64 = 4;
        let stage = Stage::new().await;
        stage.configure(|config| config.replace("connect_timeout: 2s,", "connect_timeout: 2s, concurrency: 4,"));
        let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let mut calls = Vec::new();
        for id in 1..=SLOTS + 2 {
            calls.push(caller.call(id, "run_report", tagged(&format!("t{id}"))).await);
        }
        held.reached_n(SLOTS).await;
        stage.operations_when("two that wait", |rows| rows.iter().filter(|row| row["phase"] == "intent").count() == 2).await;
        for call in calls {
            caller.cancel(call).await;
        }
        caller.barrier().await;
        stage.operations_when("two that never were", |rows| rows.iter().filter(|row| row["phase"] == "never_created").count() == 2).await;
        held.release();
        stage.settled(6).await;
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (SLOTS, SLOTS));
        the_next_call_works(&mut caller).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reads_cancelled_at_once_close_all_their_connections() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut calls = Vec::new();
    for id in 1..=100 {
        calls.push(caller.call(id, "search", tagged(&format!("t{id}"))).await);
    }
    stage.fake.wait_for("slow_started", 100).await;
    assert_eq!(stage.fake.connections_open(), 100);
    let cancelled = Instant::now();
    for call in calls {
        caller.cancel(call).await;
    }
    stage.fake.wait_for("closed_early", 100).await;
    within(Duration::from_secs(2), cancelled, "100 cancels of reads, to the last abort");
    assert_eq!(stage.fake.connections_open(), 0);
    the_next_call_works(&mut caller).await;
    let ids: Vec<u64> = (1..=100).collect();
    caller.nothing_was_sent_for(&ids).await;
}
