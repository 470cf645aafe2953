//! What one connection to a server knows, whatever carries it: the requests in flight by their ids, the server's own
//! requests, and what waits to be sent.

use super::ask::{Ask, Replies};
use super::cancel::{Order, Ordered, Receipt, Teller};
use super::letter;
use super::slot::Slot;
use super::words::{Introduction, Lost, Outgoing, PeerOptions};
use crate::Revision;
use crate::message::Id;
use serde_json::value::RawValue;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What belongs to no request of ours and waits to be taken.
const HEARD: usize = 256;

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

/// Requests of the server that may be open at a time.
pub(super) const ASKS: usize = 256;

/// Why a request of the server is not taken up.
pub(super) enum NoAsk {
    /// One with its id is open.
    Twice,
    /// So many are open.
    TooMany,
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
    /// Held while a cancel is ordered and posted, so that the end of the mail never comes between. Taken before `state`.
    ordering: Mutex<()>,
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
    /// Nothing is taken any more but cancels.
    closing: bool,
    /// These are there, too: nothing more will come.
    complete: bool,
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
            complete: false,
            heard: Some(sender),
        };
        let connection = Self {
            options,
            introduction,
            spoken: OnceLock::new(),
            in_line,
            state: Mutex::new(state),
            ordering: Mutex::default(),
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
                if state.complete {
                    return None;
                }
            }
            self.mail.notified().await;
        }
    }

    /// The request of that id that is in flight.
    pub(super) fn slot(&self, id: u64) -> Option<Arc<Slot>> {
        self.lock().open.get(&id).cloned()
    }

    /// The same, and it is in flight no more.
    pub(super) fn take_slot(&self, id: u64) -> Option<Arc<Slot>> {
        self.lock().open.remove(&id)
    }

    /// Takes up a request of the server. Trips when it is withdrawn.
    pub(super) fn open_ask(&self, id: Id) -> Result<CancellationToken, NoAsk> {
        let asks = &mut self.lock().asks;
        match asks.len() {
            _ if asks.contains_key(&id) => Err(NoAsk::Twice),
            ASKS.. => Err(NoAsk::TooMany),
            _ => Ok(asks.entry(id).or_default().clone()),
        }
    }

    /// The server has withdrawn its request.
    pub(super) fn withdraw_ask(&self, id: &Id) {
        let ask = self.lock().asks.remove(id);
        if let Some(ask) = ask {
            ask.cancel();
        }
    }

    /// Passes on what belongs to no request of ours, if there is room and somebody to hear it.
    pub(super) fn hear(&self, heard: Heard) {
        let sender = self.lock().heard.clone();
        // Dropped outside of the lock: an ask that is dropped is answered.
        if let Some(Err(unheard)) = sender.map(|sender| sender.try_send(heard)) {
            tracing::debug!("what an MCP server said was dropped: {unheard}");
        }
    }

    /// Cancels a request, once.
    pub(super) fn cancel(&self, slot: &Arc<Slot>, reason: Option<&str>) -> Receipt {
        let _whole = self.ordering.lock().unwrap_or_else(PoisonError::into_inner);
        self.order(slot, reason)
    }

    fn order(&self, slot: &Arc<Slot>, reason: Option<&str>) -> Receipt {
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
        let _whole = self.ordering.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Vec<Arc<Slot>> = {
            let mut state = self.lock();
            state.closing = true;
            state.open.values().cloned().collect()
        };
        let receipts = open.iter().map(|slot| self.order(slot, None)).collect();
        self.lock().complete = true;
        self.mail.notify_one();
        receipts
    }

    /// The connection has ended. Whoever waits for something is told; the first reason stays.
    pub(super) fn end(&self, lost: Lost) {
        let (open, letters, asks, heard) = {
            let mut state = self.lock();
            let Some(heard) = state.heard.take() else { return };
            self.over.send_replace(Some(lost.clone()));
            (state.closing, state.complete) = (true, true);
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

impl Replies for Connection {
    fn reply(&self, id: &RawValue, json: String) {
        if let Some(id) = Id::of(id) {
            self.lock().asks.remove(&id);
        }
        self.post(Letter { json, slot: None, teller: None, in_order: false });
    }
}
