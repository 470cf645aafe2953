//! A server whose calls the test holds in its hands, and a client on a plain socket.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod client;

use countermand_core::Cause;
use countermand_mcp::{
    Answer, Call, CallHandle, Calls, Client, Delivery, Greeting, Handler, HttpOptions, HttpServer, Limits,
    Log, Move, Presence, Progress, Revision, RpcError, ServerInfo, WireError,
};
use serde_json::value::RawValue;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// No claim waits longer than this for its event.
const DEADLINE: Duration = Duration::from_secs(20);

/// Waits for an event that must come.
pub(crate) async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, event).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// JSON as it stands.
pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// A call that has reached its handler, and stays there until the test answers it.
pub(crate) struct Held {
    pub(crate) handle: CallHandle,
    pub(crate) progress: Option<Progress>,
    pub(crate) arguments: Option<Box<RawValue>>,
    pub(crate) log: Option<Log>,
    pub(crate) presence: Presence,
    pub(crate) client: Client,
    answer: oneshot::Sender<Answer>,
}

impl Held {
    /// Waits until the call is cancelled.
    pub(crate) async fn cancelled(&self) -> Cause {
        soon("the cancel of a call", self.handle.cancelled()).await.0
    }

    /// Waits for the client's next move.
    pub(crate) async fn moved(&mut self) -> Move {
        soon("a move of the client", self.presence.moved()).await
    }

    /// Lets the handler return, and says what became of its answer.
    pub(crate) async fn answer(self, text: &str, is_error: bool) -> Delivery {
        let json = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":{is_error}}}"#);
        let (answer, delivery) = Answer::result(raw(&json)).delivery();
        self.answer.send(answer).expect("the wire never drops a handler");
        soon("the fate of an answer", delivery).await.unwrap()
    }
}

/// The tools `held` (answered by the test), `quick` (at once), and `picky` (fails at once for want of a capability).
struct Bench {
    held: mpsc::UnboundedSender<Held>,
    heard: mpsc::UnboundedSender<String>,
    tools: Vec<Arc<RawValue>>,
}

impl Handler for Bench {
    fn server_info(&self) -> ServerInfo {
        ServerInfo { name: "bench".into(), title: None, version: "1".into(), instructions: None }
    }

    fn tools(&self) -> Vec<Arc<RawValue>> {
        self.tools.clone()
    }

    async fn call(&self, call: Call) -> Answer {
        match call.tool.as_str() {
            "held" => {
                let (answer, answered) = oneshot::channel();
                let Call { handle, progress, arguments, log, presence, client, .. } = call;
                let held = Held { handle, progress, arguments, log, presence, client, answer };
                let _unwatched = self.held.send(held);
                answered.await.unwrap_or_else(|_| Answer::error(RpcError::new(1, "the test has dropped it")))
            }
            "quick" => Answer::result(raw(r#"{"content":[],"isError":false}"#)),
            "picky" => Answer::error(RpcError::new(RpcError::MISSING_CAPABILITY, "needs sampling")),
            other => Answer::error(RpcError::invalid_params(format!("Unknown tool: {other}"))),
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

/// A server under test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) calls: Arc<Calls>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    serving: JoinHandle<Result<(), WireError>>,
    held: mpsc::UnboundedReceiver<Held>,
    heard: mpsc::UnboundedReceiver<String>,
}

impl Server {
    pub(crate) async fn start(options: HttpOptions) -> Self {
        Self::limited(options, Limits::default()).await
    }

    pub(crate) async fn limited(options: HttpOptions, limits: Limits) -> Self {
        let (sender, held) = mpsc::unbounded_channel();
        let (told, heard) = mpsc::unbounded_channel();
        let plain = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
        let mirrored = r#"{"name":"mirrored","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"}}}}"#;
        let tools = ["held", "quick", "picky"].map(plain).into_iter().chain([mirrored.to_owned()]);
        let tools = tools.map(|tool| Arc::from(raw(&tool))).collect();
        let server = HttpServer::bind("127.0.0.1:0".parse().unwrap(), options).await.unwrap();
        let (address, calls) = (server.local_addr(), Calls::new(limits));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let handler = Arc::new(Bench { held: sender, heard: told, tools });
        let serving = tasks.spawn(server.serve(handler, Arc::clone(&calls), stop.clone()));
        Self { address, calls, stop, tasks, serving, held, heard }
    }

    /// The next notification that the handler hears, and whether it knows of whom.
    pub(crate) async fn heard(&mut self) -> String {
        soon("a notification", self.heard.recv()).await.unwrap()
    }

    /// The next call that reaches the handler.
    pub(crate) async fn held(&mut self) -> Held {
        soon("a call", self.held.recv()).await.unwrap()
    }

    /// Waits until no handler is running.
    pub(crate) async fn idle(&self) {
        soon("an empty registry", self.calls.idle()).await;
    }

    /// Waits until the server has returned, which it must do by itself.
    pub(crate) async fn ended(self) {
        soon("the end of the server", self.serving).await.unwrap().unwrap();
    }
}
