//! What a server asks its client.

use crate::RpcError;
use crate::message;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Where the answer to an [`Ask`] goes. Never blocks.
pub(super) trait Replies: Send + Sync {
    /// Takes the answer, on one line. `withdrawn` says which ask it was of.
    fn reply(&self, id: &RawValue, json: String);
}

/// A request of the server: sampling, elicitation, roots, or whatever it may be. A `ping` is answered here and
/// never becomes one.
///
/// Dropped without an answer, it is answered with an error.
pub struct Ask {
    /// The method.
    pub method: String,
    /// The params as the server wrote them.
    pub params: Option<Box<RawValue>>,
    id: Box<RawValue>,
    withdrawn: CancellationToken,
    to: Option<Arc<dyn Replies>>,
}

impl Ask {
    pub(super) fn new(
        method: String,
        params: Option<Box<RawValue>>,
        id: Box<RawValue>,
        withdrawn: CancellationToken,
        to: Arc<dyn Replies>,
    ) -> Self {
        Self { method, params, id, withdrawn, to: Some(to) }
    }

    /// Answers. Nothing is sent if the server has withdrawn its request or the connection has ended.
    pub fn answer(mut self, result: Result<Box<RawValue>, RpcError>) {
        self.reply(&result);
    }

    /// Waits until the server has cancelled its request, or the connection has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cancelled(&self) {
        self.withdrawn.cancelled().await;
    }

    fn reply(&mut self, result: &Result<Box<RawValue>, RpcError>) {
        let Some(to) = self.to.take() else { return };
        if self.withdrawn.is_cancelled() {
            return;
        }
        let json = match result {
            Ok(result) => message::write_result(&self.id, result.get()),
            Err(error) => message::write_error(Some(&self.id), error),
        };
        to.reply(&self.id, json);
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.reply(&Err(RpcError::new(
            RpcError::INTERNAL_ERROR,
            "Internal error: this client has no answer to that request",
        )));
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("method", &self.method).field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a `ping` is answered with.
pub(super) fn pong(id: &RawValue) -> String {
    message::write_result(id, "{}")
}
