//! A connection over lines whose calls the test holds in its hands.

#![allow(dead_code, reason = "each test file uses a part")]

use countermand_core::Cause;
use countermand_mcp::{
    Answer, Call, Calls, Client, Delivery, End, Greeting, Handler, Limits, Revision, RpcError, ServerInfo,
    StdioOptions, WireError, serve_stdio,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// No claim waits longer than this for its event.
const DEADLINE: Duration = Duration::from_secs(20);

/// Waits for an event that must come.
pub(crate) async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, event).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// A call that has reached its handler, and stays there until the test answers it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) call: Arc<Call>,
    answer: oneshot::Sender<Answer>,
}

impl Held {
    pub(crate) async fn cancelled(&self) -> (Cause, Option<String>) {
        soon("the cancel of a call", self.call.handle.cancelled()).await
    }

    /// Lets the handler return.
    pub(crate) fn release(self, text: &str) -> oneshot::Receiver<Delivery> {
        let (answer, delivery) = Answer::result(result(text)).delivery();
        self.answer.send(answer).expect("the wire never drops a handler");
        delivery
    }

    /// Lets the handler return, and says what became of its answer.
    pub(crate) async fn answer(self, text: &str) -> Delivery {
        soon("the fate of an answer", self.release(text)).await.unwrap()
    }
}

/// JSON as it stands.
pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// A tool's result, with line breaks in it as a pretty printer makes them.
fn result(text: &str) -> Box<RawValue> {
    RawValue::from_string(format!("{{\n  \"content\": [\r\n{{\"type\":\"text\",\"text\":\"{text}\"}}]\n}}"))
        .unwrap()
}

/// The tools `held` (answered by the test), `quick` (at once), `big` (with that many bytes) and `broken` (panics).
struct Bench {
    held: mpsc::UnboundedSender<Held>,
    heard: mpsc::UnboundedSender<String>,
}

impl Handler for Bench {
    fn server_info(&self) -> ServerInfo {
        ServerInfo { name: "bench".into(), title: None, version: "1".into(), instructions: None }
    }

    fn tools(&self) -> Vec<Arc<RawValue>> {
        let tool = json!({ "name": "held", "inputSchema": { "type": "object" } });
        vec![serde_json::value::to_raw_value(&tool).unwrap().into()]
    }

    async fn call(&self, call: Call) -> Answer {
        match call.tool.as_str() {
            "held" => {
                let (answer, answered) = oneshot::channel();
                let _ = self.held.send(Held { call: Arc::new(call), answer });
                answered.await.unwrap_or_else(|_| Answer::result(result("dropped")))
            }
            "quick" => Answer::result(result("quick")),
            "big" => Answer::result(result(&"x".repeat(100_000))),
            "broken" => panic!("a tool that panics, as the test wants it"),
            _ => Answer::error(RpcError::invalid_params("no such tool")),
        }
    }

