//! The end of a server: answers that are due go out, then everything closes.

mod http_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, HttpOptions};
use http_support::client::{Peer, Post};
use http_support::{Server, soon};
use std::time::Duration;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_shutdown_answers_the_calls_in_flight_and_ends() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut peers = Vec::new();
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut peer = Peer::connect(server.address).await;
        peer.send(&Post::call("held")).await;
        open.push(server.held().await);
        peers.push(peer);
    }
    assert_eq!(server.calls.cancel_all(Cause::Shutdown), 3);
    for call in open {
        assert_eq!(call.cancelled().await, Cause::Shutdown);
        assert_eq!(call.answer("going down", true).await, Delivery::Sent);
    }
    server.idle().await;
    server.stop.cancel();
    for mut peer in peers {
        let all = peer.rest().await;
        assert!(all.contains("going down") && all.contains(r#""isError":true"#), "{all}");
    }
    server.ended().await;
}

#[tokio::test]
async fn a_stop_waits_for_a_call_that_is_still_to_be_answered() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    server.stop.cancel();
    assert_eq!(call.answer("in time", false).await, Delivery::Sent);
    assert!(peer.rest().await.contains("in time"));
    server.ended().await;
}

#[tokio::test]
async fn connections_that_wait_for_nothing_do_not_hold_up_the_end() {
    let server =
        Server::start(HttpOptions { drain: Duration::from_secs(3_600), ..HttpOptions::default() }).await;
    let mut silent = Peer::connect(server.address).await;
    let mut kept = Peer::connect(server.address).await;
    assert_eq!(kept.ask(&Post::call("quick")).await.status, 200);
    server.stop.cancel();
    assert_eq!((silent.rest().await, kept.rest().await), (String::new(), String::new()));
    server.ended().await;
}

#[tokio::test]
async fn after_a_stop_nobody_is_let_in() {
    let server = Server::start(HttpOptions::default()).await;
    let address = server.address;
    server.stop.cancel();
    server.ended().await;
    assert!(soon("a refusal", TcpStream::connect(address)).await.is_err());
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_when_the_drain_is_over() {
    let options = HttpOptions { drain: Duration::from_millis(50), ..HttpOptions::default() };
    let mut server = Server::start(options).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    server.stop.cancel();
    server.ended().await;
    // Cut off by us, and gone all the same: there is nobody to answer.
    assert_eq!(call.cancelled().await, Cause::ClientDisconnected);
    assert_eq!(call.answer("late", false).await, Delivery::Suppressed(Cause::ClientDisconnected));
    assert!(!peer.rest().await.contains("late"));
}

#[tokio::test(start_paused = true)]
async fn headers_and_bodies_that_never_end_are_given_up() {
    let server = Server::start(HttpOptions::default()).await;
    let mut head = Peer::connect(server.address).await;
    head.write("POST /mcp HTTP/1.1\r\nHost: localhost\r\n").await;
    head.patient_rest().await;
    for start in ["P", "PRI * HTTP/2.0\r\n"] {
        let mut version = Peer::connect(server.address).await;
        version.write(start).await;
        tokio::time::timeout(Duration::from_secs(60), version.patient_rest()).await.expect("an end");
    }
    let mut body = Peer::connect(server.address).await;
    body.send(&Post::call("held").with("Content-Length", "1000").body("{")).await;
    assert!(body.patient_rest().await.contains(" 408 "));
    assert!(server.calls.is_empty());
}
