//! One request in flight, between what comes for it, who waits for it, and what carries it.

use super::ask::Ask;
use super::cancel::{Order, Ordered, Receipt, Teller};
use super::words::{CancelFate, Lost};
use crate::RpcError;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Progress and notifications that wait to be taken. Beyond, the oldest progress makes room, then the oldest
/// notification.
const BACKLOG: usize = 64;
/// Bytes of them; the newest one is kept whatever its size.
const BACKLOG_BYTES: usize = 1024 * 1024;

/// What happens to a request.
#[derive(Debug)]
pub enum Happened {
    /// It is making progress.
    Progress(ProgressNote),
    /// The server notifies of something on its behalf.
    Noted {
        /// The notification's method.
        method: String,
        /// Its params as the server wrote them.
        params: Option<Box<RawValue>>,
    },
    /// The server asks its client something on its behalf. Over a pair of streams no ask says which request it
    /// belongs to: there they come as [`Heard`](super::Heard).
    Asked(Ask),
    /// The answer: the last there is, but for [`Lost::Answered`] to whoever asks again.
    Answered(Result<Box<RawValue>, RpcError>),
    /// There will be no answer.
    Lost(Lost),
}

/// One progress notification.
#[derive(Debug, Clone)]
pub struct ProgressNote {
    /// How far it is.
    pub progress: f64,
    /// Of how much, where that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
    /// The whole params, with the token that is ours.
    pub raw: Box<RawValue>,
}

/// How far the request itself has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Waiting,
    HandedOver,
    Revoked,
}

pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) raw_id: Box<RawValue>,
    /// Neither `initialize` nor the probe before it is.
    cancellable: bool,
    state: Mutex<State>,
    /// Something has come, or the end.
    arrived: Notify,
    /// What carries the request has something to see to.
    pub(super) orders: Notify,
}

struct State {
    events: VecDeque<Happened>,
    /// How many of them may make room.
    minor: usize,
    bytes: usize,
    /// What is said after all events; set once nothing more can come.
    over: Option<Lost>,
    course: Course,
    receipt: Option<Receipt>,
    order: Option<Order>,
    abandoned: bool,
}

impl Slot {
    pub(super) fn new(id: u64, cancellable: bool) -> Arc<Self> {
        let state = State {
            events: VecDeque::new(),
            minor: 0,
            bytes: 0,
            over: None,
            course: Course::Waiting,
            receipt: None,
            order: None,
            abandoned: false,
        };
        Arc::new(Self {
            id,
            raw_id: raw_id(id),
            cancellable,
            state: Mutex::new(state),
            arrived: Notify::new(),
            orders: Notify::new(),
        })
    }

