//! What is refused, with which status and which JSON-RPC error.

mod http_support;

use countermand_core::Cause;
use countermand_mcp::{HttpOptions, Limits};
use http_support::Server;
use http_support::client::{META, Peer, Post, Reply};

async fn ask(server: &Server, post: &Post) -> Reply {
    Peer::connect(server.address).await.ask(post).await
}

/// Each of these is answered with that status, and with that error code where one is given.
async fn are_answered(server: &Server, table: Vec<(&str, Post, u16, Option<i64>)>) {
    for (what, post, status, code) in table {
        let reply = ask(server, &post).await;
        assert_eq!(reply.status, status, "{what}: {}", reply.body);
        let error: Option<i64> = serde_json::from_str(&reply.body)
            .ok()
            .and_then(|json: serde_json::Value| json["error"]["code"].as_i64());
        assert_eq!(error, code, "{what}: {}", reply.body);
    }
    assert!(server.calls.is_empty(), "none of them is a call");
}

fn quick() -> Post {
    Post::call("quick")
}

fn verb(verb: &'static str) -> Post {
    Post { verb, ..quick().body("") }
}

#[tokio::test]
async fn what_is_no_request_of_ours_has_the_status_that_says_so() {
    let server = Server::start(HttpOptions::default()).await;
    let old = META.replace("2026-07-28", "2025-11-25");
    let elsewhere = Post { path: "/other", ..quick() };
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    are_answered(
        &server,
        vec![
            ("another path", elsewhere, 404, None),
            ("GET", verb("GET"), 405, None),
            ("DELETE", verb("DELETE"), 405, None),
            ("PUT", verb("PUT"), 405, None),
            ("another type to read", quick().with("Content-Type", "text/plain"), 415, None),
            ("no type", quick().without("Content-Type"), 415, None),
            ("another type to write", quick().with("Accept", "text/html"), 406, None),
            ("no JSON", quick().body("{"), 400, Some(-32700)),
            ("half a character", quick().body("\"\\ud800\""), 400, Some(-32700)),
            ("JSON that is no object", quick().body("1"), 400, Some(-32600)),
            ("a batch", quick().body(&format!("[{}]", quick().body)), 400, Some(-32600)),
            ("an answer", quick().body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 400, Some(-32600)),
            ("a null id", quick().body(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#), 400, Some(-32600)),
            ("no metadata", Post::method("tools/list", "").body(bare), 400, Some(-32602)),
            ("an unknown method", Post::method("resources/list", ""), 404, Some(-32601)),
            ("a method of older revisions", Post::method("ping", ""), 404, Some(-32601)),
            (
                "an older revision",
                Post::method("tools/list", "")
                    .with("MCP-Protocol-Version", "2025-11-25")
                    .body(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{old}}}}}"#)),
                400,
                Some(-32600),
            ),
            (
                "a revision that nobody knows",
                Post::method("tools/list", "").with("MCP-Protocol-Version", "2999-01-01").body(bare),
                400,
                Some(-32022),
            ),
            (
                "an initialize of a revision without one",
                Post::method("initialize", r#""protocolVersion":"2025-11-25""#),
                404,
                Some(-32601),
            ),
            ("a tool that fails for want of a capability", Post::call("picky"), 400, Some(-32021)),
            ("a tool that there is not", Post::call("nothing"), 200, None),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_id_of_what_is_no_json_is_null_and_else_the_one_that_was_sent() {
    let server = Server::start(HttpOptions::default()).await;
    assert!(ask(&server, &quick().body("nonsense")).await.body.contains(r#""id":null"#));
    assert!(ask(&server, &quick().with("Mcp-Method", "tools/list")).await.body.contains(r#""id":7"#));
}

#[tokio::test]
async fn headers_that_contradict_the_body_or_are_missing_are_a_mismatch() {
    let server = Server::start(HttpOptions::default()).await;
    let mismatch = |what, post| (what, post, 400, Some(-32020));
    let mirrored = Post::method("tools/call", r#""name":"mirrored","arguments":{"region":"eu"}"#)
        .with("Mcp-Name", "mirrored");
    are_answered(
        &server,
        vec![
            mismatch("no version", quick().without("MCP-Protocol-Version")),
            mismatch("another version", quick().with("MCP-Protocol-Version", "2025-11-25")),
            mismatch("two versions", quick().twice("MCP-Protocol-Version", "2026-07-28")),
            mismatch("no method", quick().without("Mcp-Method")),
            mismatch("another method", quick().with("Mcp-Method", "tools/list")),
            mismatch("two methods", quick().twice("Mcp-Method", "tools/call")),
            mismatch("no name", quick().without("Mcp-Name")),
            mismatch("another name", quick().with("Mcp-Name", "held")),
            mismatch("a name that is no Base64", quick().with("Mcp-Name", "=?base64?!?=")),
            mismatch("a mirrored argument that is missing", mirrored.clone()),
            mismatch("a mirrored argument of another value", mirrored.clone().with("Mcp-Param-Region", "us")),
            ("a wrapped name", quick().with("Mcp-Name", "=?base64?cXVpY2s=?="), 200, None),
            ("a mirrored argument", mirrored.with("Mcp-Param-Region", "eu"), 200, None),
        ],
    )
    .await;
}

#[tokio::test]
async fn only_hosts_and_origins_of_this_machine_or_listed_ones_may_ask() {
    let refused = |what, post| (what, post, 403, None);
    let may = |what, post| (what, post, 200, None);
    let host = |name| quick().with("Host", name);
    let origin = |origin| quick().with("Origin", origin);
    let server = Server::start(HttpOptions::default()).await;
    are_answered(
        &server,
        vec![
            may("an address of this machine", host("127.0.0.1:1")),
            may("its IPv6 address", host("[::1]:1")),
            may("an origin of this machine", origin("http://localhost:3000")),
            refused("a rebound name", host("evil.example")),
            refused("another site", origin("https://evil.example")),
            refused("a site that hides", origin("null")),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_notification_is_accepted_and_means_nothing() {
    let mut server = Server::start(HttpOptions::default()).await;
    let mut caller = Peer::connect(server.address).await;
    caller.send(&Post::call("held")).await;
    let call = server.held().await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    let reply = ask(&server, &Post::method("notifications/cancelled", "").body(cancel)).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    assert_eq!(call.handle.cause(), None, "here, only closing the response is a cancel");
    call.answer("done", false).await;
    caller.until("done").await;
}

#[tokio::test]
async fn a_long_message_is_refused_before_it_is_read() {
    let limits = Limits { message: 1_000, ..Limits::default() };
    let server = Server::limited(HttpOptions::default(), limits).await;
    let mut announced = Peer::connect(server.address).await;
    announced.send(&quick().with("Content-Length", "1001").body("")).await;
    assert_eq!(announced.reply().await.status, 413);
    announced.rest().await;

    let mut chunked = Peer::connect(server.address).await;
    chunked.send(&quick().with("Transfer-Encoding", "chunked").body("")).await;
    chunked.write(&format!("3e9\r\n{}\r\n", "x".repeat(1_001))).await;
    assert_eq!(chunked.reply().await.status, 413);
    chunked.rest().await;

    let mut stubborn = Peer::connect(server.address).await;
    stubborn.send(&quick().body(&"x".repeat(300_000))).await;
    assert_eq!(stubborn.reply().await.status, 413, "it has sent all of it, and can still read why not");

    let fits = quick();
    let padded = fits.body.clone() + &" ".repeat(1_000 - fits.body.len());
    assert_eq!(ask(&server, &fits.body(&padded)).await.status, 200);
}

#[tokio::test]
async fn calls_above_the_limit_are_refused_and_so_are_all_of_them_in_a_shutdown() {
    let limits = Limits { per_principal: 1, ..Limits::default() };
    let mut server = Server::limited(HttpOptions::default(), limits).await;
    let mut first = Peer::connect(server.address).await;
    first.send(&Post::call("held")).await;
    let call = server.held().await;
    let reply = ask(&server, &quick()).await;
    assert_eq!(reply.status, 429);
    assert!(reply.body.contains("-31029"), "{}", reply.body);
    call.answer("done", false).await;
    server.idle().await;
    assert_eq!(ask(&server, &quick()).await.status, 200);
    server.calls.cancel_all(Cause::Shutdown);
    let reply = ask(&server, &quick()).await;
    assert_eq!(reply.status, 503);
    assert!(reply.body.contains("-31003"), "{}", reply.body);
}
