//! What serves calls: the trait that the wire is given, and what it is called with.

use crate::{CallHandle, Log, Presence, Progress, Revision, RpcError, TransportKind};
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
}

/// One `tools/call` being served.
#[derive(Debug)]
pub struct Call {
    /// Its place in the registry: whether it has been cancelled, and by what.
    pub handle: CallHandle,
    /// The tool's name.
    pub tool: String,
    /// The arguments, a JSON object as the client wrote it.
    pub arguments: Option<Box<RawValue>>,
    /// The request's `_meta`, a JSON object as the client wrote it.
    pub meta: Option<Box<RawValue>>,
    /// All other members of the request's params (`task`, `inputResponses`, …), in order.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// Where progress goes. Only if the client asked for it, and the transport can carry it.
    pub progress: Option<Progress>,
    /// Where log messages go. Only if the client asked for some, and the transport can carry them.
    pub log: Option<Log>,
    /// Whether the client is there. One that cannot come back ends its call when it leaves; one that can is
    /// followed here, and what its leaving means is the handler's to decide. Its answer is kept for it meanwhile.
    pub presence: Presence,
    /// Who calls.
    pub principal: String,
    /// The name of the session it belongs to, where the transport has sessions. Not the session's id, which is a
    /// secret of its client.
    pub session: Option<String>,
    /// The client's request id, raw: `1` and `"1"` are two ids.
    pub request_id: Box<RawValue>,
    /// The revision that the request is served under.
    pub revision: Revision,
    /// What carried it.
    pub transport: TransportKind,
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
    let tool = call.tool.clone();
    match AssertUnwindSafe(async { handler.call(call).await }).catch_unwind().await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::error!(tool, "the handler of this tool panicked; the call is answered with an error");
            Answer::error(RpcError::new(
                RpcError::INTERNAL_ERROR,
                "Internal error: the tool failed unexpectedly",
            ))
        }
    }
}
