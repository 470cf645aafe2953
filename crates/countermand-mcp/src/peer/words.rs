//! What is said to connect to a server, what is known of it then, and how it all can fail.

use crate::{Revision, RpcError};
use serde_json::value::RawValue;
use std::time::Duration;

/// What a server is told of its client.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// The client's `name` and `version`, a JSON object.
    pub client_info: Box<RawValue>,
    /// The client's capabilities, a JSON object.
    pub capabilities: Box<RawValue>,
    /// The revision that is tried first. If the server does not speak it, another one is.
    pub prefer: Revision,
}

/// What a server has said of itself.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The revision whose rules hold on this connection.
    pub revision: Revision,
    /// The revision that the server has named: older than [`Hello::revision`] where it speaks one from before
    /// 2025-06-18.
    pub version: String,
    /// The server's capabilities, a JSON object.
    pub capabilities: Box<RawValue>,
    /// The server's `name` and `version`, where it has said them.
    pub server_info: Option<Box<RawValue>>,
    /// How a model is to use the server.
    pub instructions: Option<String>,
    /// The whole result of `initialize` or `server/discover`.
    pub raw: Box<RawValue>,
}

/// The bounds of a connection to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerOptions {
    /// How long the server may take to introduce itself, whatever has to be tried.
    pub connect_within: Duration,
    /// How long the server may be silent at `server/discover` before `initialize` is tried as well.
    pub probe_within: Duration,
    /// Bytes of one message of the server.
    pub message: usize,
    /// Bytes that may wait for the server to read. A request beyond is not sent.
    pub outgoing: usize,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            connect_within: Duration::from_secs(30),
            probe_within: Duration::from_secs(5),
            message: 16 * 1024 * 1024,
            outgoing: 64 * 1024 * 1024,
        }
    }
}

/// One request to the server.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// The method.
    pub method: String,
    /// The members of the params but `_meta`, in order. Without any, and without `_meta`, there are no params.
    pub params: Vec<(String, Box<RawValue>)>,
    /// The members of `_meta`, in order. A `progressToken` is left out: it is ours. So is, towards a server of
    /// 2025, what only 2026-07-28 has; towards one of 2026-07-28 the revision is ours, and the client's info and
    /// capabilities are the [`Introduction`]'s unless they are here.
    pub meta: Vec<(String, Box<RawValue>)>,
    /// Whether progress is wanted.
    pub progress: bool,
    /// `Mcp-Param-*` headers with their plain values, for HTTP of 2026-07-28. They are encoded here; others are
    /// not sent.
    pub headers: Vec<(String, String)>,
    /// What the `Mcp-Name` header says, for HTTP of 2026-07-28. Without it, what the params say.
    pub name: Option<String>,
}

/// Why a request, or a whole connection, brings no answer any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The request was not sent, or not as a whole: the server cannot have acted on it.
    #[error("it was not sent: {0}")]
    NotSent(String),
    /// The server has closed its end, of the connection or of the request's response, without an answer.
    #[error("the server has closed the connection without an answer")]
    Ended,
    /// The connection broke, or what came cannot be an answer.
    #[error("the connection to the server broke: {0}")]
    Broken(String),
    /// The answer is above the limit of so many bytes.
    #[error("the server's answer is above the limit of {0} bytes")]
    TooLarge(usize),
    /// The server has ended the session (HTTP, 2025).
    #[error("the server has ended the session; connect again")]
    SessionGone,
    /// An HTTP status in place of an answer; 401 and 403 mean that the credentials are not good.
    #[error("the server answered with HTTP status {status}{}", advice(*status))]
    Refused {
        /// The status.
        status: u16,
    },
    /// Cancelled by us, and nothing more can come.
    #[error("it was cancelled")]
    Cancelled,
    /// The connection was closed by us.
    #[error("the connection was closed")]
    Closed,
    /// The answer has been taken; there is nothing after it.
    #[error("it has been answered")]
    Answered,
}

fn advice(status: u16) -> &'static str {
    match status {
        401 => ": it wants credentials, or others; check the headers that are configured for it",
        403 => ": these credentials, or this origin, may not do that",
        404 | 405 => ": check its URL; the HTTP+SSE transport of 2024-11-05 is not spoken here",
        429 => ": it has too many requests; try again later",
        _ => "",
    }
}

/// What became of a cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelFate {
    /// The request had not been sent as a whole and will not be: the server cannot have acted on it.
    NeverSent,
    /// Written to the server's input, behind the request. Nothing acknowledges it there.
    Written,
    /// The server has acknowledged the notification (HTTP, 2025).
    Acknowledged,
    /// The response was closed, which is the cancel (HTTP, 2026-07-28).
    StreamClosed,
    /// There was nothing to cancel: it had been answered or lost, or it cannot be cancelled.
    Needless,
    /// It did not reach the server; the request may run on.
    Failed(String),
}

impl CancelFate {
    /// Whether the server has been told, as far as its transport can say.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Self::Written | Self::Acknowledged | Self::StreamClosed)
    }
}

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The server did not introduce itself in time.
    #[error(
        "failed to connect to the MCP server: no answer to `{method}` within {within:?}; check that it is an MCP server, or give it more time"
    )]
    Silent {
        /// What it was asked.
        method: &'static str,
        /// How long it was waited for.
        within: Duration,
    },
    /// There is no revision that both speak.
    #[error(
        "failed to connect to the MCP server: it speaks {theirs}, this client {}; another version of the server is needed",
        Revision::ALL.map(Revision::as_str).join(", ")
    )]
    NoCommonRevision {
        /// The revisions that the server named.
        theirs: String,
    },
    /// The server answered with an error.
    #[error("failed to connect to the MCP server: it refused `{method}`: {} (code {})", error.message, error.code)]
    Refused {
        /// What it was asked.
        method: &'static str,
        /// What it said.
        error: RpcError,
    },
    /// The server wants credentials, or others (HTTP 401, 403). What was sent is not told.
    #[error(
        "failed to connect to the MCP server: HTTP status {status}; check the headers that are configured for it"
    )]
    Unauthorized {
        /// The status.
        status: u16,
    },
    /// The server's introduction cannot be read.
    #[error("failed to connect to the MCP server: its answer to `{method}` {why}")]
    Malformed {
        /// What it was asked.
        method: &'static str,
        /// What is wrong with the answer.
        why: &'static str,
    },
    /// The connection was lost before the server had introduced itself.
    #[error("failed to connect to the MCP server: at `{method}`: {lost}")]
    Lost {
        /// What it was asked.
        method: &'static str,
        /// How it was lost.
        lost: Lost,
    },
    /// The target cannot be connected to at all.
    #[error("failed to connect to the MCP server: {0}")]
    Target(String),
}

impl PeerError {
    /// Whether the server ended at `server/discover`. Some older ones do when anything but `initialize` comes first:
    /// start it again, and prefer an older revision.
    pub fn is_end_at_probe(&self) -> bool {
        matches!(self, Self::Lost { method: "server/discover", lost: Lost::Ended | Lost::Broken(_) })
    }
}
