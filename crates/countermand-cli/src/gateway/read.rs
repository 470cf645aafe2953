//! One call of a tool that only reads: no operation, no row; leaving it closes the connection upstream.

use super::{ServedTool, answer};
use countermand::{core::Cause, template::Scope, upstream::HttpRead};
use countermand_mcp::{Answer, Call};
use serde_json::{Map, Value};

/// Serves one call. Dropping the read is the cancel: it closes the connection, or resets the stream.
pub(super) async fn serve(
    tool: &ServedTool,
    reader: &HttpRead,
    call: Call,
    arguments: Map<String, Value>,
) -> Answer {
    let scope = Scope::of_call(&arguments);
    let read = reader.read(&scope);
    let cause = tokio::select! {
        biased;
        (cause, reason) = call.handle.cancelled() => {
            tracing::info!(tool = tool.config.name, call = %call.handle.id(), %cause, reason, "the call was ended, its request upstream is aborted");
            cause
        }
        () = tokio::time::sleep(tool.config.timeout) => {
            call.handle.cancel(Cause::Deadline, None);
            tracing::info!(tool = tool.config.name, call = %call.handle.id(), cause = %Cause::Deadline, "the call was ended, its request upstream is aborted");
            Cause::Deadline
        }
        result = read => return Answer::result(match result {
            Ok(payload) => answer::payload(&payload, &format!("countermand://tools/{}/result", tool.config.name), None),
            Err(failure) => answer::error(&format!("The upstream did not answer the call: {failure}"), None),
        }),
    };
    Answer::result(answer::error(&answer::ended_by(cause, None, tool.config.timeout), None))
}
