//! One call of a tool that only reads: no operation, no row; leaving it closes the connection upstream.

use super::ServedTool;
use crate::{absence, answer};
use countermand::{
    template::Scope,
    upstream::{HttpFailure, HttpRead},
};
use countermand_mcp::{Answer, Call};
use serde_json::{Map, Value};
use tokio::time::Instant;

/// Serves one call. Dropping the read is the cancel: it closes the connection, or resets the stream.
pub(super) async fn serve(
    tool: &ServedTool,
    reader: &HttpRead,
    call: Call,
    arguments: Map<String, Value>,
) -> Answer {
    let timeout = Instant::now() + tool.config.timeout;
    let scope = Scope::of_call(&arguments);
    let handle = call.handle.clone();
    let pass = match tool.health.try_read() {
        Ok(pass) => pass,
        Err(left_alone) => {
            return Answer::result(answer::error(
                &format!("The call did not reach its upstream: {left_alone}."),
                None,
            ));
        }
    };
    let read = async {
        let read = reader.read(&scope).await;
        pass.told(read.as_ref().err().map(HttpFailure::trouble));
        match read {
            Ok(payload) => {
                let uri = format!("countermand://tools/{}/result", tool.config.name);
                tool.result(&payload, &uri, None)
            }
            Err(failure) => answer::error(&format!("The upstream did not answer the call: {failure}"), None),
        }
    };
    let (cause, reason) = tokio::select! {
        biased;
        ended = handle.cancelled() => ended,
        cause = absence::given_up(tool.on_disconnect(&call), timeout, call.presence) => {
            handle.cancel(cause, None);
            // Should somebody have been faster, that cause stands.
            handle.cause().unwrap_or((cause, None))
        }
        result = read => return Answer::result(result),
    };
    tracing::info!(tool = tool.config.name, call = %handle.id(), %cause, reason, "the call was ended, its request upstream is aborted");
    Answer::result(answer::error(&answer::ended_by(cause, None, tool.config.timeout), None))
}
