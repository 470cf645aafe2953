//! What one connection to a server knows, whatever carries it: the requests in flight by their ids, the server's own
//! requests, and what waits to be sent. Messages of the server find their way here.

use super::ask::{Ask, Replies, error_of, pong};
use super::letter;
use super::slot::{Happened, Order, Ordered, ProgressNote, Receipt, Slot, Teller};
use super::words::{Introduction, Lost, Outgoing, PeerOptions};
use crate::json::{Members, text};
use crate::message::{self, Id, Message, Request, Response};
use crate::{Revision, RpcError};
use serde_json::value::RawValue;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Requests of the server that may be open at a time; one more is refused.
const ASKS: usize = 256;
/// What belongs to no request of ours and waits to be taken.
const HEARD: usize = 256;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a server says that belongs to no request of ours.
#[derive(Debug)]
pub enum Heard {
    /// A notification. If nobody takes them, further ones are dropped.
    Noted {
        /// Its method.
        method: String,
        /// Its params as the server wrote them.
        params: Option<Box<RawValue>>,
    },
    /// A request. If nobody takes them, further ones are answered with an error.
    Asked(Ask),
}

/// Something to send, on one line.
pub(super) struct Letter {
    pub(super) json: String,
    /// The request that it is.
    pub(super) slot: Option<Arc<Slot>>,
    /// Whom to tell that it was sent: it is a cancel.
    pub(super) teller: Option<Teller>,
    /// Whether others must wait until it has arrived.
    pub(super) in_order: bool,
}

/// How the server is spoken to.
#[derive(Debug, Clone)]
pub(super) struct Spoken {
    pub(super) revision: Revision,
    /// As the server named it.
    pub(super) version: String,
}

pub(super) struct Connection {
    pub(super) options: PeerOptions,
    pub(super) introduction: Introduction,
    /// Known once the server has introduced itself.
    pub(super) spoken: OnceLock<Spoken>,
    /// Whether everything goes one way, in order; else each request goes its own.
    in_line: bool,
    state: Mutex<State>,
    /// There is something to send, or there will be nothing more.
    mail: Notify,
    over: watch::Sender<Option<Lost>>,
    /// Ends every task at once.
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
}

struct State {
    next_id: u64,
    open: HashMap<u64, Arc<Slot>>,
    asks: HashMap<Id, CancellationToken>,
    outbox: VecDeque<Letter>,
    outbox_bytes: usize,
    closing: bool,
    heard: Option<mpsc::Sender<Heard>>,
}

