//! A call that is answered was not cancelled, however its connection ends afterwards.

mod http_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, HttpOptions};
use http_support::Server;
use http_support::client::{Peer, Post};

async fn is_answered_then_closed(options: HttpOptions) {
    let mut server = Server::start(options).await;
    let mut peer = Peer::connect(server.address).await;
    // Twice, for a connection that is kept must not pass the end of one call on to the next.
    for text in ["one", "two"] {
        peer.send(&Post::call("held")).await;
        let call = server.held().await;
        let handle = call.handle.clone();
        assert_eq!(call.answer(text, false).await, Delivery::Sent);
        let reply = peer.reply().await;
        assert_eq!(reply.status, 200);
        assert!(reply.body.contains(text), "{}", reply.body);
        assert_eq!(handle.cause(), None);
        assert!(!handle.cancel(Cause::Operator, None), "an answered call takes no cancel");
    }
    let mut last = Peer::connect(server.address).await;
    last.send(&Post::call("held")).await;
    let call = server.held().await;
    let handle = call.handle.clone();
    assert_eq!(call.answer("three", false).await, Delivery::Sent);
    drop((peer, last));
    server.stop.cancel();
    server.idle().await;
    assert_eq!(handle.cause(), None, "its answer was on its way before the close");
    server.ended().await;
}

#[tokio::test]
async fn an_answer_in_an_event_stream_is_not_a_disconnect() {
    is_answered_then_closed(HttpOptions::default()).await;
}

#[tokio::test]
async fn an_answer_in_a_json_response_is_not_a_disconnect() {
    is_answered_then_closed(HttpOptions { json: true, ..HttpOptions::default() }).await;
}

#[tokio::test]
async fn the_result_keeps_its_json_and_says_what_it_is() {
    let mut server = Server::start(HttpOptions { json: true, ..HttpOptions::default() }).await;
    let mut peer = Peer::connect(server.address).await;
    let odd = r#"{"jsonrpc":"2.0","id":"07","method":"tools/call","params":{"name":"held","arguments":{"n": 1.0},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    peer.send(&Post::call("held").body(odd)).await;
    let call = server.held().await;
    assert_eq!(call.arguments.as_ref().unwrap().get(), r#"{"n": 1.0}"#);
    call.answer("x", true).await;
    assert_eq!(
        peer.reply().await.body.trim_start(),
        r#"{"jsonrpc":"2.0","id":"07","result":{"resultType":"complete","content":[{"type":"text","text":"x"}],"isError":true}}"#
    );
}

#[tokio::test]
async fn discovery_and_the_list_of_tools_are_answered_at_once() {
    let server = Server::start(HttpOptions::default()).await;
    let mut peer = Peer::connect(server.address).await;
    let discovered = peer.ask(&Post::method("server/discover", "")).await;
    assert_eq!(discovered.status, 200);
    assert!(
        discovered.body.contains(r#""supportedVersions":["2026-07-28","2025-11-25","2025-06-18"]"#),
        "{}",
        discovered.body
    );
    let listed = peer.ask(&Post::method("tools/list", "")).await;
    assert_eq!(listed.status, 200);
    assert!(listed.body.contains(r#"{"name":"quick","inputSchema":{"type":"object"}}"#), "{}", listed.body);
}
