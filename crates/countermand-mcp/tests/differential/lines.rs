//! Over lines: one fresh connection per case and server.

use crate::compare::{Difference, judge, without_words};
use crate::servers::{Ours, Theirs};
use countermand_mcp::{Calls, Limits, StdioOptions, serve_stdio};
use rmcp::ServiceExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How a connection is opened before the case's own line.
#[derive(Clone, Copy)]
enum Opened {
    Not,
    With(&'static str),
}

const OLD: Opened = Opened::With("2025-11-25");
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn cases() -> Vec<(&'static str, Opened, String)> {
    let initialize = |version: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
        )
    };
    let request = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{{params}}}}}"#)
    };
    let modern = |method: &str, params: &str| request(method, &format!("{params}{META}"));
    vec![
        ("initialize 2025-06-18", Opened::Not, initialize("2025-06-18")),
        ("initialize 2025-11-25", Opened::Not, initialize("2025-11-25")),
        ("initialize with an unknown version", Opened::Not, initialize("1999-01-01")),
        ("initialize with the stateless version", Opened::Not, initialize("2026-07-28")),
        ("initialize twice", OLD, initialize("2025-11-25")),
        ("ping before initialize", Opened::Not, request("ping", "")),
        ("ping", OLD, request("ping", "")),
        ("list", OLD, request("tools/list", "")),
        ("list with a cursor", OLD, request("tools/list", r#""cursor":"x""#)),
        ("list, 2025-06-18", Opened::With("2025-06-18"), request("tools/list", "")),
        ("call", OLD, request("tools/call", r#""name":"echo","arguments":{"text":"hi"}"#)),
        ("call of an unknown tool", OLD, request("tools/call", r#""name":"none""#)),
        ("call without a name", OLD, request("tools/call", "")),
        ("call with an array of arguments", OLD, request("tools/call", r#""name":"echo","arguments":[]"#)),
        ("call with progress", OLD, request("tools/call", r#""name":"echo","_meta":{"progressToken":7}"#)),
        ("unknown method", OLD, request("no/such", "")),
        ("logging/setLevel", OLD, request("logging/setLevel", r#""level":"info""#)),
        ("resources/list", OLD, request("resources/list", "")),
        ("prompts/list", OLD, request("prompts/list", "")),
        ("discover in an old session", OLD, request("server/discover", "")),
        ("list before initialize", Opened::Not, request("tools/list", "")),
        ("stateless discover", Opened::Not, modern("server/discover", "")),
        ("stateless list", Opened::Not, modern("tools/list", "")),
        ("stateless call", Opened::Not, modern("tools/call", r#""name":"echo","arguments":{"text":"hi"},"#)),
        ("stateless ping", Opened::Not, modern("ping", "")),
        ("stateless unknown method", Opened::Not, modern("no/such", "")),
        ("stateless list in an old session", OLD, modern("tools/list", "")),
        (
            "stateless without capabilities",
            Opened::Not,
            request("tools/list", r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#),
        ),
        (
            "stateless with an unknown version",
            Opened::Not,
            request(
                "tools/list",
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/clientCapabilities":{}}"#,
            ),
        ),
        ("no JSON", OLD, "{nonsense".to_owned()),
        ("a batch", OLD, r#"[{"jsonrpc":"2.0","id":"a","method":"ping"}]"#.to_owned()),
        ("another JSON-RPC", OLD, r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#.to_owned()),
        ("a null id", OLD, r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_owned()),
        ("a fractional id", OLD, r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.to_owned()),
        (
            "a cancel of nothing",
            OLD,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#.to_owned(),
        ),
        (
            "a malformed cancel",
            OLD,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#.to_owned(),
        ),
        ("an answer to nothing", OLD, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#.to_owned()),
    ]
}

struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Client {
    fn new(stream: DuplexStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: BufReader::new(reader), writer }
    }

    async fn write(&mut self, line: &str) {
        // A server that has closed is seen when reading.
        let _ = self.writer.write_all(format!("{line}\n").as_bytes()).await;
    }

    async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    /// All that is said until the server has answered a request of ours that comes after.
    async fn outcome(mut self, opened: Opened, line: &str) -> Value {
        if let Opened::With(version) = opened {
            self.write(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#)).await;
            self.read().await.unwrap();
            self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
        self.write(line).await;
        let mut said = Vec::new();
        // Twice, since answers may overtake each other once. Both eras answer this, if only with an error.
        for nth in 0..2 {
            let id = format!("barrier {nth}");
            self.write(&format!(
                r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/list","params":{{{META}}}}}"#
            ))
            .await;
            loop {
                match self.read().await {
                    None => {
                        said.push(json!("closed"));
                        return Value::Array(said);
                    }
                    Some(message) if message["id"] == id.as_str() => break,
                    Some(message) if message["id"] == "barrier 0" => {}
                    Some(message) => said.push(without_words(message)),
                }
            }
        }
        Value::Array(said)
    }
}

#[tokio::test]
async fn over_lines_we_answer_as_rmcp_does_or_say_why_not() {
    let tasks = TaskTracker::new();
    let mut outcomes = Vec::new();
    for (case, opened, line) in cases() {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(server);
        let calls = Calls::new(Limits::default());
        let (stop, options) = (CancellationToken::new(), StdioOptions::default());
        tasks.spawn(serve_stdio(Arc::new(Ours), calls, input, output, stop, options));
        let ours = Client::new(client).outcome(opened, &line).await;

        let (client, server) = tokio::io::duplex(64 * 1024);
        let served = async move {
            if let Ok(running) = Theirs.serve(server).await {
                let _ = running.waiting().await;
            }
        };
        tasks.spawn(served);
        let theirs = Client::new(client).outcome(opened, &line).await;
        outcomes.push((case, ours, theirs));
    }
    let wrong = judge(&outcomes, EXPLAINED);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

const OURS: &str = r#"["2026-07-28","2025-11-25","2025-06-18"]"#;
const THEIRS: &str = r#"["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"]"#;
const INFO: &str = r#"{"io.modelcontextprotocol/serverInfo":{"name":"pair","version":"1"}}"#;
const OPENED: &str = r#"{"capabilities":{"logging":{},"tools":{}},"instructions":"Echo.","protocolVersion":"2025-11-25","serverInfo":{"name":"pair","version":"1"}}"#;
const LISTED: &str = r#"{"tools":[{"description":"Says it again.","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"text":{"type":"string"}},"type":"object"},"name":"echo"}]}"#;
const UNPARSED: &str = r#"[{"error":{"code":-32700},"id":null,"jsonrpc":"2.0"}]"#;

const NULL_ID: &str = "JSON-RPC wants a null id where none could be read";
const TYPED: &str = "rmcp cannot type these params and takes the method for an unknown one";
const TWICE: &str = "an open session keeps its revision";
const LEVEL: &str = "rmcp leaves it to its handler, and this one has none";
const CURSOR: &str = "we never gave out that cursor";
const NO_PING: &str =
    "2026-07-28 has no ping; rmcp says so too, but not on a connection that an `initialize` could still open";
const ECHOED: &str =
    "a fraction is a number, and JSON-RPC only advises against it; the id is given back as it came";

const EXPLAINED: &[Difference] = &[
    ("initialize twice", "/0/error", r#"{"code":-32600}"#, "-", TWICE),
    ("logging/setLevel", "/0/error", "-", r#"{"code":-32601}"#, LEVEL),
    ("logging/setLevel", "/0/result", "{}", "-", LEVEL),
    ("initialize twice", "/0/result", "-", OPENED, TWICE),
    ("list with a cursor", "/0/error", r#"{"code":-32602}"#, "-", CURSOR),
    ("list with a cursor", "/0/result", "-", LISTED, CURSOR),
    ("call without a name", "/0/error/code", "-32602", "-32601", TYPED),
    ("call with an array of arguments", "/0/error/code", "-32602", "-32601", TYPED),
    ("call with progress", "/0/params/progress", "1", "1.0", "a whole number stays whole"),
    ("discover in an old session", "/0/error/code", "-32601", "-32602", "that revision has no such method"),
    ("list before initialize", "/0/error/code", "-32600", "-32602", "it is not the params that are missing"),
    ("stateless discover", "/0/result/supportedVersions", OURS, THEIRS, "these are the ones we serve"),
    ("stateless list", "/0/result/_meta", INFO, "-", "every result should say who made it"),
    ("stateless list in an old session", "/0/result/_meta", INFO, "-", "every result should say who made it"),
    ("stateless ping", "/0/error", r#"{"code":-32601}"#, "-", NO_PING),
    ("stateless ping", "/0/result", "-", "{}", NO_PING),
    (
        "stateless with an unknown version",
        "/0/error/data/supported",
        OURS,
        THEIRS,
        "these are the ones we serve",
    ),
    ("no JSON", "", UNPARSED, "[]", "JSON-RPC wants an answer; rmcp passes over what it cannot parse"),
    ("a batch", "/0/id", "null", "-", NULL_ID),
    ("another JSON-RPC", "/0/id", "\"a\"", "-", "the id could be read, so it is given back"),
    ("a null id", "/0/id", "null", "-", NULL_ID),
    ("a fractional id", "/0/id", "1.5", "-", ECHOED),
    ("a fractional id", "/0/error", "-", r#"{"code":-32600}"#, ECHOED),
    ("a fractional id", "/0/result", "{}", "-", ECHOED),
    (
        "a malformed cancel",
        "",
        "[]",
        r#"[{"error":{"code":-32600},"jsonrpc":"2.0"}]"#,
        "malformed cancels are to be ignored",
    ),
];
