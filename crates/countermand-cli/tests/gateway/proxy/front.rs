//! A client in front of a gateway: over stdin and stdout or HTTP, in any revision.

use super::house::House;
use crate::stage::{Gateway, signal};
use countermand_testkit::client::{Exchange, HttpClient, StdioClient, message};
use serde_json::{Value, json};
use tokio::{process::Command, time::Instant};

/// A way to a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Stdio(&'static str),
    Http(&'static str),
}

impl Way {
    pub fn revision(self) -> &'static str {
        match self {
            Self::Stdio(revision) | Self::Http(revision) => revision,
        }
    }

    pub fn is_stateless(self) -> bool {
        self.revision() == "2026-07-28"
    }

    pub fn is_http(self) -> bool {
        matches!(self, Self::Http(_))
    }

    /// What the ledger calls a cancel by this client.
    pub fn cause(self) -> &'static str {
        if self == Self::Http("2026-07-28") { "client_disconnected" } else { "client_cancelled" }
    }
}

/// The client, and its gateway.
pub struct Front {
    pub way: Way,
    link: Link,
    /// What it says that it can.
    capabilities: Value,
    session: Option<String>,
    next: u64,
}

enum Link {
    Stdio(Box<StdioClient>),
    Http(Box<Gateway>),
    /// Somebody else's gateway.
    Guest(HttpClient),
}

/// A request in flight.
pub struct Asked {
    pub id: Value,
    exchange: Option<Exchange>,
}

/// All that a client can be asked.
pub fn able() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": { "listChanged": true }, "x-able": 1 })
}

impl Front {
    /// A gateway in front of a server, and a client that has introduced itself.
    pub async fn open(way: Way, house: &House, flags: &[&str], server: &[&str]) -> Self {
        let mut flags = flags.to_vec();
        if way.is_http() {
            flags.extend(["--http", "127.0.0.1:0"]);
        }
        Self::over(way, house.wrap(&flags, server)).await
    }

    /// A gateway that is started so.
    pub async fn over(way: Way, command: Command) -> Self {
        let mut front = Self::silent(way, command).await;
        front.introduce().await;
        front
    }

    /// The same, and nothing is said yet.
    pub async fn silent(way: Way, command: Command) -> Self {
        let link = match way {
            Way::Stdio(_) => Link::Stdio(Box::new(StdioClient::spawn(command).unwrap())),
            Way::Http(_) => Link::Http(Box::new(Gateway::start(command).await)),
        };
        Self { way, link, capabilities: able(), session: None, next: 1 }
    }

    /// Another client of the same gateway.
    pub async fn another(&self, way: Way) -> Self {
        let link = Link::Guest(self.http().clone());
        let mut front = Self { way, link, capabilities: able(), session: None, next: 1 };
        front.introduce().await;
        front
    }

    /// Says from now on that it can do this.
    pub fn declare(&mut self, capabilities: Value) {
        self.capabilities = capabilities;
    }

    pub fn http(&self) -> &HttpClient {
        match &self.link {
            Link::Http(gateway) => &gateway.client,
            Link::Guest(client) => client,
            Link::Stdio(_) => panic!("this client has no HTTP"),
        }
    }

    /// Begins, and returns what the gateway said.
    pub async fn introduce(&mut self) -> Value {
        if self.way.is_stateless() {
            if let Link::Stdio(client) = &mut self.link {
                client.speak_stateless();
            }
            return self.request("server/discover", json!({})).await["result"].clone();
        }
        let mut hello = message::initialize("initialize", self.way.revision());
        hello["params"]["capabilities"] = self.capabilities.clone();
        let answer = match &mut self.link {
            Link::Stdio(client) => {
                client.send(&hello).await;
                client.response(&json!("initialize")).await
            }
            _ => {
                let mut exchange = self.http().post(&[], hello.to_string().as_bytes()).await;
                let head = exchange.head().await;
                self.session = head.header("mcp-session-id").map(ToOwned::to_owned);
                exchange.response().await
            }
        };
        self.notify("notifications/initialized", json!({})).await;
        answer["result"].clone()
    }

    /// Sends a message as it is.
    pub async fn send(&mut self, mut message: Value) -> Asked {
        let id = message["id"].clone();
        if self.way.is_stateless() {
            message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                self.capabilities.clone();
        }
        let exchange = match &mut self.link {
            Link::Stdio(client) => {
                let message = if self.way.is_stateless() { message::stateless(message) } else { message };
                client.send(&message).await;
                None
            }
            _ if self.way.is_stateless() => Some(self.http().request(&message).await),
            _ => Some(self.http().in_session(self.session.as_deref(), self.way.revision(), &message).await),
        };
        Asked { id, exchange }
    }

