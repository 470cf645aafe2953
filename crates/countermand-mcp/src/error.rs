//! What a peer is told when a request fails, and what the caller of a front door is told when that fails.

use crate::Revision;
use crate::json::{Members, text};
use serde_json::value::RawValue;
use std::io;

/// A JSON-RPC error, as it goes to the peer.
#[derive(Debug, Clone)]
pub struct RpcError {
    /// The code. See [`RpcError`]'s constants for those that the wire itself uses.
    pub code: i64,
    /// One sentence for the peer.
    pub message: String,
    /// Anything more, as raw JSON.
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// The message is no JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is no request: not JSON-RPC 2.0, a batch, too long, a duplicate id.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Nobody here serves that method in that revision.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A fault of ours.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// HTTP headers and body disagree (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare (2026-07-28).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The revision is not served (2026-07-28).
    pub const UNSUPPORTED_REVISION: i64 = -32022;
    /// More calls in flight than the limits allow. Outside the range that JSON-RPC reserves.
    pub const TOO_MANY_CALLS: i64 = -31029;
    /// This process is going down and takes no new calls. Outside the range that JSON-RPC reserves.
    pub const SHUTTING_DOWN: i64 = -31003;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The error that the `error` of an answer holds; one that is no error is told as what it is.
    pub(crate) fn of(raw: &RawValue) -> Self {
        let read = || {
            let members = Members::of(raw).ok()?;
            let number = members.get("code")?.get();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a code that is no integer has no meaning anyway"
            )]
            let code = number.parse().ok().or_else(|| number.parse().ok().map(|code: f64| code as i64))?;
            let message = members.get("message").and_then(text).unwrap_or_default().into_owned();
            Some(Self { code, message, data: members.get("data").map(ToOwned::to_owned) })
        };
        read().unwrap_or_else(|| Self {
            code: Self::INTERNAL_ERROR,
            message: "The peer answered with an error that is none".to_owned(),
            data: Some(raw.to_owned()),
        })
    }

    /// The params do not fit.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    pub(crate) fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(Self::HEADER_MISMATCH, message)
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(Self::SHUTTING_DOWN, "This server is shutting down; no new calls")
    }

    /// Nobody here serves that method.
    pub fn method_not_found(method: &str) -> Self {
        // A peer's method name is as long as the peer likes; the answer is not.
        let shown: String = method.chars().take(100).collect();
        Self::new(Self::METHOD_NOT_FOUND, format!("Method not found: {shown}"))
    }

    pub(crate) fn unsupported_revision(requested: &str, supported: &[Revision]) -> Self {
        let names: Vec<&str> = supported.iter().map(|revision| revision.as_str()).collect();
        let data = serde_json::json!({ "supported": names, "requested": requested });
        Self {
            code: Self::UNSUPPORTED_REVISION,
            message: format!("Unsupported protocol version; supported here: {}", names.join(", ")),
            data: serde_json::value::to_raw_value(&data).ok(),
        }
    }
}

/// Why a front door failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The input could not be read. Its calls were cancelled as at its end.
    #[error("failed to read from the client: {0}")]
    Read(#[source] io::Error),
    /// No address to listen on, or the listener broke.
    #[error("failed to listen on {address}: {source}; is another process using it?")]
    Listen {
        /// The address that was asked for.
        address: std::net::SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
