//! What serves calls: the trait that the wire is given, and what it is called with.

use crate::{Backchannel, CallHandle, Client, Log, Presence, Progress, Revision, RpcError};
use countermand_core::Cause;
use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Serves the tool calls that the wire brings.
pub trait Handler: Send + Sync + 'static {
    /// What clients are told about this server.
    fn server_info(&self) -> ServerInfo;

    /// The tools, each as the raw JSON of `tools/list`, in the order in which clients see them.
    ///
    /// Return the same `Arc`s for as long as the tools are the same: what the wire derives from them is then kept.
    fn tools(&self) -> Vec<Arc<RawValue>>;

    /// Serves one call. A tool that does not exist is an [`RpcError`] of [`RpcError::INVALID_PARAMS`].
    ///
    /// The future runs in a task of its own, and the wire never drops it: after a cancel it sees
    /// [`CallHandle::cancelled`] and cleans up on its own time. If it panics, the client gets an internal error.
    fn call(&self, call: Call) -> impl Future<Output = Answer> + Send;

    /// What a client is told when it introduces itself (`initialize`), or looks around (`server/discover`).
    fn greet(&self, client: &Client) -> impl Future<Output = Result<Greeting, RpcError>> + Send {
        let _anybody = client;
        async { Ok(Greeting::default()) }
    }

    /// Whether requests of that method are brought to [`request`](Self::request). A handler may take methods over that the
    /// wire would answer itself (`tools/list`), but `initialize`, `server/discover`, `ping` and `tools/call`.
    fn serves(&self, method: &str, revision: Revision) -> bool {
        let _none = (method, revision);
        false
    }

    /// Serves a request that is no tool call, on the same terms as [`call`](Self::call).
    fn request(&self, call: Call) -> impl Future<Output = Answer> + Send {
        async move { Answer::error(RpcError::method_not_found(&call.method)) }
    }

    /// Hears a notification of a client, but `notifications/cancelled` of a call. Must not block.
    fn notified(&self, client: &Client, method: &str, params: Option<&RawValue>) {
        let _unheard = (client, method, params);
    }
}

/// What a server says of itself, where it is not what [`Handler::server_info`] and the wire say.
#[derive(Debug, Default)]
pub struct Greeting {
    /// A JSON object. By default what the wire offers: tools and logging.
    pub capabilities: Option<Box<RawValue>>,
    /// A JSON object: name, version and whatever else a server has to say of its make.
    pub server_info: Option<Box<RawValue>>,
    /// How a model is to use it.
    pub instructions: Option<String>,
    /// Any other members of the result, in order.
    pub extra: Vec<(String, Box<RawValue>)>,
}

/// One request being served: a `tools/call`, or another one that the handler [serves](Handler::serves).
#[derive(Debug)]
pub struct Call {
    /// Its place in the registry: whether it has been cancelled, and by what.
    pub handle: CallHandle,
    /// The method, `tools/call` for a tool.
    pub method: String,
    /// The tool's name; of another method empty.
    pub tool: String,
    /// The arguments, a JSON object as the client wrote it.
    pub arguments: Option<Box<RawValue>>,
    /// The request's `_meta`, a JSON object as the client wrote it.
    pub meta: Option<Box<RawValue>>,
    /// All other members of the request's params (`task`, `inputResponses`, …), in order: of another method all but
    /// `_meta`.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// Where progress goes. Only if the client asked for it, and the transport can carry it.
    pub progress: Option<Progress>,
    /// Where log messages go. Only if the client asked for some, and the transport can carry them.
    pub log: Option<Log>,
    /// Whether the client is there. One that cannot come back ends its call when it leaves; one that can is
    /// followed here, and what its leaving means is the handler's to decide. Its answer is kept for it meanwhile.
    pub presence: Presence,
    /// What is said to the client on the call's own response, as long as the call is open.
    pub back: Backchannel,
    /// Who calls.
    pub client: Client,
    /// The client's request id, raw: `1` and `"1"` are two ids.
    pub request_id: Box<RawValue>,
}

/// What a handler returns.
#[derive(Debug)]
pub struct Answer {
    /// The result, a JSON object without `resultType` (the wire adds it where the revision has it), or an error.
    pub result: Result<Box<RawValue>, RpcError>,
    /// Told once what became of the answer.
    pub delivered: Option<oneshot::Sender<Delivery>>,
}

impl Answer {
    /// An answer with a result. Use [`Answer::delivery`] to learn what becomes of it.
    pub fn result(result: Box<RawValue>) -> Self {
        Self { result: Ok(result), delivered: None }
    }

    /// An answer with an error.
    pub fn error(error: RpcError) -> Self {
        Self { result: Err(error), delivered: None }
    }

    /// Asks what becomes of the answer. The receiver fails only if the process ends first.
    pub fn delivery(mut self) -> (Self, oneshot::Receiver<Delivery>) {
        let (sender, receiver) = oneshot::channel();
        self.delivered = Some(sender);
        (self, receiver)
    }
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It won the race against a cancel and was handed to the transport's outgoing buffer, or is kept for a
    /// session's client that is away. Whether the client has read it nobody can know.
    Sent,
    /// The client had ended the call before; nothing was sent.
    Suppressed(Cause),
}

/// What clients are told about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name, for programs.
    pub name: String,
    /// Its name, for people.
    pub title: Option<String>,
    /// Its version.
    pub version: String,
    /// How a model is to use it.
    pub instructions: Option<String>,
}

/// Runs the handler. A panic of it becomes an error.
pub(crate) async fn run<H: Handler>(handler: Arc<H>, call: Call) -> Answer {
    let (method, tool) = (call.method.clone(), call.tool.clone());
    let served =
        async { if method == "tools/call" { handler.call(call).await } else { handler.request(call).await } };
    match AssertUnwindSafe(served).catch_unwind().await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::error!(method, tool, "the handler panicked; the request is answered with an error");
            Answer::error(RpcError::new(
                RpcError::INTERNAL_ERROR,
                "Internal error: the tool failed unexpectedly",
            ))
        }
    }
}
