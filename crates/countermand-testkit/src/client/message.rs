//! JSON-RPC messages, as values that a test may still spoil.

use serde_json::{Value, json};

/// A request. The id is any JSON, so that it can be a wrong one.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A notification.
pub fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// `initialize` of a revision.
pub fn initialize(id: impl Into<Value>, revision: &str) -> Value {
    request(
        id,
        "initialize",
        json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "testkit", "version": "0" } }),
    )
}

/// `tools/call` of a revision opened by `initialize`.
pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// The same, with a progress token.
pub fn call_with_progress(
    id: impl Into<Value>,
    tool: &str,
    arguments: Value,
    token: impl Into<Value>,
) -> Value {
    let mut call = call(id, tool, arguments);
    call["params"]["_meta"] = json!({ "progressToken": token.into() });
    call
}

/// `notifications/cancelled`, with the client's reason where there is one.
pub fn cancelled(id: impl Into<Value>, reason: Option<&str>) -> Value {
    let mut params = json!({ "requestId": id.into() });
    if let Some(reason) = reason {
        params["reason"] = reason.into();
    }
    notification("notifications/cancelled", params)
}

/// Makes a request one of 2026-07-28: stateless, its `_meta` says who asks and in which revision; and what the client can,
/// unless it says that already.
pub fn stateless(mut request: Value) -> Value {
    let meta = &mut request["params"]["_meta"];
    if meta.is_null() {
        *meta = json!({});
    }
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "testkit", "version": "0" });
    let capabilities = &mut meta["io.modelcontextprotocol/clientCapabilities"];
    if capabilities.is_null() {
        *capabilities = json!({});
    }
    request
}
