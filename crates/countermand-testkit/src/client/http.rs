//! The raw client over HTTP/1.1: one connection a request.

use super::{Exchange, message, soon};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// A client over HTTP/1.1.
#[derive(Debug, Clone)]
pub struct HttpClient {
    address: SocketAddr,
    path: String,
}

impl HttpClient {
    /// A client of the endpoint at `http://ADDRESS:PORT/PATH`.
    ///
    /// # Panics
    /// Where the URL is none of this form.
    pub fn new(url: &str) -> Self {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        match authority.parse() {
            Ok(address) => Self { address, path: format!("/{path}") },
            Err(error) => panic!("`{url}` has no address and port: {error}"),
        }
    }

    /// The address that it connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path that it asks for.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Connects and writes these bytes, nothing else.
    pub async fn write(&self, bytes: &[u8]) -> Exchange {
        match soon("a connection", TcpStream::connect(self.address)).await {
            Ok(stream) => self.write_on(stream, bytes).await,
            Err(error) => panic!("no connection to {}: {error}", self.address),
        }
    }

    /// Writes these bytes on a connection that somebody else has made.
    pub async fn write_on(&self, mut stream: TcpStream, bytes: &[u8]) -> Exchange {
        let _no_delay = stream.set_nodelay(true);
        let _refused = soon("room for a request", stream.write_all(bytes)).await;
        Exchange::new(stream)
    }

    /// A POST with these headers beside Host, Content-Type, Accept and Content-Length.
    pub async fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> Exchange {
        self.write(&self.post_bytes(headers, body)).await
    }

    /// The bytes of such a POST.
    pub fn post_bytes(&self, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut head = format!("POST {} HTTP/1.1\r\nHost: {}\r\n", self.path, self.address);
        let given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !given("content-type") {
            head.push_str("Content-Type: application/json\r\n");
        }
        if !given("accept") {
            head.push_str("Accept: application/json, text/event-stream\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        [head.as_bytes(), body].concat()
    }

    /// A request without a body: the GET of a session's stream (with `Last-Event-ID` to resume it), the DELETE of
    /// a session.
    pub async fn bodiless(&self, method: &str, headers: &[(&str, &str)]) -> Exchange {
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n",
            self.path, self.address
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.write(head.as_bytes()).await
    }

    /// A message of a revision opened by `initialize`, in a session once there is one.
    pub async fn in_session(&self, session: Option<&str>, revision: &str, message: &Value) -> Exchange {
        let mut headers = vec![("MCP-Protocol-Version", revision)];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        self.post(&headers, message.to_string().as_bytes()).await
    }

    /// A request of 2026-07-28, with the headers that go with it.
    pub async fn request(&self, request: &Value) -> Exchange {
        self.write(&self.request_bytes(request, &[])).await
    }

    /// The bytes of such a request; `more` headers come last.
    pub fn request_bytes(&self, request: &Value, more: &[(&str, &str)]) -> Vec<u8> {
        let request = message::stateless(request.clone());
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let name = request["params"]["name"].as_str().map(ToOwned::to_owned);
        let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method.as_str())];
        headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        headers.extend(more);
        self.post_bytes(&headers, request.to_string().as_bytes())
    }

    /// `tools/call` of 2026-07-28.
    pub async fn call(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Exchange {
        self.request(&message::call(id, tool, arguments)).await
    }

    /// The same, with a progress token.
    pub async fn call_with_progress(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Exchange {
        self.request(&message::call_with_progress(id, tool, arguments, "progress")).await
    }

    /// Asks for something that is answered at once, and waits for the answer.
    pub async fn barrier(&self) {
        self.request(&message::request("barrier", "tools/list", json!({}))).await.response().await;
    }
}
