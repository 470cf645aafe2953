//! One connection to a server, and whom what it says by itself is for.

use super::start::{GRACE, Started, Tools, start};
use crate::config::McpServer;
use countermand::process::{Control, Stop};
use countermand_mcp::{Ask, Backchannel, Client, Heard, Introduction, Lost, Peer, RpcError};
use futures_util::FutureExt as _;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, broadcast, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A connection. Ends with [`close`](Self::close), or when the server does.
pub(super) struct Link {
    pub(super) peer: Peer,
    program: Option<Control>,
    /// Trips once its client has said that it is ready: before, it is told and asked nothing.
    ready: CancellationToken,
    /// Trips once it can be used no more.
    dead: CancellationToken,
    /// The requests that are in flight, by their order, each with the way to who has made it.
    voices: Mutex<BTreeMap<u64, Way>>,
    /// None is in flight any more.
    emptied: Notify,
    next: AtomicU64,
    /// Whose it is; it is shared where it is nobody's.
    client: Option<Client>,
    /// Whether all who share it are one: there is only one client on a pair of streams.
    one_party: bool,
    /// Its place among the connections that there may be.
    _room: OwnedSemaphorePermit,
    /// What the server notifies of by itself, for those who listen.
    notes: broadcast::Sender<Note>,
}

/// A notification of a server that belongs to no request.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) method: String,
    pub(super) params: Option<Arc<serde_json::value::RawValue>>,
}

/// How whoever has made a request is asked something.
#[derive(Clone)]
pub(super) enum Way {
    /// By a request of ours.
    Back(Backchannel),
    /// By a result that requires input: whoever follows the request takes the question.
    ByResults(mpsc::UnboundedSender<Ask>),
}

impl Way {
    fn can_ask(&self) -> bool {
        match self {
            Self::Back(back) => back.can_ask(),
            Self::ByResults(sender) => !sender.is_closed(),
        }
    }
}

/// A request's place among those in flight.
pub(super) struct Voice {
    link: Arc<Link>,
    number: u64,
}

impl Drop for Voice {
    fn drop(&mut self) {
        let mut voices = self.link.lock();
        voices.remove(&self.number);
        if voices.is_empty() {
            self.link.emptied.notify_waiters();
        }
    }
}

impl Link {
    /// Starts a server for a client, or for all that share it.
    pub(super) async fn open(
        server: &McpServer,
        introduction: Introduction,
        (client, one_party): (Option<Client>, bool),
        (tools, room): (&Tools, OwnedSemaphorePermit),
    ) -> Result<Arc<Self>, String> {
        let Started { peer, heard, program } = start(server, introduction, tools).await?;
        tracing::info!(server = server.name, revision = %peer.hello().revision, "connected to an MCP server");
        let link = Arc::new(Self {
            peer,
            program,
            ready: CancellationToken::new(),
            dead: CancellationToken::new(),
            voices: Mutex::default(),
            emptied: Notify::new(),
            next: AtomicU64::new(0),
            client,
            one_party,
            _room: room,
            notes: broadcast::channel(256).0,
        });
        tools.tasks.spawn(listen(Arc::clone(&link), heard, server.name.clone(), tools.tasks.clone()));
        Ok(link)
    }

