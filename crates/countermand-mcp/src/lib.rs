//! The wire of countermand: MCP on raw JSON-RPC envelopes, and the one registry that knows when a caller has left.
//!
//! - A [`Handler`] serves tool calls, and other requests that it knows. It gets a [`Call`] and returns an [`Answer`]; to the
//!   [`Client`] it can also speak by itself.
//! - [`Calls`] is the registry of all calls in flight: their limits, and who ended each of them first. Each call
//!   is a [`CallHandle`]: open, then cancelled by exactly one [`Cause`](countermand_core::Cause), or answered.
//! - Front doors bring calls to a handler: [`serve_stdio`] (all revisions on one pair of streams) and
//!   [`HttpServer`] (Streamable HTTP, all revisions at one address). All front doors of a process share one registry.
//! - A [`Peer`] is the other direction: this process as the client of an MCP server.
//!
//! What is deliberately absent: typed messages. Ids, arguments, results and tools pass through as they were
//! written; the wire reads only what it needs.

#![warn(clippy::cast_possible_truncation)]

mod json;
mod revision;

mod error;

mod level;
mod message;
mod params;

mod calls;
mod progress;

mod client;
mod log;

mod handler;
mod methods;
mod result;

mod platform;
mod stdio;

mod http;

mod peer;

pub use calls::{CallHandle, Calls, Limits, Move, Presence};
pub use client::{Backchannel, Client};
pub use error::{RpcError, WireError};
pub use handler::{Answer, Call, Delivery, Greeting, Handler, ServerInfo};
pub use http::{HttpOptions, HttpServer};
pub use json::{raw_elements, raw_members, raw_object};
pub use level::Level;
pub use log::Log;
pub use peer::{
    Ask, CancelFate, Happened, Heard, Hello, HttpTarget, Introduction, Lost, Outgoing, Peer, PeerError,
    PeerOptions, Pending, ProgressNote, Receipt, Target,
};
pub use platform::TcpOptions;
pub use progress::Progress;
pub use revision::{Revision, TransportKind};
pub use stdio::{End, StdioOptions, Why, serve_stdio, stdin};
