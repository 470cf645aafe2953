//! A connection to an MCP server, as its client: over a pair of byte streams or Streamable HTTP, in any revision.
//!
//! Everything stays raw. A request's id and progress token are ours, so that those of many clients fit into one
//! connection; all else passes as it was written.

mod ask;
mod letter;
mod words;

mod cancel;
mod slot;

mod connection;
mod said;

mod pending;

mod greeting;
mod streams;

mod http;

pub use ask::Ask;
pub use cancel::Receipt;
pub use connection::Heard;
pub use http::HttpTarget;
pub use pending::Pending;
pub use slot::{Happened, ProgressNote};
pub use words::{CancelFate, Hello, Introduction, Lost, Outgoing, PeerError, PeerOptions};

use connection::{Connection, Letter};
use greeting::InLine;
use http::Link;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

/// Where a server is.
pub enum Target {
    /// At the other end of a pair of byte streams, such as the standard output and input of a child. The caller
    /// owns what is behind them.
    Streams {
        /// What the server writes.
        read: Box<dyn AsyncRead + Send + Unpin>,
        /// What the server reads. Closed at the end of the connection.
        write: Box<dyn AsyncWrite + Send + Unpin>,
    },
    /// At a URL, over Streamable HTTP.
    Http(HttpTarget),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Streams { .. } => f.write_str("Streams"),
            Self::Http(target) => target.fmt(f),
        }
    }
}

/// A connection to one server. A cheap clone.
///
/// When the last clone is dropped the connection ends in the background: a pair of streams is closed, an HTTP session
/// is ended. What is in flight then is [`Lost::Closed`].
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    connection: Arc<Connection>,
    /// How requests go their way, where there is no one way for all.
    link: Option<Arc<Link>>,
    hello: Hello,
    _ends: DropGuard,
}

impl Peer {
    /// Connects to a server: finds out which revision it speaks, introduces the client, and learns what it says of
    /// itself. Comes with what the server says that belongs to no request; read it, or drop it.
    ///
    /// The preferred revision is tried first. A server that does not speak it is asked in the other way: `initialize`
    /// and `server/discover` exclude each other, and only an error of 2026-07-28 keeps a server from being taken for an
    /// older one. Over streams some old servers end when anything but `initialize` comes first, which
    /// [`PeerError::is_end_at_probe`] tells. Pings of the server are answered from the start.
    ///
    /// # Errors
    ///
    /// [`PeerError`]: no answer within [`PeerOptions::connect_within`], no common revision, no credentials, no
    /// server.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, whatever the server does, the streams are closed and requests are broken off at
    /// once, in the background. `initialize` itself is never cancelled: the protocol knows no such cancel.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time and IO.
    pub async fn connect(
        target: Target,
        introduction: Introduction,
        options: PeerOptions,
    ) -> Result<(Self, mpsc::Receiver<Heard>), PeerError> {
        let in_line = matches!(target, Target::Streams { .. });
        let (connection, heard) = Connection::new(introduction, options, in_line);
        let ends = connection.stop.clone().drop_guard();
        let (link, hello) = match target {
            Target::Streams { read, write } => {
                streams::start(&connection, read, write);
                (None, greeting::greet(&connection, &InLine(&connection)).await?)
            }
            Target::Http(target) => {
                let link = Link::start(&connection, target)?;
                let hello = greeting::greet(&connection, &link).await?;
                link.listen();
                (Some(link), hello)
            }
        };
        Ok((Self(Arc::new(Inner { connection, link, hello, _ends: ends })), heard))
    }

    /// What the server has said of itself.
    pub fn hello(&self) -> &Hello {
        &self.0.hello
    }

    /// Sends a request, under an id of our own. Never blocks: one that cannot be sent is [`Lost::NotSent`].
    ///
    /// Any method will do. `subscriptions/listen` is a request that stays open: what it listens to comes as
    /// [`Happened::Noted`], over streams as well, and it ends as any other is cancelled.
    pub fn request(&self, ask: Outgoing) -> Pending {
        let connection = Arc::clone(&self.0.connection);
        let slot = connection.open(true);
        match &self.0.link {
            Some(link) => link.send(&slot, &ask, self.0.hello.revision),
            None => {
                let json = connection.write(&slot, &ask, self.0.hello.revision);
                connection.post(Letter { json, slot: Some(Arc::clone(&slot)), teller: None, in_order: true });
            }
        }
        Pending { slot, connection }
    }

    /// Sends a notification. Never blocks; behind more than [`PeerOptions::outgoing`] bytes that the server has not
    /// read it is dropped, with a warning.
    pub fn notify(&self, method: &str, params: Option<Box<RawValue>>) {
        let json = letter::notification(method, params.as_deref());
        self.0.connection.post(Letter { json, slot: None, teller: None, in_order: true });
    }

    /// Waits until the connection has ended, and says why. Over HTTP only the end of a session ends it, or we do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn closed(&self) -> Lost {
        self.0.connection.closed().await
    }

    /// Ends the connection, for all its clones, within that time whatever the server does. What is in flight is
    /// cancelled first, then [`Lost::Closed`].
    ///
    /// Streams: what is queued is written, the server's input is closed, and its output is read to its end. An HTTP
    /// session is ended by DELETE, and otherwise responses are closed.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the rest is done in the background as when the last clone is dropped.
    pub async fn close(self, within: Duration) {
        let until = Instant::now() + within;
        let connection = &self.0.connection;
        let receipts = connection.close();
        let ending = async {
            match &self.0.link {
                Some(link) => link.close(receipts).await,
                None => {
                    connection.closed().await;
                }
            }
        };
        let _bounded = tokio::time::timeout_at(until, ending).await;
        connection.end(Lost::Closed);
        connection.tasks.close();
        let _bounded = tokio::time::timeout_at(until, connection.tasks.wait()).await;
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("revision", &self.0.hello.revision).finish_non_exhaustive()
    }
}