    async fn greet(&self, client: &Client) -> Result<Greeting, RpcError> {
        let introduction = client.introduction.as_ref().map_or("", |params| params.get());
        if introduction.contains("\"unwelcome\"") {
            return Err(RpcError::invalid_params("not you"));
        }
        let mut greeting = Greeting::default();
        if introduction.contains("\"proxied\"") {
            tokio::task::yield_now().await;
            greeting.server_info = Some(raw(r#"{"name":"behind","version":"7","icons":[ ]}"#));
            greeting.capabilities = Some(raw(r#"{"tools":{"listChanged":true},"x":1.0}"#));
            greeting.extra = vec![("_meta".to_owned(), raw(r#"{"a":1.0}"#))];
        }
        Ok(greeting)
    }

    fn serves(&self, method: &str, _: Revision) -> bool {
        matches!(method, "prompts/get" | "resources/read")
    }

    /// `prompts/get` asks the client, says something beside, and answers with what it was told; anything else is echoed.
    async fn request(&self, call: Call) -> Answer {
        let members: Vec<String> =
            call.extra.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        if call.method != "prompts/get" {
            return Answer::result(raw(&format!(r#"{{"method":"{}",{}}}"#, call.method, members.join(","))));
        }
        call.client.back.notify("notifications/prompts/list_changed", None);
        match call.back.ask("elicitation/create", Some(&raw(r#"{"message":"?","x":1.0}"#))).await {
            Ok(told) => Answer::result(raw(&format!(r#"{{"told":{told}}}"#))),
            Err(error) => Answer::error(error),
        }
    }

    fn notified(&self, client: &Client, method: &str, params: Option<&RawValue>) {
        let params = params.map_or("", RawValue::get);
        let _unheard = self.heard.send(format!("{} {method} {params}", client.id.is_some()));
    }
}

/// One connection, seen from the client and from the tools.
pub(crate) struct Bed {
    pub(crate) calls: Arc<Calls>,
    pub(crate) stop: CancellationToken,
    pub(crate) input: Option<DuplexStream>,
    pub(crate) output: BufReader<DuplexStream>,
    held: mpsc::UnboundedReceiver<Held>,
    heard: mpsc::UnboundedReceiver<String>,
    served: tokio::task::JoinHandle<Result<End, WireError>>,
}

pub(crate) struct Setup {
    pub(crate) limits: Limits,
    pub(crate) drain: Duration,
    /// Bytes that the client's side takes without reading.
    pub(crate) pipe: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self { limits: Limits::default(), drain: DEADLINE, pipe: 64 * 1024 }
    }
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let (input, server_input) = tokio::io::duplex(1024 * 1024);
        let (server_output, output) = tokio::io::duplex(setup.pipe);
        let (sender, held) = mpsc::unbounded_channel();
        let (told, heard) = mpsc::unbounded_channel();
        let (calls, stop) = (Calls::new(setup.limits), CancellationToken::new());
        let options = StdioOptions { principal: "tester".to_owned(), drain: setup.drain };
        let handler = Arc::new(Bench { held: sender, heard: told });
        let serving = serve_stdio(handler, calls.clone(), server_input, server_output, stop.clone(), options);
        let served = TaskTracker::new().spawn(serving);
        Self { calls, stop, input: Some(input), output: BufReader::new(output), held, heard, served }
    }

    /// A connection that is initialized with 2025-11-25.
    pub(crate) async fn open() -> Self {
        let mut bed = Self::new();
        bed.initialize().await;
        bed
    }

    pub(crate) async fn initialize(&mut self) {
        let params =
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        self.write(&request("\"init\"", "initialize", params)).await;
        assert_eq!(self.read().await["result"]["protocolVersion"], "2025-11-25");
    }

    pub(crate) async fn write(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        soon("room for a line", input.write_all(format!("{line}\n").as_bytes())).await.unwrap();
    }

    /// Calls the tool `held` and waits until the call is in its handler.
    pub(crate) async fn hold(&mut self, id: &str) -> Held {
        self.write(&call(id, "held")).await;
        self.next_held().await
    }

    /// The next notification that the handler hears, and whether it knows of whom.
    pub(crate) async fn heard(&mut self) -> String {
        soon("a notification", self.heard.recv()).await.unwrap()
    }

    pub(crate) async fn next_held(&mut self) -> Held {
        soon("a call", self.held.recv()).await.expect("the handler is there")
    }

    pub(crate) async fn read(&mut self) -> Value {
        self.read_or_end().await.expect("the output is open")
    }

    pub(crate) async fn read_or_end(&mut self) -> Option<Value> {
        let line = self.line().await;
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect("one message a line"))
    }

    /// The next message as it is written.
    pub(crate) async fn read_line(&mut self) -> String {
        self.line().await.trim_end().to_owned()
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        soon("a message", self.output.read_line(&mut line)).await.unwrap();
        line
    }

    /// The client goes, and nothing of it is left.
    pub(crate) async fn close_and_end(mut self) {
        self.input = None;
        assert_eq!(self.end().await.unfinished, 0);
    }

    /// What is said before a ping is answered that is sent now.
    pub(crate) async fn until_barrier(&mut self) -> Vec<Value> {
        self.write(&request("\"barrier\"", "ping", "{}")).await;
        let mut said = Vec::new();
        loop {
            match self.read().await {
                message if message["id"] == "barrier" => return said,
                message => said.push(message),
            }
        }
    }

    /// Closes the client's end of the input.
    pub(crate) fn hang_up(&mut self) {
        self.input = None;
    }

    /// All that is still said, up to the end of the output.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut said = Vec::new();
        while let Some(message) = self.read_or_end().await {
            said.push(message);
        }
        said
    }

    pub(crate) async fn end(self) -> End {
        soon("the end of the connection", self.served).await.unwrap().unwrap()
    }
}

pub(crate) fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

pub(crate) fn call(id: &str, tool: &str) -> String {
    request(id, "tools/call", &format!(r#"{{"name":"{tool}"}}"#))
}

pub(crate) fn cancel(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"changed my mind"}}}}"#
    )
}
