//! What a handler serves beside tools, and what it says and asks by itself, in HTTP sessions.

mod http_support;

use countermand_mcp::HttpOptions;
use http_support::Server;
use http_support::client::{Peer, Post, Session};

const NEW: &str = "2025-11-25";

async fn started() -> (Server, Session) {
    let server = Server::start(HttpOptions::default()).await;
    let session = Session::open(server.address, NEW).await;
    (server, session)
}

async fn ask(server: &Server, post: &Post) -> http_support::client::Reply {
    Peer::connect(server.address).await.ask(post).await
}

fn answer(session: &Session, json: &str) -> Post {
    Post::in_session(session, "0", "ping", "").body(json)
}

#[tokio::test]
async fn another_method_is_served_by_the_handler_in_a_session_and_alone() {
    let (server, session) = started().await;
    let read = Post::in_session(&session, "1", "resources/read", r#""uri":"a://b","n": 1.0"#);
    let reply = ask(&server, &read).await;
    assert!(
        reply.body.contains(r#""result":{"method":"resources/read","uri":"a://b","n":1.0}"#),
        "{}",
        reply.body
    );
    let alone = Post::method("resources/read", r#""uri":"a://b""#).with("Mcp-Name", "a://b");
    let reply = ask(&server, &alone).await;
    assert!(reply.body.contains(r#""resultType":"complete","method":"resources/read""#), "{}", reply.body);
}

#[tokio::test]
async fn a_client_is_asked_on_the_response_of_its_call_and_answers_by_a_post() {
    let (server, session) = started().await;
    let mut call = Peer::connect(server.address).await;
    call.send(&Post::in_session(&session, "7", "prompts/get", "")).await;
    call.until(r#""id":1,"method":"elicitation/create","params":{"message":"?","x":1.0}"#).await;
    // Another session's answer to the same id is none.
    let other = Session::open(server.address, NEW).await;
    let told = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","y":2.0}}"#;
    assert_eq!(ask(&server, &answer(&other, told)).await.status, 202);
    assert_eq!(ask(&server, &answer(&session, told)).await.status, 202);
    call.until(r#""id":7,"result":{"told":{"action":"accept","y":2.0}}"#).await;
}

#[tokio::test]
async fn what_is_said_beside_a_call_waits_for_a_stream_and_is_said_there_once() {
    let (server, session) = started().await;
    let mut call = Peer::connect(server.address).await;
    call.send(&Post::in_session(&session, "7", "prompts/get", "")).await;
    call.until("elicitation/create").await;
    let mut stream = Peer::connect(server.address).await;
    stream.send(&session.get(None)).await;
    let said = stream.until("list_changed").await;
    assert!(said.contains("id: 0-1"), "{said}");
    drop(stream);
    assert_eq!(ask(&server, &answer(&session, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await.status, 202);
    call.until("told").await;
    // The next stream goes on behind what was read, and one that resumes from before it hears it again.
    let mut call = Peer::connect(server.address).await;
    call.send(&Post::in_session(&session, "8", "prompts/get", "")).await;
    call.until("elicitation/create").await;
    let mut stream = Peer::connect(server.address).await;
    stream.send(&session.get(None)).await;
    let said = stream.until("list_changed").await;
    assert!(said.contains("id: 0-2") && !said.contains("id: 0-1"), "{said}");
    drop(stream);
    let mut stream = Peer::connect(server.address).await;
    stream.send(&session.get(Some("0-0"))).await;
    assert!(stream.until("id: 0-2").await.contains("id: 0-1"));
}

#[tokio::test]
async fn the_end_of_a_session_ends_the_waiting_for_its_clients_answer() {
    let (server, session) = started().await;
    let mut call = Peer::connect(server.address).await;
    call.send(&Post::in_session(&session, "7", "prompts/get", "")).await;
    call.until("elicitation/create").await;
    let mut ending = Peer::connect(server.address).await;
    ending.send(&session.delete()).await;
    ending.until("HTTP/1.1 204").await;
    call.until("0\r\n\r\n").await;
    server.idle().await;
}

#[tokio::test]
async fn a_request_that_stands_alone_cannot_be_asked() {
    let (server, _) = started().await;
    let alone = Post::method("prompts/get", r#""name":"p""#).with("Mcp-Name", "p");
    let reply = ask(&server, &alone).await;
    assert!(reply.body.contains("-32603") && !reply.body.contains("elicitation"), "{}", reply.body);
}

#[tokio::test]
async fn notifications_of_a_session_reach_the_handler() {
    let (mut server, session) = started().await;
    let told = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"a":1.0}}"#;
    assert_eq!(ask(&server, &answer(&session, told)).await.status, 202);
    assert_eq!(server.heard().await, r#"true notifications/roots/list_changed {"a":1.0}"#);
}

#[tokio::test]
async fn a_handler_greets_by_its_own_words_and_one_that_refuses_begins_no_session() {
    let (server, _) = started().await;
    let introduce = |name: &str| {
        let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"NAME","version":"1"}}}"#;
        Session::initialize(NEW).body(&body.replace("NAME", name))
    };
    let refused = ask(&server, &introduce("unwelcome")).await;
    assert!(refused.body.contains("not you") && !refused.head.contains("mcp-session-id"), "{}", refused.body);
    let greeted = ask(&server, &introduce("proxied")).await;
    assert!(
        greeted.body.contains(r#""serverInfo":{"name":"behind","version":"7","icons":[ ]}"#),
        "{}",
        greeted.body
    );
    assert!(greeted.head.contains("mcp-session-id"), "{}", greeted.head);
}
