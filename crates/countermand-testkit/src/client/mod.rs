//! A raw MCP client: it writes bytes of its own choosing and reads what comes, without any SDK's opinion.
//!
//! It shares no code with the wire under test, so that each can be an honest second opinion on the other. Where
//! something does not come within ten seconds it panics, and shows what did come.

mod exchange;
mod h2;
mod http;
pub mod message;
mod stdio;

pub use exchange::{Exchange, Head};
pub use h2::{H2Client, H2Exchange};
pub use http::HttpClient;
pub use stdio::StdioClient;

use std::future::Future;
use std::time::Duration;

/// How long anything may take that is bound to come.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for what is bound to come; panics, with what was waited for, if it does not.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come within {} s", PATIENCE.as_secs()),
    }
}
