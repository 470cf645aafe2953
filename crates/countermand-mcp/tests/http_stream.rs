//! What goes out before the answer does: early headers, signs of life, progress. And what does not.

mod http_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, HttpOptions};
use http_support::Server;
use http_support::client::{Peer, Post};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_silent_call_sends_its_headers_early_and_a_comment_at_every_interval() {
    let mut server = Server::start(HttpOptions::default()).await;
    let (mut peer, begun) = (Peer::connect(server.address).await, Instant::now());
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    let head = peer.until("\r\n\r\n").await.to_ascii_lowercase();
    for line in
        ["200 ok", "content-type: text/event-stream", "cache-control: no-cache", "x-accel-buffering: no"]
    {
        assert!(head.contains(line), "{line} in {head}");
    }
    peer.until(":\n\n").await;
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    for nth in 1..=3 {
        peer.until(":\n\n").await;
        let elapsed = begun.elapsed().as_millis();
        assert!((nth * 5_000..nth * 5_000 + 100).contains(&elapsed), "{nth}: {elapsed} ms");
    }
    assert_eq!(call.answer("done", false).await, Delivery::Sent);
    assert!(peer.until("}\n\n").await.contains("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_json_response_is_kept_alive_by_spaces_and_stays_json() {
    let mut server = Server::start(HttpOptions { json: true, ..HttpOptions::default() }).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    let head = peer.until("\r\n\r\n").await;
    peer.until("1\r\n \r\n").await;
    peer.until("1\r\n \r\n").await;
    call.answer("done", false).await;
    peer.text.insert_str(0, &head);
    let reply = peer.reply().await;
    for line in ["content-type: application/json", "cache-control: no-cache", "x-accel-buffering: no"] {
        assert!(reply.head.contains(line), "{line} in {}", reply.head);
    }
    let json: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(json["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_client_that_takes_json_only_gets_json() {
    let server = Server::start(HttpOptions::default()).await;
    let mut peer = Peer::connect(server.address).await;
    let reply = peer.ask(&Post::call("quick").with("Accept", "application/json")).await;
    assert!(reply.head.contains("content-type: application/json"), "{}", reply.head);
    assert!(reply.body.starts_with('{'), "{}", reply.body);
}

#[tokio::test(start_paused = true)]
async fn a_failure_within_the_wait_keeps_its_status_and_a_later_one_is_an_event() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut peer = Peer::connect(server.address).await;
    assert_eq!(peer.ask(&Post::call("picky")).await.status, 400);
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    assert!(peer.until("\r\n\r\n").await.contains("200 OK"));
    drop(call);
    assert!(peer.until("}\n\n").await.contains(r#""error":{"code":1,"#));
}

#[tokio::test]
async fn progress_goes_out_before_the_answer_and_never_after_it() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    let progress = call.progress.clone().unwrap();
    progress.send(1.0, Some(2.0), Some("half"));
    let seen = peer.until("}}\n\n").await;
    assert!(seen.contains(r#""progressToken":"p","progress":1,"total":2,"message":"half""#), "{seen}");
    progress.send(2.0, None, None);
    call.answer("done", false).await;
    progress.send(3.0, None, None);
    let rest = peer.chunked_rest().await;
    let (second, answer) = (rest.find(r#""progress":2"#).unwrap(), rest.find("done").unwrap());
    assert!(second < answer && !rest.contains(r#""progress":3"#), "{rest}");
}

#[tokio::test]
async fn a_json_response_carries_no_progress() {
    let mut server = Server::start(HttpOptions { json: true, ..HttpOptions::default() }).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    assert!(call.progress.is_none());
    call.answer("done", false).await;
    assert_eq!(peer.reply().await.status, 200);
}

#[tokio::test]
async fn a_client_that_does_not_read_misses_progress_and_still_gets_the_newest_and_the_answer() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call("held")).await;
    let call = server.held().await;
    peer.until(":\n\n").await;
    let (progress, text) = (call.progress.clone().unwrap(), "p".repeat(64 * 1024));
    for step in 1..=500 {
        progress.send(f64::from(step), None, Some(&text));
        tokio::task::yield_now().await;
    }
    assert_eq!(call.answer("done", false).await, Delivery::Sent);
    let rest = peer.chunked_rest().await;
    let events = rest.matches("notifications/progress").count();
    assert!(events < 400, "what nobody reads is not kept: {events}");
    assert!(rest.contains(r#""progress":500"#) && rest.contains("done"));
}

#[tokio::test]
async fn a_cancel_that_is_not_the_clients_is_answered() {
    for cause in [Cause::Deadline, Cause::Operator, Cause::Shutdown] {
        let mut server = Server::start(HttpOptions::default()).await;
        let mut peer = Peer::connect(server.address).await;
        peer.send(&Post::call("held")).await;
        let call = server.held().await;
        assert!(call.handle.cancel(cause, None));
        assert_eq!(call.answer("stopped", true).await, Delivery::Sent);
        assert!(peer.reply().await.body.contains(r#""isError":true"#), "{cause}");
    }
}
