//! One server of the config: its connections, and what its tools are called here.

use super::{forward, link::Link, raw, start::Tools};
use crate::config::{Isolation, McpServer};
use countermand::core::ports::Definition;
use countermand_mcp::{Client, Introduction, TransportKind};
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use uuid::Uuid;

/// The pause after a server could not be started, doubling up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a shared connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// How long a connection may take to end that makes room for another one.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// A server, and whoever is connected to it.
pub(super) struct Server {
    pub(super) config: McpServer,
    /// What cancels that are forwarded to it are recorded under.
    pub(super) forwarded: Definition,
    tools: Arc<Tools>,
    places: Mutex<HashMap<Key, Arc<Place>>>,
    /// Room for connections.
    room: Arc<Semaphore>,
}

/// Whose a connection is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Client(Uuid),
    /// All that declare these capabilities, as they are written.
    Shared(String),
}

/// Where a connection is, or will be.
#[derive(Default)]
struct Place {
    /// The lock is held while it is connected to, so that many requests start one server.
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    count: u32,
    last: Option<(Instant, String)>,
}

impl Server {
    pub(super) fn new(config: McpServer, tools: Arc<Tools>) -> Self {
        let forwarded = forward::definition(&config);
        let room = Arc::new(Semaphore::new(config.connections));
        Self { config, forwarded, tools, places: Mutex::default(), room }
    }

    /// Who shares a connection to it.
    fn isolation(&self) -> Isolation {
        self.config.isolation.unwrap_or(Isolation::Session)
    }

    /// A connection for one call alone, which the caller closes.
    ///
    /// # Errors
    /// Why there is none, in words for a caller.
    pub(super) async fn link_of_call(&self, client: &Client) -> Result<Arc<Link>, String> {
        self.open(Said::of(client).introduction(client), (Some(client.clone()), true)).await
    }

