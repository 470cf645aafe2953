//! Over Streamable HTTP, 2026-07-28: one fresh connection per case and server.

use crate::compare::{Difference, judge, without_words};
use crate::servers::Pair;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

pub(crate) struct Ask {
    verb: &'static str,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Ask {
    pub(crate) fn of(method: &str, params: &str) -> Self {
        let comma = if params.is_empty() { "" } else { "," };
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{{params}{comma}{META}}}}}"#);
        let headers = vec![
            ("Host", "localhost".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
            ("MCP-Protocol-Version", "2026-07-28".to_owned()),
            ("Mcp-Method", method.to_owned()),
        ];
        Self { verb: "POST", headers, body }
    }

    fn call(params: &str) -> Self {
        Self::of("tools/call", params).with("Mcp-Name", "echo")
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(there, _)| *there != name);
        self.twice(name, value)
    }

    fn twice(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(there, _)| *there != name);
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// With this session, where one is named.
    pub(crate) fn in_session(&self, session: &str) -> Self {
        let headers = self.headers.iter().map(|(name, value)| (*name, value.replace("SESSION", session)));
        Self { verb: self.verb, headers: headers.collect(), body: self.body.clone() }
    }

    pub(crate) fn verb(mut self, verb: &'static str) -> Self {
        self.verb = verb;
        self
    }
}