impl Connection {
    /// Must be called within a tokio runtime, whose tasks carry the connection.
    pub(super) fn new(
        introduction: Introduction,
        options: PeerOptions,
        in_line: bool,
    ) -> (Arc<Self>, mpsc::Receiver<Heard>) {
        let (sender, heard) = mpsc::channel(HEARD);
        let state = State {
            next_id: 1,
            open: HashMap::new(),
            asks: HashMap::new(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            closing: false,
            heard: Some(sender),
        };
        let connection = Self {
            options,
            introduction,
            spoken: OnceLock::new(),
            in_line,
            state: Mutex::new(state),
            mail: Notify::new(),
            over: watch::Sender::new(None),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        };
        (Arc::new(connection), heard)
    }

    /// Starts a task that carries the connection.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Takes up a request. One that cannot be is lost at once.
    pub(super) fn open(&self, cancellable: bool) -> Arc<Slot> {
        let mut state = self.lock();
        let slot = Slot::new(state.next_id, cancellable);
        state.next_id += 1;
        state.open.insert(slot.id, Arc::clone(&slot));
        let over = self.lost().or(state.closing.then_some(Lost::Closed));
        drop(state);
        if let Some(lost) = over {
            self.lose(&slot, Lost::NotSent(lost.to_string()));
        }
        slot
    }

    /// The request as it is written for that revision.
    pub(super) fn write(&self, slot: &Slot, ask: &Outgoing, revision: Revision) -> String {
        letter::request(slot.id, ask, revision, &self.introduction)
    }

    /// Puts something among what is to be sent. Beyond the bound a request is lost, and anything else but a cancel
    /// is dropped.
    pub(super) fn post(&self, letter: Letter) {
        let mut state = self.lock();
        if state.heard.is_none() || (state.closing && letter.teller.is_none()) {
            return;
        }
        if letter.teller.is_none() && state.outbox_bytes + letter.json.len() > self.options.outgoing {
            drop(state);
            let why = format!(
                "the server does not read: more than {} bytes wait for it already",
                self.options.outgoing
            );
            match letter.slot {
                Some(slot) => self.lose(&slot, Lost::NotSent(why)),
                None => tracing::warn!("a message to an MCP server was dropped: {why}"),
            }
            return;
        }
        state.outbox_bytes += letter.json.len();
        state.outbox.push_back(letter);
        drop(state);
        self.mail.notify_one();
    }

    /// What is to be sent next: some letters, of about `most` bytes. `None` when all has been sent and nothing more
    /// will be. Cancel safe.
    pub(super) async fn letters(&self, most: usize) -> Option<Vec<Letter>> {
        loop {
            {
                let mut state = self.lock();
                let (mut letters, mut bytes) = (Vec::new(), 0);
                while bytes < most
                    && let Some(letter) = state.outbox.pop_front()
                {
                    state.outbox_bytes -= letter.json.len();
                    bytes += letter.json.len();
                    letters.push(letter);
                }
                if !letters.is_empty() {
                    return Some(letters);
                }
                if state.closing {
                    return None;
                }
            }
            self.mail.notified().await;
        }
    }

    /// Cancels a request, once.
    pub(super) fn cancel(&self, slot: &Arc<Slot>, reason: Option<&str>) -> Receipt {
        match slot.order(reason) {
            Ordered::Known(receipt) => receipt,
            Ordered::Revoked(receipt) => {
                self.lose(slot, Lost::NotSent("it was cancelled before".to_owned()));
                receipt
            }
            Ordered::Deliver(receipt, order) => {
                if self.in_line {
                    let Order { reason, teller } = order;
                    let json = letter::cancelled(slot.id, reason.as_deref());
                    self.post(Letter { json, slot: None, teller: Some(teller), in_order: true });
                } else {
                    slot.leave_order(order);
                }
                receipt
            }
        }
    }

    /// Nobody waits for a request any more: it is cancelled unless it was answered, and its answer is ignored.
    pub(super) fn abandon(&self, slot: &Arc<Slot>) {
        let _unwatched = self.cancel(slot, None);
        self.lock().open.remove(&slot.id);
        slot.abandon();
    }

    /// Forgets a request that gets no answer.
    pub(super) fn lose(&self, slot: &Slot, lost: Lost) {
        self.lock().open.remove(&slot.id);
        slot.lose(lost);
    }

    /// Takes nothing more to send but cancels of what is open, which are ordered here. What is queued is still sent.
    pub(super) fn close(&self) -> Vec<Receipt> {
        let open: Vec<Arc<Slot>> = {
            let mut state = self.lock();
            state.closing = true;
            state.open.values().cloned().collect()
        };
        let receipts = open.iter().map(|slot| self.cancel(slot, None)).collect();
        self.mail.notify_one();
        receipts
    }

    /// The connection has ended. Whoever waits for something is told; the first reason stays.
    pub(super) fn end(&self, lost: Lost) {
        let (open, letters, asks, heard) = {
            let mut state = self.lock();
            let Some(heard) = state.heard.take() else { return };
            self.over.send_replace(Some(lost.clone()));
            state.closing = true;
            state.outbox_bytes = 0;
            let open = std::mem::take(&mut state.open);
            let letters = std::mem::take(&mut state.outbox);
            (open, letters, std::mem::take(&mut state.asks), heard)
        };
        for ask in asks.into_values() {
            ask.cancel();
        }
        drop((letters, heard));
        for slot in open.into_values() {
            slot.lose(lost.clone());
        }
        self.mail.notify_one();
        self.stop.cancel();
    }

    /// Why the connection has ended, if it has.
    pub(super) fn lost(&self) -> Option<Lost> {
        self.over.borrow().clone()
    }

    /// Waits until the connection has ended. Cancel safe.
    pub(super) async fn closed(&self) -> Lost {
        let mut over = self.over.subscribe();
        let lost = over.wait_for(Option::is_some).await;
        lost.ok().and_then(|lost| lost.clone()).unwrap_or(Lost::Closed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the server says.
impl Connection {
    /// Takes one message of the server. `via` is the request on whose response it came, where there is one.
    ///
    /// # Errors
    ///
    /// What it is instead of a message.
    pub(super) fn take(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<Slot>>) -> Result<(), String> {
        match message::parse(bytes).map_err(|malformed| malformed.error.message)? {
            Message::Response(response) => self.answered(&response, via),
            Message::Notification { method, params } => self.noted(&method, params, via),
            Message::Request(request) => self.asked(&request, via),
        }
        Ok(())
    }

    fn answered(&self, response: &Response<'_>, via: Option<&Arc<Slot>>) {
        // An error without an id can only be the one of the request on whose response it came.
        let id = match response.id {
            Some(id) => number(id),
            None => via.map(|slot| slot.id),
        };
        let slot = id.and_then(|id| self.lock().open.remove(&id));
        let Some(slot) = slot else {
            let id = response.id.map_or("null", RawValue::get);
            let id: String = id.chars().take(40).collect();
            tracing::debug!(id, "an MCP server answered what is not, or no longer, in flight");
            return;
        };
        slot.answered(match response.outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(error_of(error)),
        });
    }

    /// An answer to that id was above the limit. False if nothing of ours has that id.
    pub(super) fn answered_too_long(&self, id: Option<&str>) -> bool {
        let id = id.and_then(|id| id.parse().ok());
        let slot = id.and_then(|id| self.slot(id));
        if let Some(slot) = &slot {
            self.lose(slot, Lost::TooLarge(self.options.message));
        }
        slot.is_some()
    }

    fn noted(&self, method: &str, params: Option<&RawValue>, via: Option<&Arc<Slot>>) {
        match method {
            "notifications/progress" => self.progressed(params),
            "notifications/cancelled" => self.withdrawn(params),
            _ => {
                let (method, raw) = (method.to_owned(), params.map(ToOwned::to_owned));
                match via.cloned().or_else(|| self.subscription(params)) {
                    Some(slot) => slot.note(Happened::Noted { method, params: raw }),
                    None => self.hear(Heard::Noted { method, params: raw }),
                }
            }
        }
    }

    fn progressed(&self, params: Option<&RawValue>) {
        let read = || {
            let raw = params?;
            let members = Members::of(raw).ok()?;
            let slot = self.slot(number(members.get("progressToken")?)?)?;
            let float = |name| members.given(name)?.get().parse::<f64>().ok();
            let note = ProgressNote {
                progress: float("progress")?,
                total: float("total"),
                message: members.given("message").and_then(text).map(Into::into),
                raw: raw.to_owned(),
            };
            Some((slot, note))
        };
        match read() {
            Some((slot, note)) => slot.note(Happened::Progress(note)),
            None => tracing::debug!("an MCP server told of progress of what is not, or no longer, in flight"),
        }
    }

    /// The server withdraws its own request; or it ends a subscription, which in 2026-07-28 is all that it may.
    fn withdrawn(&self, params: Option<&RawValue>) {
        let id = || {
            let members = Members::of(params?).ok()?;
            Some(members.get("requestId")?.to_owned())
        };
        let Some(id) = id() else { return };
        if self.spoken.get().is_some_and(|spoken| spoken.revision.is_stateless()) {
            if let Some(slot) = number(&id).and_then(|id| self.slot(id)) {
                self.lose(&slot, Lost::Ended);
            }
            return;
        }
        let ask = Id::of(&id).and_then(|id| self.lock().asks.remove(&id));
        if let Some(ask) = ask {
            ask.cancel();
        }
    }

    fn asked(self: &Arc<Self>, request: &Request<'_>, via: Option<&Arc<Slot>>) {
        if request.method == "ping" {
            return self.reply(request.id, pong(request.id));
        }
        let Some(id) = Id::of(request.id) else { return };
        let withdrawn = CancellationToken::new();
        {
            let mut state = self.lock();
            if state.asks.contains_key(&id) {
                tracing::debug!("an MCP server asked twice under one id; the second was ignored");
                return;
            }
            if state.asks.len() >= ASKS {
                drop(state);
                let why = format!("Too many requests are open at this client (limit {ASKS})");
                let error = RpcError::new(RpcError::INTERNAL_ERROR, why);
                return self.reply(request.id, message::write_error(Some(request.id), &error));
            }
            state.asks.insert(id, withdrawn.clone());
        }
        let ask = Ask::new(
            request.method.clone().into_owned(),
            request.params.map(ToOwned::to_owned),
            request.id.to_owned(),
            withdrawn,
            Arc::clone(self) as Arc<dyn Replies>,
        );
        match via {
            Some(slot) => drop(slot.asked(ask)),
            None => self.hear(Heard::Asked(ask)),
        }
    }

    fn hear(&self, heard: Heard) {
        let sender = self.lock().heard.clone();
        // Dropped outside of the lock: an ask that is dropped is answered.
        if let Some(Err(unheard)) = sender.map(|sender| sender.try_send(heard)) {
            tracing::debug!("what an MCP server said was dropped: {unheard}");
        }
    }

    fn slot(&self, id: u64) -> Option<Arc<Slot>> {
        self.lock().open.get(&id).cloned()
    }

    fn subscription(&self, params: Option<&RawValue>) -> Option<Arc<Slot>> {
        let members = Members::of(params?).ok()?;
        let meta = Members::of(members.given("_meta")?).ok()?;
        self.slot(number(meta.get(SUBSCRIPTION)?)?)
    }
}

impl Replies for Connection {
    fn reply(&self, id: &RawValue, json: String) {
        if let Some(id) = Id::of(id) {
            self.lock().asks.remove(&id);
        }
        self.post(Letter { json, slot: None, teller: None, in_order: false });
    }
}

/// An id of ours: a number in its one spelling.
fn number(raw: &RawValue) -> Option<u64> {
    let id: u64 = raw.get().parse().ok()?;
    (id.to_string() == raw.get()).then_some(id)
}