    /// The connection for whatever else a client asks: its own, or a shared one. It is made where there is none.
    ///
    /// # Errors
    /// Why there is none, in words for a caller.
    pub(super) async fn link(self: &Arc<Self>, client: &Client) -> Result<Arc<Link>, String> {
        let said = Said::of(client);
        let own = client.id.filter(|_| self.isolation() == Isolation::Session);
        let key = match own {
            Some(id) => Key::Client(id),
            None => Key::Shared(said.capabilities.get().to_owned()),
        };
        let introduction = said.introduction(client);
        let place = Arc::clone(self.lock().entry(key.clone()).or_default());
        let mut link = place.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| !link.is_dead()) {
            return Ok(Arc::clone(link));
        }
        // Its room is free for the new one.
        *link = None;
        place.may_try()?;
        let owner = own.map(|_| client.clone());
        let opened = self.open(introduction, (owner.clone(), client.transport == TransportKind::Stdio)).await;
        place.tried(opened.as_ref().err());
        let opened = opened?;
        *link = Some(Arc::clone(&opened));
        drop(link);
        let (server, link) = (Arc::clone(self), Arc::clone(&opened));
        self.tools.tasks.spawn(async move {
            // Its client's end is the connection's; one that is shared ends when nobody has used it for long.
            let unused = async {
                match &owner {
                    Some(client) => client.gone().await,
                    None => link.unused_for(IDLE).await,
                }
            };
            tokio::select! {
                () = unused => link.close().await,
                () = link.died() => {}
            }
            // One that is dead takes no room, whether another one is ever asked for or not.
            place.link.lock().await.take_if(|it| Arc::ptr_eq(it, &link));
            server.forget(&key, &place);
        });
        Ok(opened)
    }

    /// Removes a place without a connection that nobody waits for.
    fn forget(&self, key: &Key, place: &Arc<Place>) {
        let mut places = self.lock();
        let is_the_one = places.get(key).is_some_and(|it| Arc::ptr_eq(it, place));
        // The map's, and the caller's: whoever waits for a connection there holds it too.
        let is_empty = place.link.try_lock().is_ok_and(|link| link.is_none());
        if is_the_one && is_empty && Arc::strong_count(place) == 2 {
            places.remove(key);
        }
    }

    /// Room for one more connection. Whoever asks can declare what it likes, so a shared one that nobody uses makes room.
    async fn room(&self) -> Result<OwnedSemaphorePermit, String> {
        if let Ok(room) = self.room.clone().try_acquire_owned() {
            return Ok(room);
        }
        if let Some(idle) = self.take_idle() {
            self.tools.tasks.spawn(async move { idle.close().await });
            let freed = tokio::time::timeout(ROOM_WITHIN, self.room.clone().acquire_owned()).await;
            if let Ok(Ok(room)) = freed {
                return Ok(room);
            }
        }
        Err(format!(
            "The MCP server `{}` has {} connections already, as many as it may (`connections`); try again when one has ended",
            self.config.name, self.config.connections
        ))
    }

    /// Takes a shared connection away that nobody uses.
    fn take_idle(&self) -> Option<Arc<Link>> {
        let mut places = self.lock();
        let found = places.iter().find_map(|(key, place)| {
            // A place that is being connected to is locked.
            let mut link = place.link.try_lock().ok()?;
            let is_idle = matches!(key, Key::Shared(_)) && link.as_ref()?.in_flight() == 0;
            is_idle.then(|| Some((key.clone(), link.take()?))).flatten()
        });
        let (key, link) = found?;
        places.remove(&key);
        Some(link)
    }

    async fn open(
        &self,
        introduction: Introduction,
        whose: (Option<Client>, bool),
    ) -> Result<Arc<Link>, String> {
        let room = self.room().await?;
        Link::open(&self.config, introduction, whose, (&self.tools, room))
            .await
            .map_err(|why| format!("The MCP server `{}` could not be reached: {why}.", self.config.name))
    }

    /// The connection that this client has of its own, if it has been made.
    pub(super) async fn existing(&self, client: &Client) -> Option<Arc<Link>> {
        let place = self.lock().get(&Key::Client(client.id?)).cloned()?;
        let link = place.link.lock().await.clone();
        link.filter(|link| !link.is_dead())
    }

    /// Whether every call has a connection of its own.
    pub(super) fn is_for_one_call(&self) -> bool {
        self.isolation() == Isolation::Call
    }

    /// What one of its tools or prompts is called here.
    pub(super) fn exposed(&self, own: &str) -> String {
        format!("{}{own}", self.config.prefix)
    }

    /// What it calls itself what is called so here.
    pub(super) fn own<'a>(&self, exposed: &'a str) -> Option<&'a str> {
        exposed.strip_prefix(self.config.prefix.as_str())
    }

    /// Whether a tool of that own name is served.
    pub(super) fn serves_tool(&self, own: &str) -> bool {
        let is = |name: &String| name == own;
        self.config.only.as_ref().is_none_or(|only| only.iter().any(is)) && !self.config.except.iter().any(is)
    }

    /// Ends every connection.
    pub(super) async fn close(&self) {
        let places: Vec<Arc<Place>> = self.lock().drain().map(|(_, place)| place).collect();
        let closing = places.iter().map(|place| async {
            let link = place.link.lock().await.take();
            if let Some(link) = link {
                link.close().await;
            }
        });
        futures_util::future::join_all(closing).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// A server that cannot be started is not started again at once.
    fn may_try(&self) -> Result<(), String> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((last, why)) = &failures.last else { return Ok(()) };
        let doubled = FIRST_PAUSE * 2_u32.saturating_pow(failures.count.saturating_sub(1).min(10));
        let again = *last + doubled.min(LONGEST_PAUSE);
        match again.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => {
                Err(format!("{why} It is tried again in {:.1} s at the earliest.", left.as_secs_f64()))
            }
            _ => Ok(()),
        }
    }

    fn tried(&self, failure: Option<&String>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => *failures = Failures::default(),
            Some(why) => {
                failures.count += 1;
                failures.last = Some((Instant::now(), why.clone()));
            }
        }
    }
}

/// What a client has said of itself, whatever its revision.
struct Said {
    capabilities: Box<RawValue>,
    info: Option<Box<RawValue>>,
}

impl Said {
    fn of(client: &Client) -> Self {
        let mut said = raw::members(client.introduction.as_deref());
        let (capabilities, info) = if client.revision.is_stateless() {
            ("io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo")
        } else {
            ("capabilities", "clientInfo")
        };
        Self {
            capabilities: raw::take(&mut said, capabilities).unwrap_or_else(|| raw::json("{}")),
            info: raw::take(&mut said, info),
        }
    }

    fn introduction(self, client: &Client) -> Introduction {
        let ours =
            || raw::json(&format!(r#"{{"name":"countermand","version":"{}"}}"#, env!("CARGO_PKG_VERSION")));
        Introduction {
            client_info: self.info.unwrap_or_else(ours),
            capabilities: self.capabilities,
            prefer: client.revision,
        }
    }
}