    /// Asks with params as they are written, and returns the response as it was written.
    pub async fn raw(&mut self, method: &str, name: Option<&str>, params: &str) -> String {
        let mut members = params.to_owned();
        if self.way.is_stateless() {
            let mut meta = message::stateless(json!({}))["params"]["_meta"].to_string();
            meta.insert_str(1, "\"vendor/y\":[1.0],");
            members += &format!(",\"_meta\":{meta}");
        } else {
            members += ",\"_meta\":{\"vendor/y\":[1.0]}";
        }
        let members = members.trim_start_matches(',');
        let text = format!(r#"{{"jsonrpc":"2.0","id":"raw","method":"{method}","params":{{{members}}}}}"#);
        match &mut self.link {
            Link::Stdio(client) => {
                client.write(format!("{text}\n").as_bytes()).await;
                loop {
                    let line = client.line().await.expect("a response");
                    if line.contains("\"id\":\"raw\"") {
                        return line;
                    }
                }
            }
            _ => {
                let mut headers = vec![("MCP-Protocol-Version", self.way.revision())];
                headers.extend(self.session.as_deref().map(|session| ("Mcp-Session-Id", session)));
                if self.way.is_stateless() {
                    headers.push(("Mcp-Method", method));
                    headers.extend(name.map(|name| ("Mcp-Name", name)));
                }
                self.http().post(&headers, text.as_bytes()).await.text().await
            }
        }
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        let note = message::notification(method, params);
        match &mut self.link {
            Link::Stdio(client) => client.send(&note).await,
            _ => {
                let sent = self.http().in_session(self.session.as_deref(), self.way.revision(), &note).await;
                assert_eq!({ sent }.head().await.status, 202, "{note}");
            }
        }
    }

    /// Asks, under an id of its own choosing.
    pub async fn ask(&mut self, method: &str, params: Value) -> Asked {
        self.next += 1;
        let id = format!("{method} {}", self.next);
        self.send(message::request(id, method, params)).await
    }

    /// Asks, and waits for the whole response.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let mut asked = self.ask(method, params).await;
        self.response(&mut asked).await
    }

    /// Calls a tool; the id is the caller's.
    pub async fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Asked {
        self.send(message::call(id, tool, arguments)).await
    }

