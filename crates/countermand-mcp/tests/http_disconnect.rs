//! A client that closes the response stream has cancelled its call, and sees nothing more of it.

mod http_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, HttpOptions};
use http_support::client::{Peer, Post};
use http_support::{Held, Server};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

const GONE: Delivery = Delivery::Suppressed(Cause::ClientDisconnected);

/// Without signs of life: a failed write would show the close as well, later.
async fn started() -> Server {
    Server::start(HttpOptions { keep_alive: Duration::from_secs(3_600), ..HttpOptions::default() }).await
}

/// The close has been seen, what the handler still says is not sent, and nothing is left.
async fn is_over(server: &Server, call: Held) {
    assert_eq!(call.cancelled().await, Cause::ClientDisconnected);
    assert_eq!(server.calls.len(), 1, "the call counts until its handler has returned");
    assert_eq!(call.answer("late", false).await, GONE);
    server.idle().await;
}

#[tokio::test]
async fn a_close_of_the_event_stream_cancels_the_call() {
    let mut server = started().await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    assert!(peer.until("\r\n\r\n").await.contains("text/event-stream"));
    peer.until(":\n\n").await;
    drop(peer);
    is_over(&server, call).await;
}

#[tokio::test]
async fn a_close_of_a_json_response_cancels_the_call() {
    let mut server = Server::start(HttpOptions { json: true, ..HttpOptions::default() }).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    assert!(peer.until("\r\n\r\n").await.contains("application/json"));
    drop(peer);
    is_over(&server, call).await;
}

#[tokio::test]
async fn a_close_before_the_headers_are_sent_cancels_the_call() {
    let mut server = started().await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    drop(peer);
    is_over(&server, call).await;
}

#[tokio::test]
async fn a_close_behind_a_pipelined_request_cancels_the_call() {
    let mut server = started().await;
    let mut peer = Peer::connect(server.address).await;
    peer.write(&(Post::call("held").bytes() + &Post::method("tools/list", "").bytes())).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    drop(peer);
    is_over(&server, call).await;
}

#[tokio::test]
async fn a_close_behind_bytes_that_nobody_reads_cancels_the_call() {
    let mut server = started().await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    // More than hyper buffers ahead, so that the end lies behind bytes in the kernel.
    peer.write(&"x".repeat(32 * 1024)).await;
    drop(peer);
    is_over(&server, call).await;
}

#[tokio::test]
async fn a_close_behind_more_bytes_than_the_kernel_takes_is_seen_by_the_next_sign_of_life() {
    let keep_alive = Duration::from_millis(20);
    let mut server = Server::start(HttpOptions { keep_alive, ..HttpOptions::default() }).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    while let Ok(length) = peer.stream.try_write(&[b'x'; 64 * 1024]) {
        assert!(length > 0);
    }
    drop(peer);
    is_over(&server, call).await;
}

#[tokio::test]
async fn a_close_by_a_client_that_has_not_read_its_progress_cancels_the_call() {
    let mut server = started().await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    let progress = call.progress.clone().unwrap();
    let text = "p".repeat(64 * 1024);
    for step in 0..400 {
        progress.send(f64::from(step), None, Some(&text));
        // Lets the connection write until the client's window is full.
        tokio::task::yield_now().await;
    }
    drop(peer);
    is_over(&server, call).await;
}

#[tokio::test]
async fn a_client_that_closes_only_its_sending_side_counts_as_gone() {
    let mut server = started().await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until("\r\n\r\n").await;
    peer.stream.shutdown().await.unwrap();
    is_over(&server, call).await;
    let rest = peer.rest().await;
    assert!(!rest.contains("late") && !rest.contains("jsonrpc"), "{rest:?}");
}

#[tokio::test]
async fn nothing_is_sent_for_a_call_that_the_client_has_left_and_the_next_one_is_served() {
    let mut server = started().await;
    let mut first = Peer::connect(server.address).await;
    first.send(&Post::call("held")).await;
    let call = server.held().await;
    drop(first);
    is_over(&server, call).await;
    let reply = Peer::connect(server.address).await.ask(&Post::call("quick")).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn the_same_id_on_two_requests_is_two_calls() {
    let mut server = started().await;
    let (mut left, mut stays) = (Peer::connect(server.address).await, Peer::connect(server.address).await);
    left.send(&Post::call("held")).await;
    let first = server.held().await;
    stays.send(&Post::call("held")).await;
    let second = server.held().await;
    drop(left);
    is_over_but_for_another(first).await;
    assert_eq!(second.handle.cause(), None);
    assert_eq!(second.answer("mine", false).await, Delivery::Sent);
    assert!(stays.reply().await.body.contains("mine"));
}

async fn is_over_but_for_another(call: Held) {
    assert_eq!(call.cancelled().await, Cause::ClientDisconnected);
    assert_eq!(call.answer("late", false).await, GONE);
}

#[tokio::test(start_paused = true)]
async fn urgent_data_is_no_close_and_does_not_keep_the_watcher_busy() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    socket2::SockRef::from(&peer.stream).send_out_of_band(b"!").unwrap();
    // Paused time moves on only while no task is busy.
    for _ in 0..3 {
        peer.until(":\n\n").await;
    }
    assert_eq!(call.answer("done", false).await, Delivery::Sent);
    peer.until("done").await;
}
