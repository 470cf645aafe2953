//! Performs the requests of HTTP upstreams, and classifies their answers. Decides nothing.
//!
//! - **No answer is guessed.** A create is *not sent* only where not one byte was written, and
//!   *refused* only where the upstream said so; whatever is neither is *lost*.
//! - **A dropped future aborts its request**: over HTTP/1.1 the connection is closed, over
//!   HTTP/2 the stream is reset. Of a body not more is sent than the connection had taken. Nothing
//!   here spawns a task.
//! - **No error shows a secret, a header, or an argument.**

mod answer;
mod classify;
mod client;
mod common;
mod crypto;
mod exchange;
mod extract;
mod failure;
mod job;
mod once;
mod payload;
mod read;
mod registry;
mod retry_after;
mod shown;
mod state;
mod upload;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;

pub use client::HttpUpstreamClient;
pub(crate) use client::http_client;
pub use crypto::install_crypto;
pub(crate) use exchange::cause;
pub use failure::{HttpFailure, UpstreamError};
pub use job::HttpJob;
pub use once::HttpOnce;
pub use read::HttpRead;
pub use registry::Upstreams;