    /// Calls a tool, and waits for its result.
    pub async fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let response = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert!(response["result"].is_object(), "{response:#}");
        response["result"].clone()
    }

    pub async fn response(&mut self, asked: &mut Asked) -> Value {
        match (&mut self.link, &mut asked.exchange) {
            (Link::Stdio(client), _) => client.response(&asked.id).await,
            (_, Some(exchange)) => exchange.response().await,
            (_, None) => panic!("the request was closed"),
        }
    }

    /// The next message that comes while a request is in flight, or in answer to it.
    pub async fn message(&mut self, asked: &mut Asked) -> Value {
        let message = match (&mut self.link, &mut asked.exchange) {
            (Link::Stdio(client), _) => client.next().await,
            (_, Some(exchange)) => exchange.message().await,
            (_, None) => panic!("the request was closed"),
        };
        message.expect("one more message")
    }

    /// The next message with that method.
    pub async fn hear(&mut self, asked: &mut Asked, method: &str) -> Value {
        loop {
            let message = self.message(asked).await;
            if message["method"] == method {
                return message;
            }
            assert!(message.get("method").is_some(), "an answer before {method}: {message}");
        }
    }

    /// Answers a question of the server.
    pub async fn reply(&mut self, question: &Value, result: Value) {
        self.respond(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
    }

    /// Answers whatever it is.
    pub async fn respond(&mut self, answer: Value) {
        match &mut self.link {
            Link::Stdio(client) => client.send(&answer).await,
            _ => {
                let sent =
                    self.http().in_session(self.session.as_deref(), self.way.revision(), &answer).await;
                assert_eq!({ sent }.head().await.status, 202);
            }
        }
    }

    /// Breaks the connection of a request; in a session that is no cancel.
    pub fn lose(&mut self, asked: Asked) {
        drop(asked.exchange);
    }

    /// Cancels as this way has it: by a notification, or by closing the response. When that was done.
    pub async fn cancel(&mut self, asked: Asked) -> Instant {
        let at = Instant::now();
        if self.way == Way::Http("2026-07-28") {
            drop(asked.exchange);
        } else {
            self.cancel_by_id(&asked.id).await;
            // Whatever its stream still says is read to its end; that must be no answer.
            if let Some(mut exchange) = asked.exchange {
                exchange.half_close().await;
                let rest = String::from_utf8_lossy(&exchange.read_to_end().await).into_owned();
                assert!(!rest.contains("\"result\"") && !rest.contains("\"error\""), "{rest}");
            }
        }
        at
    }

    pub async fn cancel_by_id(&mut self, id: &Value) {
        self.notify("notifications/cancelled", json!({ "requestId": id, "reason": "enough" })).await;
    }

    /// Everything written so far has been read.
    pub async fn barrier(&mut self) {
        match &mut self.link {
            Link::Stdio(client) => client.barrier().await,
            _ if self.way.is_stateless() => self.http().barrier().await,
            _ => {
                self.request("ping", json!({})).await;
            }
        }
    }

    /// Everything written so far has been read by the gateway; no server is asked.
    pub async fn barrier_of_ours(&mut self) {
        let asked = json!({ "name": "cancellation_status", "arguments": {} });
        self.request("tools/call", asked).await;
    }

    /// Opens the stream of the session, for what belongs to no request.
    pub async fn listen(&mut self) -> Asked {
        let exchange = match &mut self.link {
            Link::Stdio(_) => None,
            _ => {
                let session = self.session.clone().expect("a session");
                let headers =
                    [("MCP-Protocol-Version", self.way.revision()), ("Mcp-Session-Id", session.as_str())];
                Some(self.http().bodiless("GET", &headers).await)
            }
        };
        let mut asked = Asked { id: Value::Null, exchange };
        if let Some(exchange) = &mut asked.exchange {
            assert_eq!(exchange.head().await.status, 200);
        }
        asked
    }

    /// DELETE: ends the session.
    pub async fn delete(&mut self) {
        let session = self.session.take().expect("a session");
        let headers = [("MCP-Protocol-Version", self.way.revision()), ("Mcp-Session-Id", session.as_str())];
        let head = self.http().bodiless("DELETE", &headers).await.head().await;
        assert_eq!(head.status, 204);
    }

    /// The gateway's process.
    pub fn pid(&self) -> Option<u32> {
        match &self.link {
            Link::Stdio(client) => client.pid(),
            Link::Http(gateway) => gateway.process.id(),
            Link::Guest(_) => None,
        }
    }

    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// Kills the gateway, as a crash would.
    pub async fn kill(&mut self) {
        match &mut self.link {
            Link::Stdio(client) => client.kill().await,
            Link::Http(gateway) => gateway.kill().await,
            Link::Guest(_) => panic!("not its gateway"),
        }
    }

    pub fn close_input(&mut self) {
        if let Link::Stdio(client) = &mut self.link {
            client.close_input();
        }
    }

    /// What is said until the gateway's output ends.
    pub async fn rest(&mut self) -> Vec<Value> {
        match &mut self.link {
            Link::Stdio(client) => client.read_to_end().await,
            _ => Vec::new(),
        }
    }

    /// Waits until the gateway has ended by itself, with 0: all that it wrote to stderr.
    pub async fn ended(&mut self) -> String {
        let (status, said) = match &mut self.link {
            Link::Stdio(client) => (client.exit().await, client.stderr_to_end().await),
            Link::Http(gateway) => gateway.exit().await,
            Link::Guest(_) => panic!("not its gateway"),
        };
        assert_eq!(status.code(), Some(0), "{said}");
        said
    }

    /// Ends the gateway in good order, and asserts that nothing was said for these ids, and that no server is left.
    pub async fn finish(mut self, house: &House, silent: &[&str]) {
        match &self.link {
            Link::Stdio(_) => self.close_input(),
            _ => self.terminate(),
        }
        for message in self.rest().await {
            let id = message["id"].as_str().unwrap_or_default();
            assert!(!silent.contains(&id), "said after its cancel: {message}");
        }
        self.ended().await;
        house.recorder.gone().await;
    }
}

/// The same test over every way to a gateway.
#[macro_export]
macro_rules! from_every_front {
    ($(#[doc = $doc:literal])* async fn $name:ident($way:ident) $body:block) => {
        $crate::from_fronts! {
            $(#[doc = $doc])*
            async fn $name($way) $body
            stdio_2025_06 = Way::Stdio("2025-06-18"), stdio_2025_11 = Way::Stdio("2025-11-25"),
            stdio_2026 = Way::Stdio("2026-07-28"), http_2025_06 = Way::Http("2025-06-18"),
            http_2025_11 = Way::Http("2025-11-25"), http_2026 = Way::Http("2026-07-28")
        }
    };
}

/// The same test over some ways to a gateway.
#[macro_export]
macro_rules! from_fronts {
    ($(#[doc = $doc:literal])* async fn $name:ident($way:ident) $body:block $($front:ident = $value:expr),+) => {
        mod $name {
            use super::*;

            async fn run($way: Way) $body

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $front() {
                    run($value).await;
                }
            )+
        }
    };
}