fn cases() -> Vec<(&'static str, Ask)> {
    let list = || Ask::of("tools/list", "");
    let echo = || Ask::call(r#""name":"echo","arguments":{"text":"hi"}"#);
    let region = |value: &str| Ask::call(&format!(r#""name":"echo","arguments":{{"region":"{value}"}}"#));
    let initialize = r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    vec![
        ("discover", Ask::of("server/discover", "")),
        ("list", list()),
        ("call", echo()),
        ("call with progress", {
            let with_token = META.replace(r#""_meta":{"#, r#""_meta":{"progressToken":"p","#);
            echo().body(&format!(
                r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"echo",{with_token}}}}}"#
            ))
        }),
        ("call of an unknown tool", Ask::of("tools/call", r#""name":"none""#).with("Mcp-Name", "none")),
        ("call with a wrapped name", echo().with("Mcp-Name", "=?base64?ZWNobw==?=")),
        ("call with a badly wrapped name", echo().with("Mcp-Name", "=?base64?!?=")),
        ("call with another name", echo().with("Mcp-Name", "other")),
        ("call without Mcp-Name", echo().without("Mcp-Name")),
        ("call without Mcp-Method", echo().without("Mcp-Method")),
        ("call with another method", echo().with("Mcp-Method", "tools/list")),
        ("call with two methods", echo().twice("Mcp-Method", "tools/call")),
        ("call with its mirrored argument", region("eu").with("Mcp-Param-Region", "eu")),
        ("call without its mirrored argument", region("eu")),
        ("call with another mirrored argument", region("eu").with("Mcp-Param-Region", "us")),
        ("call with a mirrored argument that is not there", echo().with("Mcp-Param-Region", "us")),
        ("call with an array of arguments", Ask::call(r#""name":"echo","arguments":[]"#)),
        ("unknown method", Ask::of("no/such", "")),
        ("ping", Ask::of("ping", "")),
        ("without a version header", list().without("MCP-Protocol-Version")),
        ("with another version header", list().with("MCP-Protocol-Version", "2025-11-25")),
        (
            "with an unknown version",
            list()
                .with("MCP-Protocol-Version", "1999-01-01")
                .body(&list().body.replace("2026-07-28", "1999-01-01")),
        ),
        (
            "without capabilities",
            list().body(&list().body.replace(r#","io.modelcontextprotocol/clientCapabilities":{}"#, "")),
        ),
        ("without metadata", list().body(r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{}}"#)),
        (
            "initialize",
            Ask::of("initialize", "").without("MCP-Protocol-Version").without("Mcp-Method").body(initialize),
        ),
        ("GET", list().verb("GET").body("")),
        ("DELETE", list().verb("DELETE").body("")),
        ("PUT", list().verb("PUT")),
        ("no JSON", list().body("{nonsense")),
        ("a batch", list().body("[]")),
        ("a null id", list().body(r#"{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{}}"#)),
        ("an answer", list().body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
        (
            "a cancel",
            list()
                .with("Mcp-Method", "notifications/cancelled")
                .body(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#),
        ),
        ("only JSON accepted", echo().with("Accept", "application/json")),
        ("only events accepted", echo().with("Accept", "text/event-stream")),
        ("neither accepted", list().with("Accept", "text/html")),
        ("another content type", list().with("Content-Type", "text/plain")),
        ("another host", list().with("Host", "evil.example")),
        ("another origin", list().with("Origin", "https://evil.example")),
        ("a loopback origin", echo().with("Origin", "http://localhost:3000")),
        ("a session id", echo().with("Mcp-Session-Id", "x")),
        ("a message of five megabytes", list().body(&"x".repeat(5 * 1024 * 1024))),
    ]
}

/// Status, content type, and every JSON-RPC message of the response.
pub(crate) async fn outcome(server: SocketAddr, ask: &Ask) -> Value {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let mut head = format!("{} /mcp HTTP/1.1\r\nConnection: close\r\n", ask.verb);
    for (name, value) in &ask.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", ask.body.len()));
    stream.write_all(head.as_bytes()).await.unwrap();
    // A refusal may come before the body is read.
    let _ = stream.write_all(ask.body.as_bytes()).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    let header = |wanted: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{wanted}:")));
        line.map(|line| line[wanted.len() + 1..].trim().to_owned())
    };
    let body = if header("transfer-encoding").is_some() { unchunked(rest) } else { rest.to_owned() };
    let kind = header("content-type").unwrap_or_default();
    let messages: Vec<Value> = match kind.split(';').next().unwrap_or_default() {
        "application/json" => vec![without_words(serde_json::from_str(&body).unwrap())],
        "text/event-stream" => body
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .filter(|data| !data.trim().is_empty())
            .map(|data| without_words(serde_json::from_str(data).unwrap()))
            .collect(),
        _ => Vec::new(),
    };
    // Plain words are no part of the protocol, and neither is what they are labelled.
    let kind = if messages.is_empty() { "" } else { kind.as_str() };
    json!({ "status": status, "type": kind, "messages": messages })
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        body.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    body
}

#[tokio::test]
async fn over_http_we_answer_as_rmcp_does_or_say_why_not() {
    let pair = Pair::start().await;
    let mut outcomes = Vec::new();
    for (case, ask) in cases() {
        outcomes.push((case, outcome(pair.ours, &ask).await, outcome(pair.theirs, &ask).await));
    }
    pair.stop().await;
    let wrong = judge(&outcomes, EXPLAINED);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

const JSON: &str = "\"application/json\"";
const EVENTS: &str = "\"text/event-stream\"";
const NONE: &str = "\"\"";
const OURS: &str = r#"["2026-07-28","2025-11-25","2025-06-18"]"#;
const THEIRS: &str = r#"["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"]"#;
const INFO: &str = r#"{"io.modelcontextprotocol/serverInfo":{"name":"pair","version":"1"}}"#;
const SAID: &str = r#"[{"id":"a","jsonrpc":"2.0","result":{"content":[{"text":"hi","type":"text"}],"isError":false,"resultType":"complete"}}]"#;
const INVALID: &str = r#"[{"error":{"code":-32600},"id":null,"jsonrpc":"2.0"}]"#;
const UNPARSED: &str = r#"[{"error":{"code":-32700},"id":null,"jsonrpc":"2.0"}]"#;

const AT_ONCE: &str = "what is known at once needs no stream; clients must take both";
const VERSIONS: &str = "these are the ones we serve";
const NO_REQUEST: &str = "400 is what the protocol says; 415 is about the kind of content, which was right";
const LENIENT: &str = "one of the two is enough to answer";
const TYPED: &str = "rmcp cannot type these params and takes the method for an unknown one";

const EXPLAINED: &[Difference] = &[
    ("discover", "/type", JSON, EVENTS, AT_ONCE),
    ("discover", "/messages/0/result/supportedVersions", OURS, THEIRS, VERSIONS),
    ("list", "/type", JSON, EVENTS, AT_ONCE),
    ("list", "/messages/0/result/_meta", INFO, "-", "every result should say who made it"),
    ("call with progress", "/messages/0/params/progress", "1", "1.0", "a whole number stays whole"),
    ("call with an array of arguments", "/status", "400", "404", TYPED),
    ("call with an array of arguments", "/messages/0/error/code", "-32602", "-32601", TYPED),
    ("with an unknown version", "/messages/0/error/data/supported", OURS, THEIRS, VERSIONS),
    ("initialize", "/type", JSON, EVENTS, AT_ONCE),
    ("no JSON", "/status", "400", "415", NO_REQUEST),
    ("no JSON", "/type", JSON, NONE, NO_REQUEST),
    ("no JSON", "/messages", UNPARSED, "[]", NO_REQUEST),
    ("a batch", "/status", "400", "415", NO_REQUEST),
    ("a batch", "/type", JSON, NONE, NO_REQUEST),
    ("a batch", "/messages", INVALID, "[]", NO_REQUEST),
    ("a null id", "/status", "400", "415", NO_REQUEST),
    ("a null id", "/type", JSON, NONE, NO_REQUEST),
    ("a null id", "/messages", INVALID, "[]", NO_REQUEST),
    ("an answer", "/messages/0/id", "null", "-", "JSON-RPC wants a null id where there is none"),
    ("only JSON accepted", "/status", "200", "406", LENIENT),
    ("only JSON accepted", "/type", JSON, NONE, LENIENT),
    ("only JSON accepted", "/messages", SAID, "[]", LENIENT),
    ("only events accepted", "/status", "200", "406", LENIENT),
    ("only events accepted", "/type", EVENTS, NONE, LENIENT),
    ("only events accepted", "/messages", SAID, "[]", LENIENT),
    ("a loopback origin", "/status", "200", "403", "a page on this machine may ask a server on this machine"),
    ("a loopback origin", "/type", EVENTS, NONE, "as its status"),
    ("a loopback origin", "/messages", SAID, "[]", "as its status"),
];
