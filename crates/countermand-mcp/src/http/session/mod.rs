//! Sessions: what the revisions that begin with `initialize` keep of a client between its requests.
//!
//! In a session a broken connection is no cancel. Its calls' responses are kept, so that the client can resume them,
//! and each call learns when its client has left and come back. A cancel is a notification, the end of the session, or
//! what the call's handler makes of a client that stays away.

mod shelf;
mod call;
mod requests;

pub(super) use requests::{delete, get, open, post};

use super::body::{CallBody, Keeping, Outlet};
use super::guard::Shape;
use crate::calls::{Attendance, InFlight};
use crate::client::Asks;
use crate::http::HttpOptions;
use crate::{Backchannel, Client, Level, Revision, RpcError, TransportKind};
use countermand_core::Cause;
use serde_json::value::RawValue;
use shelf::{Place, Shelf};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long a response is kept after its end, for a client that has missed it.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// Ended responses that a session keeps.
const KEPT: usize = 64;
/// Bytes of ended responses that a session keeps; the newest one is kept whatever its size.
const KEPT_BYTES: usize = 1024 * 1024;
/// The stream of what is said beside requests.
const STANDING: u64 = 0;
/// How often sessions are looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// All sessions of a server, by their ids.
pub(super) struct Sessions {
    table: Mutex<HashMap<String, Arc<Session>>>,
    most: usize,
    /// How long a session lasts that has no call, no stream and no request.
    idle: Duration,
    /// How long a client that does not read counts as there after its last request.
    silent_after: Duration,
    shelf: Arc<Shelf>,
}

/// One session.
pub(super) struct Session {
    /// What its client proves itself by: visible ASCII, never logged or recorded.
    id: String,
    /// What it is called everywhere else.
    pub(super) name: String,
    pub(super) revision: Revision,
    pub(super) in_flight: InFlight,
    /// What its client is asked.
    pub(super) asks: Arc<Asks>,
    /// What is said beside its client's requests: kept until a stream is there to read it.
    standing: Arc<Outlet>,
    /// Names its client in this process.
    client: Uuid,
    introduction: Arc<RawValue>,
    /// Trips at its end.
    ended: CancellationToken,
    shelf: Arc<Shelf>,
    state: Mutex<State>,
}

struct State {
    last_seen: Instant,
    /// Requests that are being answered, streams that are open besides calls', handlers that run.
    busy: usize,
    level: Option<Level>,
    streams: BTreeMap<u64, Kept>,
    next_stream: u64,
}

/// A response that the session keeps.
struct Kept {
    outlet: Arc<Outlet>,
    /// Once nothing more can come.
    ended: Option<Ended>,
}

struct Ended {
    at: Instant,
    /// Among the ended ones of all sessions.
    _place: Place,
}

impl Sessions {
    /// At most so many of them.
    pub(super) fn new(most: usize, options: &HttpOptions) -> Self {
        Self {
            table: Mutex::default(),
            most,
            idle: options.session_idle,
            silent_after: options.silent_after,
            shelf: Shelf::new(options.kept),
        }
    }

    /// A new session of a client that has introduced itself with these params.
    fn open(&self, revision: Revision, introduction: &RawValue) -> Result<Arc<Session>, RpcError> {
        let mut table = self.lock();
        if table.len() >= self.most {
            let why = format!(
                "Too many sessions (`limits.sessions` is {}); end one that is not needed (DELETE), or wait until an idle one expires",
                self.most
            );
            return Err(RpcError::new(RpcError::TOO_MANY_CALLS, why));
        }
        let keeping = Keeping { stream: STANDING, primed: false, attendance: Attendance::new() };
        let session = Arc::new(Session {
            id: Uuid::new_v4().to_string(),
            name: Uuid::now_v7().to_string(),
            revision,
            in_flight: InFlight::default(),
            asks: Arc::default(),
            standing: Outlet::kept(Shape::Events, keeping).0,
            client: Uuid::now_v7(),
            introduction: Arc::from(introduction.to_owned()),
            ended: CancellationToken::new(),
            shelf: Arc::clone(&self.shelf),
            state: Mutex::new(State {
                last_seen: Instant::now(),
                busy: 0,
                level: None,
                streams: BTreeMap::new(),
                next_stream: 1,
            }),
        });
        table.insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().get(id).cloned()
    }

    /// Ends a session: its calls are cancelled at once, its streams end.
    fn end(&self, session: &Session) {
        self.lock().remove(&session.id);
        session.end();
    }

