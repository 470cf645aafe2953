//! The fake sees its peer leave, whatever the request is waiting for.

mod fake_support;

use countermand_testkit::fake::{Close, EventKind, FakeUpstream, Fault, Filter, Gate, Route};
use fake_support::Raw;

fn closed_at(fake: &FakeUpstream) -> Vec<Option<Gate>> {
    let events = fake.events();
    let closed = events.iter().filter_map(|event| match event.kind {
        EventKind::ClosedEarly { gate, .. } => Some(gate),
        _ => None,
    });
    closed.collect()
}

#[tokio::test]
async fn a_close_is_seen_at_every_gate_while_it_is_held() {
    let gates = [
        (Gate::RequestHead, "GET", "/quick"),
        (Gate::Body, "POST", "/jobs"),
        (Gate::CreateCommitted, "POST", "/jobs"),
        (Gate::PollN(1), "GET", "/jobs/job-1"),
        (Gate::CancelReceived, "DELETE", "/jobs/job-1"),
        (Gate::CancelResponse, "DELETE", "/jobs/job-1"),
        (Gate::OrderCommitted, "POST", "/orders"),
        (Gate::Find, "GET", "/jobs?key=k"),
        (Gate::Result, "GET", "/jobs/job-1/result"),
        (Gate::ResponseHead, "GET", "/quick"),
        (Gate::ResponseLastByte, "GET", "/quick"),
    ];
    for (gate, method, target) in gates {
        let fake = FakeUpstream::start().await;
        if target.starts_with("/jobs/") {
            Raw::to(fake.addr()).await.ask("POST", "/jobs", &["connection: close"], "").await;
        }
        let held = fake.hold(gate, Filter::default());
        let mut client = Raw::to(fake.addr()).await;
        client.send(method, target, &[], "").await;
        held.reached().await;
        assert_eq!(closed_at(&fake), [], "{gate}");
        client.leave();
        fake.wait_for("closed_early", 1).await;
        assert_eq!(closed_at(&fake), [Some(gate)]);
        fake.wait(|_| fake.connections_open() == 0).await;
    }
}

#[tokio::test]
async fn a_connection_is_held_before_its_first_request() {
    let fake = FakeUpstream::start().await;
    let held = fake.hold(Gate::Accept, Filter::default());
    let mut client = Raw::to(fake.addr()).await;
    client.send("GET", "/quick", &[], "").await;
    held.reached().await;
    assert!(!fake.events().iter().any(|event| event.is("request")));
    held.release();
    assert_eq!(client.reply().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_request_that_was_abandoned_before_it_took_effect_takes_none() {
    let fake = FakeUpstream::start().await;
    let held = fake.hold(Gate::Body, Filter::default());
    let mut client = Raw::to(fake.addr()).await;
    client.send("POST", "/jobs", &[], "").await;
    held.reached().await;
    client.leave();
    fake.wait_for("closed_early", 1).await;
    held.release();
    fake.shutdown_and_count(0).await;
}

#[tokio::test]
async fn a_half_sent_body_and_a_half_sent_head_are_closed_early() {
    let fake = FakeUpstream::start().await;
    let held = fake.hold(Gate::RequestHead, Filter::default());
    let mut client = Raw::to(fake.addr()).await;
    client.write(b"POST /jobs HTTP/1.1\r\ncontent-length: 9\r\n\r\n{").await;
    held.reached().await;
    held.release();
    client.leave();
    fake.wait_for("closed_early", 1).await;
    let mut client = Raw::to(fake.addr()).await;
    client.write(b"POST /jo").await;
    client.leave();
    fake.wait_for("closed_early", 2).await;
    assert_eq!(closed_at(&fake), [Some(Gate::RequestHead), None]);
    assert_eq!(fake.books().created, 0);
}

#[tokio::test]
async fn an_idle_close_is_no_early_one() {
    let fake = FakeUpstream::start().await;
    let mut client = Raw::to(fake.addr()).await;
    assert_eq!(client.ask("GET", "/quick", &[], "").await.status, 200);
    assert_eq!(client.ask("GET", "/nowhere", &[], "").await.status, 404);
    client.leave();
    let events = fake.wait_for("connection_closed", 1).await;
    assert!(!events.iter().any(|event| event.is("closed_early")));
    assert_eq!(events.iter().filter(|event| event.is("request")).count(), 2);
}

#[tokio::test]
async fn a_slow_request_ends_by_its_peers_leaving_by_its_time_or_by_release() {
    let fake = FakeUpstream::start().await;
    let mut leaving = Raw::to(fake.addr()).await;
    leaving.send("GET", "/slow?tag=a", &[], "").await;
    fake.wait_for("slow_started", 1).await;
    leaving.leave();
    fake.wait_for("closed_early", 1).await;
    let mut timed = Raw::to(fake.addr()).await;
    assert_eq!(timed.ask("GET", "/slow?secs=0.001", &[], "").await.status, 200);
    timed.send("GET", "/slow?tag=b", &[], "").await;
    fake.wait_for("slow_started", 3).await;
    assert_eq!(fake.release_slow(Some("b")), 1);
    assert_eq!(timed.reply().await.unwrap().json()["tag"], "b");
    let ends = fake.wait_for("slow_ended", 3).await;
    let released = ends.iter().filter_map(|event| match event.kind {
        EventKind::SlowEnded { released } => Some(released),
        _ => None,
    });
    assert_eq!(released.collect::<Vec<_>>(), [false, false, true]);
}

#[tokio::test]
async fn a_body_that_trickles_shows_its_head_first() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::Quick, Fault::Trickle, None);
    let mut client = Raw::to(fake.addr()).await;
    client.send("GET", "/quick", &[], "").await;
    assert!(client.head().await.unwrap().starts_with("HTTP/1.1 200"));
    client.leave();
    fake.wait_for("closed_early", 1).await;
    assert_eq!(closed_at(&fake), [Some(Gate::ResponseHead)]);
}

#[tokio::test]
async fn a_peer_that_takes_no_more_of_a_huge_body_is_seen_to_leave() {
    let fake = FakeUpstream::start().await;
    fake.fault(Route::Quick, Fault::HugeBody(1 << 30), None);
    let mut client = Raw::to(fake.addr()).await;
    client.send("GET", "/quick", &[], "").await;
    client.head().await.unwrap();
    client.leave();
    let events = fake.wait_for("closed_early", 1).await;
    let how = events.iter().find_map(|event| match event.kind {
        EventKind::ClosedEarly { how, .. } => Some(how),
        _ => None,
    });
    assert_eq!(how, Some(Close::Reset), "unread bytes were lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_come_and_go() {
    const N: usize = 1_000;
    let fake = FakeUpstream::start().await;
    let mut clients = Vec::new();
    for _ in 0..N {
        let mut client = Raw::to(fake.addr()).await;
        client.send("GET", "/slow?tag=many", &[], "").await;
        clients.push(client);
    }
    fake.wait_for("slow_started", N).await;
    assert_eq!(fake.connections_open(), N);
    drop(clients);
    fake.wait_for("closed_early", N).await;
    assert_eq!(fake.connections_open(), 0);
}

trait Count {
    async fn shutdown_and_count(self, created: u64);
}

impl Count for FakeUpstream {
    /// A negative claim: nothing may come after the release. A request on another connection is the barrier.
    async fn shutdown_and_count(self, created: u64) {
        let mut barrier = Raw::to(self.addr()).await;
        barrier.ask("GET", "/quick", &[], "").await;
        assert_eq!(self.books().created, created);
        self.shutdown().await;
    }
}
