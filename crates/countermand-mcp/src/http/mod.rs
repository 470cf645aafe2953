//! Streamable HTTP: the accept loop, and each connection with its watcher. `exchange` finds out what a request is and
//! serves those that stand alone (2026-07-28); `session` serves those that belong to one (2025-06-18, 2025-11-25).

mod annotations;
mod body;
mod call;
mod exchange;
mod guard;
mod headers;
mod options;
mod session;
mod silent;
mod version;
mod watched;

pub use options::HttpOptions;

use crate::params::Params;
use crate::{Backchannel, Calls, Client, Handler, Revision, TransportKind, WireError, platform};
use annotations::Annotations;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use session::Sessions;
use silent::Silent;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use version::{Version, version};
use watched::Watched;

/// Requests in flight on one HTTP/2 connection. The limits of the registry bind as well.
const STREAMS: u32 = 1_024;
/// Bytes of one request's headers.
const HEADERS: usize = 64 * 1024;

/// A Streamable HTTP server that has its address already.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

/// What all connections of a server share.
struct Door<H> {
    handler: Arc<H>,
    calls: Arc<Calls>,
    options: HttpOptions,
    on_loopback: bool,
    annotations: Annotations,
    sessions: Sessions,
    silent: Silent,
    /// What must have ended before the server has.
    tasks: TaskTracker,
    /// No more is accepted.
    stop: CancellationToken,
}

impl<H> Door<H> {
    /// The client of a request that stands alone.
    fn alone(&self, revision: Revision, params: &Params<'_>) -> Client {
        Client {
            id: None,
            principal: self.options.principal.clone(),
            session: None,
            revision,
            transport: TransportKind::Http,
            introduction: params.meta().map(|meta| Arc::from(meta.to_owned())),
            back: Backchannel::nowhere(),
            gone: CancellationToken::new(),
        }
    }
}

impl HttpServer {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// [`WireError::Listen`] if the address cannot be had.
    pub async fn bind(address: SocketAddr, options: HttpOptions) -> Result<Self, WireError> {
        let failed = |source| WireError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, options })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves HTTP/1.1 and HTTP/2 (prior knowledge) until `stop` is cancelled and all connections have ended.
    ///
    /// The close of a connection cancels its calls at once, whatever lies unread in it; so does the reset of an
    /// HTTP/2 stream. A client that closes only its sending side counts as gone.
    ///
    /// A stop ends the accepting, not the calls: cancel them with [`Calls::cancel_all`]. Their answers are sent,
    /// and connections close when they have nothing left to answer, or `options.drain` after the stop.
    ///
    /// # Cancel safety
    ///
    /// Not to be dropped: connections would run on. Cancel `stop` instead.
    pub async fn serve<H: Handler>(
        self,
        handler: Arc<H>,
        calls: Arc<Calls>,
        stop: CancellationToken,
    ) -> Result<(), WireError> {
        let drain = self.options.drain;
        let on_loopback = self.address.ip().is_loopback();
        let (tasks, force) = (TaskTracker::new(), CancellationToken::new());
        let (options, most) = (self.options, calls.limits().sessions);
        let door = Arc::new(Door {
            handler,
            calls,
            on_loopback,
            annotations: Annotations::default(),
            silent: Silent::new(options.silent_connections),
            sessions: Sessions::new(most, &options),
            options,
            tasks: tasks.clone(),
            stop: stop.clone(),
        });
        tasks.spawn({
            let door = Arc::clone(&door);
            async move { door.sessions.look_after(door.stop.clone()).await }
        });
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let ends = Ends { stop: stop.clone(), force: force.clone() };
                    tasks.spawn(connection(Arc::clone(&door), stream, ends, Tasks(tasks.clone())));
                }
                Err(error) => {
                    tracing::warn!("failed to accept a connection: {error}; trying again in 100 ms");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        tasks.close();
        if tokio::time::timeout(drain, tasks.wait()).await.is_err() {
            tracing::warn!(connections = tasks.len(), "connections were cut: they did not end in time");
            force.cancel();
            tasks.wait().await;
        }
        Ok(())
    }
}

/// Hyper's own tasks, one per HTTP/2 stream.
#[derive(Clone)]
struct Tasks(TaskTracker);

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        self.0.spawn(async move {
            future.await;
        });
    }
}

/// What ends a connection from our side.
struct Ends {
    /// After the answers that are due.
    stop: CancellationToken,
    /// At once.
    force: CancellationToken,
}

enum Event {
    Ended,
    PeerClosed,
    StopAsked,
    Forced,
}

async fn connection<H: Handler>(door: Arc<Door<H>>, stream: TcpStream, ends: Ends, tasks: Tasks) {
    if let Err(error) = platform::tune(&stream, &door.options.tcp) {
        tracing::debug!("failed to set the options of a connection: {error}");
    }
    let patience = door.options.read_timeout;
    let spoken = {
        let place = door.silent.enter();
        tokio::select! {
            spoken = tokio::time::timeout(patience, version(&stream)) => spoken,
            () = place.given_up() => return,
            () = ends.stop.cancelled() => return,
        }
    };
    let Ok(Ok((version, ahead))) = spoken else { return };
    let stream = Arc::new(stream);
    let closed = CancellationToken::new();
    let _closed_at_the_end = closed.clone().drop_guard();
    let service = service_fn(|request| {
        let (door, closed) = (Arc::clone(&door), closed.clone());
        async move { exchange::serve(&door, closed, request).await }
    });
    let builder = builder(version, tasks, patience);
    let io = TokioIo::new(Watched::new(Arc::clone(&stream), ahead));
    let mut serving = pin!(builder.serve_connection(io, service));
    let (mut watching, mut stopping) = (true, false);
    loop {
        let event = tokio::select! {
            _ = serving.as_mut() => Event::Ended,
            () = platform::read_closed(&stream), if watching => Event::PeerClosed,
            () = ends.stop.cancelled(), if !stopping => Event::StopAsked,
            () = ends.force.cancelled() => Event::Forced,
        };
        match event {
            Event::Ended | Event::Forced => return,
            Event::PeerClosed => {
                watching = false;
                closed.cancel();
            }
            Event::StopAsked => {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

fn builder(version: Version, tasks: Tasks, patience: Duration) -> Builder<Tasks> {
    let mut builder = match version {
        Version::One => Builder::new(tasks).http1_only(),
        Version::Two => Builder::new(tasks).http2_only(),
    };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(5))
        .keep_alive_timeout(Duration::from_secs(10));
    builder
}