    /// Ends what has been idle for long and lets go of what was kept for long, until `stop`. Then every stream that
    /// waits for nothing ends.
    pub(super) async fn look_after(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let sessions: Vec<Arc<Session>> = self.lock().values().cloned().collect();
            for session in sessions {
                if session.is_idle_for(self.idle) {
                    tracing::debug!(session = session.name, "a session has expired");
                    self.end(&session);
                } else {
                    session.look_after(self.silent_after);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a session from expiring.
pub(super) struct Busy(Arc<Session>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        state.last_seen = Instant::now();
    }
}

impl Session {
    fn busy(self: &Arc<Self>) -> Busy {
        self.lock().busy += 1;
        Busy(Arc::clone(self))
    }

    /// Its client has asked for something: it is there, for each of its calls.
    fn seen(self: &Arc<Self>) -> Busy {
        let busy = self.busy();
        for outlet in self.outlets() {
            outlet.sign_of_life();
        }
        busy
    }

    fn end(&self) {
        self.ended.cancel();
        self.asks.close();
        self.in_flight.leave(Cause::SessionEnded);
    }

    /// Its client, as handlers see it.
    pub(super) fn client(&self) -> Client {
        Client {
            id: Some(self.client),
            principal: format!("session:{}", self.name),
            session: Some(self.name.clone()),
            revision: self.revision,
            transport: TransportKind::Http,
            introduction: Some(Arc::clone(&self.introduction)),
            back: Backchannel::beside(Arc::clone(&self.standing) as _, Arc::clone(&self.asks)),
            gone: self.ended.clone(),
        }
    }

    fn is_idle_for(&self, idle: Duration) -> bool {
        let state = self.lock();
        let read = || self.standing.is_read() || state.streams.values().any(|kept| kept.outlet.is_read());
        state.busy == 0 && state.last_seen.elapsed() >= idle && !read()
    }

    /// Notices a client that has said nothing for long, and lets go of old responses.
    fn look_after(&self, silent_after: Duration) {
        let silent = {
            let mut state = self.lock();
            state
                .streams
                .retain(|_, kept| kept.ended.as_ref().is_none_or(|ended| ended.at.elapsed() < KEPT_FOR));
            state.last_seen.elapsed() >= silent_after
        };
        if silent {
            for outlet in self.outlets() {
                outlet.silence();
            }
        }
    }

    fn set_level(&self, level: Level) {
        self.lock().level = Some(level);
    }

    fn level(&self) -> Option<Level> {
        self.lock().level
    }

    /// A new response, which is kept.
    fn keep(&self, shape: Shape) -> (u64, Arc<Outlet>, CallBody) {
        let mut state = self.lock();
        let stream = state.next_stream;
        state.next_stream += 1;
        // Older clients take an event without data for a broken message.
        let primed = self.revision >= Revision::V2025_11_25;
        let (outlet, body) = Outlet::kept(shape, Keeping { stream, primed, attendance: Attendance::new() });
        state.streams.insert(stream, Kept { outlet: Arc::clone(&outlet), ended: None });
        (stream, outlet, body)
    }

    /// A response has come to its end: it is kept for a while, as long as there is room.
    fn ended(self: &Arc<Self>, stream: u64) {
        let Some(size) = self.stream(stream).map(|outlet| outlet.size()) else { return };
        // Not under our own lock: what makes room can be ours.
        let place = self.shelf.put(self, stream, size);
        let mut state = self.lock();
        if let Some(kept) = state.streams.get_mut(&stream) {
            kept.ended = Some(Ended { at: Instant::now(), _place: place });
        }
        let mut ended: Vec<(Instant, u64, usize)> = state
            .streams
            .iter()
            .filter_map(|(stream, kept)| Some((kept.ended.as_ref()?.at, *stream, kept.outlet.size())))
            .collect();
        ended.sort_unstable_by(|one, other| other.cmp(one));
        let mut bytes = 0;
        for (nth, (_, stream, size)) in ended.into_iter().enumerate() {
            bytes += size;
            if nth > 0 && (nth >= KEPT || bytes > KEPT_BYTES) {
                state.streams.remove(&stream);
            }
        }
    }

    /// Lets go of a response that is kept.
    fn let_go(&self, stream: u64) {
        // What is let go is dropped without the lock.
        let _gone = self.lock().streams.remove(&stream);
    }

    fn stream(&self, number: u64) -> Option<Arc<Outlet>> {
        if number == STANDING {
            return Some(Arc::clone(&self.standing));
        }
        self.lock().streams.get(&number).map(|kept| Arc::clone(&kept.outlet))
    }

    fn outlets(&self) -> Vec<Arc<Outlet>> {
        self.lock().streams.values().map(|kept| Arc::clone(&kept.outlet)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
