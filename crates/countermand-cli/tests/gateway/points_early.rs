//! Cancels before the upstream has seen anything of the request: cases 4 and 5.

use crate::{
    over_all,
    points::{count, tag, until},
    stage::{Caller, Door, Stage},
};
use countermand_testkit::{
    client::message,
    fake::{Event, Gate, Route},
};
use serde_json::json;
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::net::{TcpListener, TcpSocket};

fn requests(events: &[Event], route: Route) -> usize {
    events.iter().filter(|event| event.is("request") && event.route == Some(route)).count()
}

/// Case 4, with jobs: whatever was created is cancelled, and nothing is answered.
#[tokio::test]
async fn jobs_that_are_called_and_cancelled_in_one_write_leave_nothing() {
    const CALLS: u64 = 20;
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    let pairs: Vec<_> = (1..=CALLS)
        .flat_map(|id| [message::call(id, "with_undo", tag()), message::cancelled(id, Some("at once"))])
        .collect();
    client.send_at_once(&pairs).await;
    client.barrier().await;
    let ids: Vec<u64> = (1..=CALLS).collect();
    // The end of the process is the barrier: what has not reached the upstream by then never will.
    stage.finish(Caller::Stdio(Box::new(client)), &ids).await;
    let rows = stage.operations().await;
    assert!(rows.iter().all(|row| row["settled"] == true && row["cause"] == "client_cancelled"), "{rows:#?}");
    assert_eq!((stage.fake.live_jobs().len(), stage.fake.rows("t")), (0, 0));
}

/// Case 4, with reads.
#[tokio::test]
async fn reads_that_are_called_and_cancelled_in_one_write_leave_nothing() {
    const CALLS: u64 = 50;
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    let pairs: Vec<_> = (1..=CALLS)
        .flat_map(|id| [message::call(id, "search", tag()), message::cancelled(id, None)])
        .collect();
    client.send_at_once(&pairs).await;
    client.barrier().await;
    let mut caller = Caller::Stdio(Box::new(client));
    caller.works().await;
    let ids: Vec<u64> = (1..=CALLS).collect();
    stage.finish(caller, &ids).await;
    let events = stage.fake.events();
    assert_eq!(count(&events, "slow_started"), count(&events, "slow_ended"), "none waits on");
}

/// Case 4 over HTTP: the call's bytes, and the end of the connection behind them, by a FIN and by a RST.
#[tokio::test]
async fn http_calls_whose_client_is_gone_at_once_leave_nothing() {
    const CALLS: u64 = 10;
    let stage = Stage::new().await;
    let gateway = stage.http().await;
    for id in 1..=CALLS {
        gateway.client.call(id, "with_undo", tag()).await.close();
        gateway.client.call(id, "search", tag()).await.reset();
        gateway.client.call(id, "with_undo", tag()).await.reset();
        gateway.client.call(id, "search", tag()).await.close();
    }
    gateway.client.barrier().await;
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
    let rows = stage.operations().await;
    let fits = |row: &serde_json::Value| row["settled"] == true && row["cause"] == "client_disconnected";
    assert!(rows.iter().all(fits), "{rows:#?}");
    assert_eq!((stage.fake.live_jobs().len(), stage.fake.rows("t")), (0, 0));
    let events = stage.fake.events();
    assert_eq!(count(&events, "slow_started"), count(&events, "slow_ended"), "none waits on");
}

over_all! {
    /// Case 5: the connection is there, and the upstream does not look at it.
    async fn a_read_that_nobody_has_looked_at_is_aborted(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::Accept, Default::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "search", tag()).await;
        held.reached().await;
        caller.cancel_and_listen(pending).await;
        stage.fake.wait_for("closed_early", 1).await;
        held.release();
        caller.barrier().await;
        caller.works().await;
        assert_eq!(requests(&stage.fake.events(), Route::Slow), 0, "it was never read");
        stage.finish(caller, &[1]).await;
    }
}

/// A socket on a free port of 127.0.0.1.
pub fn bound() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    socket
}

/// A listener whose queue is full: connecting to it takes until somebody gives up.
struct Deaf {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<std::net::TcpStream>,
}

impl Deaf {
    fn new() -> Self {
        let listener = bound().listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            queue.push(stream);
        }
        Self { address, _listener: listener, _queue: queue }
    }
}

