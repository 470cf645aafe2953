//! Over Streamable HTTP in sessions of 2025-11-25: each server gets the same requests in a session of its own.

use crate::compare::{Difference, judge};
use crate::http::{Ask, outcome};
use crate::servers::Pair;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// Begins a session: its id.
async fn open(server: SocketAddr) -> String {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let ask = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{INITIALIZE}",
        INITIALIZE.len()
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id:"));
    line.unwrap()["mcp-session-id:".len()..].trim().to_owned()
}

fn of(method: &str, params: &str) -> Ask {
    let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{{params}}}}}"#);
    Ask::of(method, "")
        .without("Mcp-Method")
        .with("MCP-Protocol-Version", "2025-11-25")
        .with("Mcp-Session-Id", "SESSION")
        .body(&body)
}

fn bare(verb: &'static str) -> Ask {
    of("ping", "").verb(verb).body("").without("Content-Type")
}

/// Each in a session of its own, one request after the other.
fn cases() -> Vec<(&'static str, Vec<Ask>)> {
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let echo = r#""name":"echo","arguments":{"text":"hi"}"#;
    let with_token = r#""name":"echo","_meta":{"progressToken":"p"}"#;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"z"}}"#;
    vec![
        ("initialized", vec![of("", "").body(initialized)]),
        ("ping", vec![of("ping", "")]),
        ("list", vec![of("tools/list", "")]),
        ("call", vec![of("tools/call", echo)]),
        ("call with progress", vec![of("tools/call", with_token)]),
        ("call of an unknown tool", vec![of("tools/call", r#""name":"none""#)]),
        ("unknown method", vec![of("no/such", "")]),
        ("discover", vec![of("server/discover", "")]),
        ("initialize again", vec![of("", "").body(INITIALIZE)]),
        ("without a version header", vec![of("ping", "").without("MCP-Protocol-Version")]),
        ("with the older version", vec![of("ping", "").with("MCP-Protocol-Version", "2025-06-18")]),
        ("with an unknown version", vec![of("ping", "").with("MCP-Protocol-Version", "1999-01-01")]),
        ("without a session", vec![of("ping", "").without("Mcp-Session-Id")]),
        ("with an unknown session", vec![of("ping", "").with("Mcp-Session-Id", "nobody")]),
        ("a cancel of nothing", vec![of("", "").body(cancel)]),
        ("an answer", vec![of("", "").body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)]),
        ("GET that takes no events", vec![bare("GET").with("Accept", "application/json")]),
        ("GET of an unknown session", vec![bare("GET").with("Mcp-Session-Id", "nobody")]),
        ("DELETE", vec![bare("DELETE")]),
        ("DELETE of an unknown session", vec![bare("DELETE").with("Mcp-Session-Id", "nobody")]),
        ("after DELETE", vec![bare("DELETE"), of("ping", "")]),
        ("PUT", vec![bare("PUT")]),
    ]
}

async fn last_outcome(server: SocketAddr, asks: &[Ask]) -> Value {
    let session = open(server).await;
    let mut last = json!(null);
    for ask in asks {
        last = outcome(server, &ask.in_session(&session)).await;
    }
    last
}

#[tokio::test]
async fn in_a_session_we_answer_as_rmcp_does_or_say_why_not() {
    let pair = Pair::start().await;
    let mut outcomes = Vec::new();
    for (case, asks) in cases() {
        outcomes.push((case, last_outcome(pair.ours, &asks).await, last_outcome(pair.theirs, &asks).await));
    }
    pair.stop().await;
    let wrong = judge(&outcomes, EXPLAINED);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

const JSON: &str = "\"application/json\"";
const EVENTS: &str = "\"text/event-stream\"";
const NONE: &str = "\"\"";
const REFUSED: &str = r#"{"code":-32600}"#;
const OPENED: &str = r#"{"capabilities":{"logging":{},"tools":{}},"instructions":"Echo.","protocolVersion":"2025-11-25","serverInfo":{"name":"pair","version":"1"}}"#;
const NAMELESS: &str = r#"[{"error":{"code":-32600},"id":null,"jsonrpc":"2.0"}]"#;
const NAMED: &str = r#"[{"error":{"code":-32600},"id":"a","jsonrpc":"2.0"}]"#;
const VERSION: &str = r#"[{"error":{"code":-32022,"data":{"requested":"1999-01-01","supported":["2025-11-25"]}},"id":"a","jsonrpc":"2.0"}]"#;

const AT_ONCE: &str = "what is known at once needs no stream; clients must take both";
const IN_JSON: &str = "why a request is refused is said in JSON-RPC as well, not in the status alone";
const ENDED: &str = "it is done when it is answered, and there is nothing to say";
const TRUTH: &str = "a session that is not there was not ended";
const TWICE: &str = "an open session keeps its revision";
const UNKNOWN: &str = "that revision has no such method";

const EXPLAINED: &[Difference] = &[
    ("ping", "/type", JSON, EVENTS, AT_ONCE),
    ("list", "/type", JSON, EVENTS, AT_ONCE),
    ("unknown method", "/type", JSON, EVENTS, AT_ONCE),
    ("without a version header", "/type", JSON, EVENTS, AT_ONCE),
    ("with the older version", "/type", JSON, EVENTS, AT_ONCE),
    ("call with progress", "/messages/0/params/progress", "1", "1.0", "a whole number stays whole"),
    ("discover", "/messages/0/error/code", "-32601", "-32602", UNKNOWN),
    ("discover", "/status", "200", "400", "an error of a request in a session is its answer"),
    ("initialize again", "/messages/0/error", REFUSED, "-", TWICE),
    ("initialize again", "/messages/0/result", "-", OPENED, TWICE),
    ("initialize again", "/type", JSON, EVENTS, AT_ONCE),
    ("with an unknown version", "/messages", VERSION, "[]", IN_JSON),
    ("with an unknown version", "/type", JSON, NONE, IN_JSON),
    ("without a session", "/messages", NAMED, "[]", IN_JSON),
    ("without a session", "/type", JSON, NONE, IN_JSON),
    ("with an unknown session", "/messages", NAMED, "[]", IN_JSON),
    ("with an unknown session", "/type", JSON, NONE, IN_JSON),
    ("GET of an unknown session", "/messages", NAMELESS, "[]", IN_JSON),
    ("GET of an unknown session", "/type", JSON, NONE, IN_JSON),
    ("DELETE", "/status", "204", "202", ENDED),
    ("DELETE of an unknown session", "/status", "404", "202", TRUTH),
    ("DELETE of an unknown session", "/messages", NAMELESS, "[]", TRUTH),
    ("DELETE of an unknown session", "/type", JSON, NONE, TRUTH),
    ("after DELETE", "/messages", NAMED, "[]", IN_JSON),
    ("after DELETE", "/type", JSON, NONE, IN_JSON),
];
