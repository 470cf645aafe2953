//! Over Streamable HTTP: each request goes its own way, with a task of its own (`exchange`); what gets no answer goes in
//! the `background`.

mod headers;
mod sse;
mod upload;

mod stream;

mod background;
mod exchange;

use super::cancel::Receipt;
use super::connection::Connection;
use super::greeting::Opener;
use super::letter;
use super::pending::Pending;
use super::slot::{Happened, Slot};
use super::words::{Lost, Outgoing, PeerError};
use crate::Revision;
use headers::Manner;
use http::{HeaderMap, HeaderValue};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Headers for one request, such as credentials; or why there are none.
type Headers = dyn Fn() -> Result<HeaderMap, String> + Send + Sync;

/// Where a server is, over Streamable HTTP.
#[derive(Clone)]
pub struct HttpTarget {
    /// The URL of its MCP endpoint. Never logged: there may be secrets in it.
    pub url: String,
    /// What requests are made with. It bounds how long a connection may take to be made, and how long a dead one goes
    /// unnoticed. It must bound neither a whole request nor the silence of one (`timeout`, `read_timeout`): calls are
    /// long and silent. It must follow no redirects: the headers are not for others.
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

/// How long cancels may hold up the end of a session.
const LAST_CANCELS: Duration = Duration::from_secs(1);
const INITIALIZED: &str = "notifications/initialized";

/// The way to one server.
pub(super) struct Link {
    connection: Arc<Connection>,
    target: HttpTarget,
    url: reqwest::Url,
    /// The id of the session, a secret.
    session: OnceLock<HeaderValue>,
    session_ended: AtomicBool,
}

impl Link {
    /// The way to that target; nothing is sent yet.
    pub(super) fn start(connection: &Arc<Connection>, target: HttpTarget) -> Result<Arc<Self>, PeerError> {
        let url = reqwest::Url::parse(&target.url);
        let url = url.ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let why = "its URL is none that starts with `http://` or `https://`; check it";
        let url = url.ok_or_else(|| PeerError::Target(why.to_owned()))?;
        let link = Arc::new(Self {
            connection: Arc::clone(connection),
            target,
            url,
            session: OnceLock::new(),
            session_ended: AtomicBool::new(false),
        });
        connection.spawn(background::courier(Arc::clone(&link)));
        Ok(link)
    }

    /// Listens to what belongs to no request, where the revision has that.
    pub(super) fn listen(self: &Arc<Self>) {
        if self.connection.spoken.get().is_some_and(|spoken| !spoken.revision.is_stateless()) {
            self.connection.spawn(background::listen(Arc::clone(self)));
        }
    }

    /// Sends a request.
    pub(super) fn send(self: &Arc<Self>, slot: &Arc<Slot>, ask: &Outgoing, revision: Revision) {
        let manner = if revision.is_stateless() { Manner::alone(ask) } else { Manner::InSession };
        self.carry(slot, ask, revision, manner);
    }

    fn carry(self: &Arc<Self>, slot: &Arc<Slot>, ask: &Outgoing, revision: Revision, manner: Manner) {
        let json = self.connection.write(slot, ask, revision);
        self.connection.spawn(exchange::carry(Arc::clone(self), Arc::clone(slot), manner, json));
    }

    /// Whether the session is there: a server that serves no GET may answer it with 404, which to a POST has the one
    /// meaning that it has. If the session is gone, that ends the connection.
    async fn is_alive(self: &Arc<Self>) -> bool {
        let slot = self.connection.open(true);
        let ping = Outgoing { method: "ping".to_owned(), ..Outgoing::default() };
        self.send(&slot, &ping, Revision::NEWEST_WITH_INITIALIZE);
        let mut pending = Pending { slot, connection: Arc::clone(&self.connection) };
        let answered = tokio::time::timeout(self.target.patience, pending.next()).await;
        !matches!(answered, Ok(Happened::Lost(Lost::SessionGone)))
    }

    /// Waits for the last cancels, not for long, then ends the session.
    pub(super) async fn close(&self, receipts: Vec<Receipt>) {
        let told = async {
            for mut receipt in receipts {
                receipt.fate().await;
            }
        };
        let _bounded = tokio::time::timeout(LAST_CANCELS, told).await;
        self.end_session().await;
    }
}

impl Opener for Arc<Link> {
    fn open(&self, ask: Outgoing, revision: Revision) -> Pending {
        let slot = self.connection.open(false);
        let manner = if revision.is_stateless() { Manner::alone(&ask) } else { Manner::Opening };
        self.carry(&slot, &ask, revision, manner);
        Pending { slot, connection: Arc::clone(&self.connection) }
    }

    async fn initialized(&self) -> Result<(), PeerError> {
        self.control(letter::notification(INITIALIZED, None)).await.map_err(|lost| match lost {
            Lost::Refused { status: status @ (401 | 403) } => PeerError::Unauthorized { status },
            lost => PeerError::Lost { method: INITIALIZED, lost },
        })
    }
}
