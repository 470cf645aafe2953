//! Over Streamable HTTP.

use super::connection::Connection;
use super::greeting::Opener;
use super::pending::Pending;
use super::slot::{Receipt, Slot};
use super::words::{Outgoing, PeerError};
use crate::Revision;
use http::HeaderMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Headers for one request, such as credentials; or why there are none.
type Headers = dyn Fn() -> Result<HeaderMap, String> + Send + Sync;

/// Where a server is, over Streamable HTTP.
#[derive(Clone)]
pub struct HttpTarget {
    /// The URL of its MCP endpoint. Never logged: there may be secrets in it.
    pub url: String,
    /// What requests are made with. It bounds how long a connection may take to be made; it must bound neither a
    /// whole request nor the silence of one, and follow no redirects.
    pub client: reqwest::Client,
    /// Asked for the headers of every request. They are sent, and nothing else is done with them; those of the
    /// protocol win over them.
    pub headers: Arc<Headers>,
    /// How long the server may take to acknowledge a notification, an answer, or the end of its session.
    pub patience: Duration,
    /// How long a response may be silent before it counts as broken, if at all. Many servers send nothing until
    /// they are done.
    pub idle: Option<Duration>,
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTarget")
            .field("patience", &self.patience)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

pub(super) struct Link;

impl Link {
    pub(super) fn start(_: &Arc<Connection>, _: HttpTarget) -> Result<Arc<Self>, PeerError> {
        Err(PeerError::Target("HTTP is not there yet".to_owned()))
    }
    pub(super) fn listen(&self) {}
    pub(super) fn send(&self, _: &Arc<Slot>, _: &Outgoing, _: Revision) {}
    pub(super) async fn close(&self, _: Vec<Receipt>) {}
}

impl Opener for Link {
    fn open(&self, _: Outgoing, _: Revision) -> Result<Pending, PeerError> {
        Err(PeerError::Target("HTTP is not there yet".to_owned()))
    }
    async fn initialized(&self) -> Result<(), PeerError> {
        Ok(())
    }
}