    /// The next thing that has happened. Cancel safe.
    pub(super) async fn next(&self) -> Happened {
        loop {
            if let Some(happened) = self.take() {
                return happened;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Happened> {
        let mut state = self.lock();
        match state.events.pop_front() {
            Some(happened) => {
                if let Some(size) = minor(&happened) {
                    state.minor -= 1;
                    state.bytes -= size;
                }
                Some(happened)
            }
            None => state.over.clone().map(Happened::Lost),
        }
    }

    /// Takes progress or a notification in. If nobody takes them out, older ones are dropped.
    pub(super) fn note(&self, happened: Happened) {
        let Some(size) = minor(&happened) else { return };
        let mut state = self.lock();
        if state.over.is_some() || state.abandoned {
            return;
        }
        while state.minor > 0 && (state.minor >= BACKLOG || state.bytes + size > BACKLOG_BYTES) {
            let oldest = |wanted: fn(&Happened) -> bool| state.events.iter().position(wanted);
            let progress = oldest(|happened| matches!(happened, Happened::Progress(_)));
            let Some(nth) = progress.or_else(|| oldest(|happened| minor(happened).is_some())) else { break };
            let dropped = state.events.remove(nth);
            state.minor -= 1;
            state.bytes -= dropped.as_ref().and_then(minor).unwrap_or_default();
        }
        state.minor += 1;
        state.bytes += size;
        state.events.push_back(happened);
        drop(state);
        self.arrived.notify_one();
    }

    /// Takes a question of the server in; gives it back where nobody will hear it.
    pub(super) fn asked(&self, ask: Ask) -> Option<Ask> {
        let mut state = self.lock();
        if state.over.is_some() || state.abandoned {
            return Some(ask);
        }
        state.events.push_back(Happened::Asked(ask));
        drop(state);
        self.arrived.notify_one();
        None
    }

    pub(super) fn answered(&self, answer: Result<Box<RawValue>, RpcError>) {
        self.finish(Lost::Answered, Some(answer));
    }

    /// No answer will come. One that was not handed over has not been sent.
    pub(super) fn lose(&self, lost: Lost) {
        let unsent = self.lock().course == Course::Waiting;
        self.finish(
            match lost {
                // A status is said to have been, however much of the request was there.
                Lost::NotSent(_) | Lost::Cancelled | Lost::Refused { .. } => lost,
                lost if unsent => Lost::NotSent(lost.to_string()),
                lost => lost,
            },
            None,
        );
    }

    fn finish(&self, over: Lost, answer: Option<Result<Box<RawValue>, RpcError>>) {
        let mut state = self.lock();
        if state.over.is_some() {
            return;
        }
        state.over = Some(over);
        if state.course == Course::Waiting {
            state.course = Course::Revoked;
        }
        if !state.abandoned {
            state.events.extend(answer.map(Happened::Answered));
        }
        drop(state);
        self.arrived.notify_one();
        self.orders.notify_one();
    }

    /// Whether nothing more can come.
    pub(super) fn is_over(&self) -> bool {
        self.lock().over.is_some()
    }

    pub(super) fn is_answered(&self) -> bool {
        self.lock().over == Some(Lost::Answered)
    }

    /// Nobody waits for it any more.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        let unread = std::mem::take(&mut state.events);
        drop(state);
        // Asks among them are answered as they are dropped.
        drop(unread);
        self.orders.notify_one();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    /// The request, or its last piece, is about to be sent. False if it must not be.
    pub(super) fn hand_over(&self) -> bool {
        let mut state = self.lock();
        if state.course == Course::Waiting {
            state.course = Course::HandedOver;
        }
        state.course == Course::HandedOver
    }

    pub(super) fn is_handed_over(&self) -> bool {
        self.lock().course == Course::HandedOver
    }

    /// Whether a cancel is on its way, or there.
    pub(super) fn is_cancelled(&self) -> bool {
        self.lock().receipt.is_some()
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.lock().course == Course::Revoked
    }

    /// Decides what a cancel comes to. Of several, one is delivered.
    pub(super) fn order(&self, reason: Option<&str>) -> Ordered {
        let mut state = self.lock();
        if let Some(receipt) = state.receipt.as_ref().filter(|receipt| !receipt.is_worth_repeating()) {
            return Ordered::Known(receipt.clone());
        }
        if state.over.is_some() || !self.cancellable {
            return Ordered::Known(Receipt::known(CancelFate::Needless));
        }
        if state.course == Course::Waiting {
            state.course = Course::Revoked;
            let receipt = Receipt::known(CancelFate::NeverSent);
            state.receipt = Some(receipt.clone());
            return Ordered::Revoked(receipt);
        }
        let (teller, receipt) = Teller::new();
        state.receipt = Some(receipt.clone());
        Ordered::Deliver(receipt, Order { reason: reason.map(ToOwned::to_owned), teller })
    }

    /// Leaves the delivery to what carries the request.
    pub(super) fn leave_order(&self, order: Order) {
        self.lock().order = Some(order);
        self.orders.notify_one();
    }

    pub(super) fn take_order(&self) -> Option<Order> {
        self.lock().order.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn raw_id(id: u64) -> Box<RawValue> {
    // Digits are JSON, so there is nothing to fall back to.
    RawValue::from_string(id.to_string()).unwrap_or_default()
}

/// The bytes of what may make room; `None` for what must not.
fn minor(happened: &Happened) -> Option<usize> {
    match happened {
        Happened::Progress(note) => Some(note.raw.get().len()),
        Happened::Noted { method, params } => {
            Some(method.len() + params.as_ref().map_or(0, |params| params.get().len()))
        }
        Happened::Asked(_) | Happened::Answered(_) | Happened::Lost(_) => None,
    }
}
