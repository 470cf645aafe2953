//! A client on a plain socket: it sends bytes, and reads what comes, frame or no frame.

use super::soon;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One HTTP/1.1 request, right in every respect until a test spoils it.
#[derive(Clone)]
pub(crate) struct Post {
    pub(crate) verb: &'static str,
    pub(crate) path: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

pub(crate) const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}"#;

impl Post {
    /// A request of that method. `params` are its members besides `_meta`.
    pub(crate) fn method(method: &str, params: &str) -> Self {
        let comma = if params.is_empty() { "" } else { "," };
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}{comma}{META}}}}}"#);
        let headers = vec![
            ("Host", "localhost".to_owned()),
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version", "2026-07-28".to_owned()),
            ("Mcp-Method", method.to_owned()),
        ];
        Self { verb: "POST", path: "/mcp", headers, body }
    }

    /// A call of that tool, with the request id 7.
    pub(crate) fn call(tool: &str) -> Self {
        Self::method("tools/call", &format!(r#""name":"{tool}""#)).with("Mcp-Name", tool)
    }

    /// A request in a session, with that id (JSON).
    pub(crate) fn in_session(session: &Session, id: &str, method: &str, params: &str) -> Self {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#);
        let mut headers = session.headers.clone();
        headers.push(("Content-Type", "application/json".to_owned()));
        Self { verb: "POST", path: "/mcp", headers, body }
    }

    /// A call of that tool in a session, with a progress token.
    pub(crate) fn call_in(session: &Session, id: &str, tool: &str) -> Self {
        let params = format!(r#""name":"{tool}","_meta":{{"progressToken":"p"}}"#);
        Self::in_session(session, id, "tools/call", &params)
    }

    /// A cancel in a session.
    pub(crate) fn cancel_in(session: &Session, id: &str) -> Self {
        let body = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"stop"}}}}"#
        );
        Self::in_session(session, "0", "ping", "").body(&body)
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// Sets a header, instead of what was there.
    pub(crate) fn with(self, name: &'static str, value: &str) -> Self {
        let mut post = self.without(name);
        post.headers.push((name, value.to_owned()));
        post
    }

    /// Adds a header, even if there is one.
    pub(crate) fn twice(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(there, _)| *there != name);
        self
    }

    /// As the bytes of HTTP/1.1. The length is that of the body, unless a test has its own idea of it.
    pub(crate) fn bytes(&self) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.verb, self.path);
        let framed = |name: &str| matches!(name, "Content-Length" | "Transfer-Encoding");
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.headers.iter().any(|(name, _)| framed(name)) {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        text + "\r\n" + &self.body
    }
}

/// A session that a client has begun.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Session {
    /// Begins one.
    pub(crate) async fn open(address: SocketAddr, revision: &str) -> Self {
        let reply = Peer::connect(address).await.ask(&Self::initialize(revision)).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let id = reply.head.split("mcp-session-id: ").nth(1).expect("a session id");
        let id = id.split("\r\n").next().unwrap().to_owned();
        let headers = vec![
            ("Host", "localhost".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version", revision.to_owned()),
            ("Mcp-Session-Id", id.clone()),
        ];
        Self { id, headers }
    }

    pub(crate) fn initialize(revision: &str) -> Post {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
        );
        Post::method("initialize", "").without("MCP-Protocol-Version").without("Mcp-Method").body(&body)
    }

    /// A GET of the session; with a last event, of the rest of its response.
    pub(crate) fn get(&self, last: Option<&str>) -> Post {
        let mut headers = self.headers.clone();
        headers.extend(last.map(|last| ("Last-Event-ID", last.to_owned())));
        Post { verb: "GET", path: "/mcp", headers, body: String::new() }
    }

    pub(crate) fn delete(&self) -> Post {
        Post { verb: "DELETE", path: "/mcp", headers: self.headers.clone(), body: String::new() }
    }
}

/// A connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// What has come and has not been taken.
    pub(crate) text: String,
}

/// A response that has been read to its end.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = soon("a connection", TcpStream::connect(address)).await.unwrap();
        Self { stream, text: String::new() }
    }

    pub(crate) async fn send(&mut self, post: &Post) {
        self.write(&post.bytes()).await;
    }

    pub(crate) async fn write(&mut self, text: &str) {
        soon("room to write", self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    /// Reads up to and with `end`, and takes it.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.text.find(end) {
                let rest = self.text.split_off(at + end.len());
                return std::mem::replace(&mut self.text, rest);
            }
            assert!(self.more().await, "the stream ended before {end:?}; there was {:?}", self.text);
        }
    }

    /// Reads what there is until the server has closed; a reset is an end as well.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        std::mem::take(&mut self.text)
    }

    /// Sends a request and reads its response, of known length or chunked.
    pub(crate) async fn ask(&mut self, post: &Post) -> Reply {
        self.send(post).await;
        self.reply().await
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        let head = self.until("\r\n\r\n").await.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let body = match length {
            Some(length) => {
                let length = length.parse().unwrap();
                while self.text.len() < length {
                    assert!(self.more().await, "the body ended early");
                }
                let rest = self.text.split_off(length);
                std::mem::replace(&mut self.text, rest)
            }
            None => self.chunks().await,
        };
        Reply { status, head, body }
    }

    /// Reads the chunks of a body up to the last one, without their framing.
    async fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let size = self.until("\r\n").await;
            let size = usize::from_str_radix(size.trim_end(), 16).expect("a chunk size");
            while self.text.len() < size + 2 {
                assert!(self.more().await, "a chunk ended early");
            }
            let rest = self.text.split_off(size + 2);
            body.push_str(&std::mem::replace(&mut self.text, rest)[..size]);
            if size == 0 {
                return body;
            }
        }
    }

    /// The rest of a chunked body whose headers, and perhaps a few whole chunks, have been taken.
    pub(crate) async fn chunked_rest(&mut self) -> String {
        let mut seen = String::new();
        while !seen.ends_with("0\r\n\r\n") {
            seen.push_str(&self.until("\r\n").await);
        }
        seen
    }

    /// As `rest`, where the server is to lose patience: under paused time, ours would be lost first.
    pub(crate) async fn patient_rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let _reset = self.stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).expect("text")
    }

    async fn more(&mut self) -> bool {
        let mut chunk = vec![0; 16 * 1024];
        match soon("anything to read", self.stream.read(&mut chunk)).await {
            Ok(0) | Err(_) => false,
            Ok(length) => {
                self.text.push_str(std::str::from_utf8(&chunk[..length]).expect("text"));
                true
            }
        }
    }
}