/// Whether somebody's connection to this address is in one of these states: the kernel's word.
pub fn connected(to: SocketAddr, states: &[&str]) -> bool {
    let to = format!("0100007F:{:04X}", to.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let mut connections = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    connections.any(|fields| {
        fields.get(2) == Some(&to.as_str()) && fields.get(3).is_some_and(|state| states.contains(state))
    })
}

/// How `/proc/net/tcp` calls a connection that is being opened.
const CONNECTING: &[&str] = &["02"];

over_all! {
    /// Case 5: the upstream accepts nothing.
    async fn a_read_that_is_still_connecting_is_given_up_at_once(door) {
        let deaf = Deaf::new();
        let upstream = format!(
            "  deaf: {{ http: {{ base_url: \"http://{}\", connect_timeout: 10m }} }}\n",
            deaf.address
        );
        let tool = "  reach:\n    input: *input\n    upstream: deaf\n    http: { request: GET /slow }\n";
        let stage = Stage::with_more(&upstream, tool).await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "reach", tag()).await;
        until("it connects", || connected(deaf.address, CONNECTING)).await;
        caller.cancel_and_listen(pending).await;
        until("it gives up", || !connected(deaf.address, CONNECTING)).await;
        caller.works().await;
        stage.finish(caller, &[1]).await;
    }
}

over_all! {
    /// Case 5: a create of which not one byte was written was never sent.
    async fn a_job_that_is_cancelled_while_its_create_connects_was_never_created(door) {
        let deaf = Deaf::new();
        let upstream =
            format!("  deaf: {{ http: {{ base_url: \"http://{}\", connect_timeout: 1s }} }}\n", deaf.address);
        let tool = "  reach:\n    input: *input\n    upstream: deaf\n    job: *job\n";
        let stage = Stage::with_more(&upstream, tool).await;
        let mut caller = Caller::at(door, &stage).await;
        let cause = caller.cause();
        let pending = caller.call(1, "reach", tag()).await;
        until("it connects", || connected(deaf.address, CONNECTING)).await;
        caller.cancel_and_listen(pending).await;
        let row = stage.phase("never_created").await;
        assert_eq!((&row["settled"], row["cause"].as_str()), (&json!(true), Some(cause)));
        caller.works().await;
        stage.finish(caller, &[1]).await;
    }
}

const NARROW: &str = "  narrow: { http: { base_url: \"FAKE\", concurrency: 1 } }\n";
const NARROW_TOOLS: &str = "
  narrow_search: { input: *input, upstream: narrow, http: { request: GET /slow, query: { tag: \"${args.tag}\" } } }
  narrow_quick: { input: *input, upstream: narrow, http: { request: GET /quick, query: { tag: \"${args.tag}\" } } }
  narrow_report: { input: *input, upstream: narrow, job: *job }
";

over_all! {
    /// Case 5: waiting for a pool slot.
    async fn a_read_that_waits_for_a_slot_is_cancelled_there_and_the_slot_is_not_lost(door) {
        let stage = Stage::with_more(NARROW, NARROW_TOOLS).await;
        let mut caller = Caller::at(door, &stage).await;
        let holds = caller.call(1, "narrow_search", json!({ "tag": "holds" })).await;
        stage.fake.wait_for("slow_started", 1).await;
        let waits = caller.call(2, "narrow_search", json!({ "tag": "waits" })).await;
        caller.barrier().await;
        caller.cancel_and_listen(waits).await;
        caller.barrier().await;
        let mut next = caller.call(3, "narrow_quick", tag()).await;
        caller.cancel_and_listen(holds).await;
        stage.fake.wait_for("closed_early", 1).await;
        assert_eq!(
            caller.answer(&mut next).await["structuredContent"]["quick"],
            true,
            "the slot is free again"
        );
        assert!(
            !stage.fake.events().iter().any(|event| event.tagged("waits")),
            "it never reached the upstream"
        );
        stage.finish(caller, &[1, 2]).await;
    }
}

over_all! {
    /// Case 5: a job that waits for a slot has a row, and nothing was sent for it.
    async fn a_job_that_waits_for_a_slot_was_never_created(door) {
        let stage = Stage::with_more(NARROW, NARROW_TOOLS).await;
        let mut caller = Caller::at(door, &stage).await;
        let mut holds = caller.call(1, "narrow_search", json!({ "tag": "holds" })).await;
        stage.fake.wait_for("slow_started", 1).await;
        let waits = caller.call(2, "narrow_report", json!({ "tag": "waits" })).await;
        stage.phase("intent").await;
        caller.cancel_and_listen(waits).await;
        stage.phase("never_created").await;
        assert_eq!(stage.fake.release_slow(None), 1, "the other one was left alone");
        assert_eq!(caller.answer(&mut holds).await["isError"], false);
        caller.works().await;
        assert!(
            !stage.fake.events().iter().any(|event| event.tagged("waits")),
            "it never reached the upstream"
        );
        stage.finish(caller, &[2]).await;
    }
}