    /// Whether it can be used no more: not only once that was noticed by who listens to it.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.is_cancelled() || self.peer.closed().now_or_never().is_some()
    }

    /// Waits until it can be used no more.
    pub(super) async fn died(&self) {
        self.dead.cancelled().await;
    }

    /// Enters a request among those in flight.
    pub(super) fn voice(self: &Arc<Self>, way: Way) -> Voice {
        // Whoever asks for something is ready, whether it has said so or not.
        self.ready();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, way);
        Voice { link: Arc::clone(self), number }
    }

    /// Its client is ready.
    pub(super) fn ready(&self) {
        self.ready.cancel();
    }

    /// How many requests are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.lock().len()
    }

    /// Waits until no request is in flight.
    pub(super) async fn idle(&self) {
        loop {
            let mut emptied = std::pin::pin!(self.emptied.notified());
            emptied.as_mut().enable();
            if self.in_flight() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// Waits until no request was in flight for so long.
    pub(super) async fn unused_for(&self, long: Duration) {
        loop {
            self.idle().await;
            let before = self.next.load(Ordering::Relaxed);
            tokio::time::sleep(long).await;
            if self.next.load(Ordering::Relaxed) == before && self.in_flight() == 0 {
                return;
            }
        }
    }

    /// Hears what the server notifies of by itself from now on.
    pub(super) fn notes(&self) -> broadcast::Receiver<Note> {
        self.notes.subscribe()
    }

    /// The server's program, where we have started it.
    pub(super) fn program(&self) -> Option<&Control> {
        self.program.as_ref()
    }

    /// Ends the server's program at once, with all that it has started.
    pub(super) fn kill(&self) {
        self.dead.cancel();
        if let Some(program) = &self.program {
            program.stop(Stop::NOW);
        }
    }

    /// Ends the connection: the server's input is closed, then its program is asked, then it is ended.
    pub(super) async fn close(&self) {
        self.dead.cancel();
        self.peer.clone().close(GRACE).await;
        if let Some(program) = &self.program {
            program.stop(Stop { grace: GRACE, ..Stop::default() });
            program.ended().await;
        }
    }

    /// The way to whom the server asks something without saying on whose behalf. Where the connection is one client's, the
    /// newest of its requests; where it is shared, the only request there is: never somebody who might be another.
    fn asked(&self) -> Option<Way> {
        let voices = self.lock();
        match &self.client {
            Some(client) => {
                let newest = voices.values().rev().find(|way| way.can_ask()).cloned();
                newest.or_else(|| Some(Way::Back(client.back.clone()))).filter(Way::can_ask)
            }
            None if voices.len() == 1 || self.one_party => {
                voices.values().rev().find(|way| way.can_ask()).cloned()
            }
            None => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Way>> {
        self.voices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until the connection ends.
async fn listen(link: Arc<Link>, mut heard: mpsc::Receiver<Heard>, server: String, tasks: TaskTracker) {
    let lost = loop {
        let next = tokio::select! {
            next = heard.recv() => next,
            lost = link.peer.closed() => break lost,
        };
        if link.client.is_some() {
            tokio::select! {
                () = link.ready.cancelled() => {}
                lost = link.peer.closed() => break lost,
            }
        }
        match next {
            Some(Heard::Noted { method, params }) => {
                if let Some(client) = &link.client {
                    client.back.notify(&method, params.as_deref());
                }
                let _nobody_listens = link.notes.send(Note { method, params: params.map(Arc::from) });
            }
            Some(Heard::Asked(ask)) => match link.asked() {
                Some(Way::Back(back)) => {
                    tasks.spawn(pass_on(ask, back));
                }
                // Nobody there any more: dropped, it is answered with an error.
                Some(Way::ByResults(sender)) => drop(sender.send(ask)),
                None => ask.answer(Err(RpcError::method_not_found(
                    "a request to a client: nobody can be asked here",
                ))),
            },
            None => break link.peer.closed().await,
        }
    };
    let unexpected = !link.dead.is_cancelled() && lost != Lost::Closed;
    // Before its program has ended: the next request finds another one started.
    link.dead.cancel();
    if unexpected {
        let exit = match &link.program {
            Some(program) => {
                program.stop(Stop { grace: GRACE, ..Stop::default() });
                program.ended().await.to_string()
            }
            None => "not ours".to_owned(),
        };
        tracing::warn!(
            server,
            exit,
            in_flight = link.in_flight(),
            "the connection to an MCP server has ended: {lost}"
        );
    }
}

/// Asks a client what a server asks, for as long as the server wants to know.
pub(super) async fn pass_on(ask: Ask, back: Backchannel) {
    let answer = tokio::select! {
        answer = back.ask(&ask.method, ask.params.as_deref()) => answer,
        () = ask.cancelled() => return,
    };
    ask.answer(answer);
}
