//! Gates: the moments in a request's life at which a test can wait for it, and keep it there.
//!
//! Reaching a gate is always an event in the record. A *hold* also stops whoever arrives: the n-th arrival passes once
//! `n` arrivals are allowed, so one hold can let requests through one by one.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::lock;
use super::route::Route;

/// A moment in a request's life, in the order in which requests pass them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Gate {
    /// The connection is accepted, and nothing of it has been looked at.
    Accept,
    /// The request's head is read, its body is not.
    RequestHead,
    /// The body is read, and nothing has taken effect yet.
    Body,
    /// A job exists, and its creator has not been told.
    CreateCommitted,
    /// An order exists, and its creator has not been told.
    OrderCommitted,
    /// A status read of a job, whichever it is.
    Poll,
    /// The n-th status read of a job, counted from one.
    PollN(u32),
    /// A cancel (or a forced one) arrived, and has not taken effect.
    CancelReceived,
    /// A cancel took effect (or was refused), and its sender has not been told.
    CancelResponse,
    /// A look-up arrived, and the list has not been read.
    Find,
    /// A fetch of a result arrived.
    Result,
    /// An answer is ready, and none of its bytes is written.
    ResponseHead,
    /// All of an answer but its last byte is written.
    ResponseLastByte,
}

impl Gate {
    /// Whether a request at `other` is at this gate too: every `PollN` is a `Poll`.
    pub(crate) fn covers(self, other: Gate) -> bool {
        self == other || (self == Gate::Poll && matches!(other, Gate::PollN(_)))
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gate::Accept => "accept",
            Gate::RequestHead => "request_head",
            Gate::Body => "body",
            Gate::CreateCommitted => "create_committed",
            Gate::OrderCommitted => "order_committed",
            Gate::Poll => "poll",
            Gate::PollN(n) => return write!(f, "poll_{n}"),
            Gate::CancelReceived => "cancel_received",
            Gate::CancelResponse => "cancel_response",
            Gate::Find => "find",
            Gate::Result => "result",
            Gate::ResponseHead => "response_head",
            Gate::ResponseLastByte => "response_last_byte",
        })
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Gate, String> {
        const PLAIN: [Gate; 12] = [
            Gate::Accept,
            Gate::RequestHead,
            Gate::Body,
            Gate::CreateCommitted,
            Gate::OrderCommitted,
            Gate::Poll,
            Gate::CancelReceived,
            Gate::CancelResponse,
            Gate::Find,
            Gate::Result,
            Gate::ResponseHead,
            Gate::ResponseLastByte,
        ];
        if let Some(gate) = PLAIN.into_iter().find(|gate| gate.to_string() == text) {
            return Ok(gate);
        }
        let nth = text.strip_prefix("poll_").and_then(|n| n.parse().ok());
        nth.map(Gate::PollN).ok_or_else(|| format!("no gate is called {text:?}"))
    }
}

impl TryFrom<String> for Gate {
    type Error = String;

    fn try_from(text: String) -> Result<Gate, String> {
        text.parse()
    }
}

impl From<Gate> for String {
    fn from(gate: Gate) -> String {
        gate.to_string()
    }
}

/// Which requests a hold or a fault is for. An empty filter is for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Only requests of this route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Only requests with this tag: their own, their job's, or the expected marker that they carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Only requests that carry this text anywhere in what has been read of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}

/// What a filter is held against.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) route: Option<Route>,
    pub(crate) tag: Option<&'a str>,
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Subject<'_> {
    pub(crate) fn carries(&self, text: &str) -> bool {
        contains(self.head, text.as_bytes()) || contains(self.body, text.as_bytes())
    }
}

impl Filter {
    pub(crate) fn matches(&self, subject: Subject<'_>) -> bool {
        self.route.is_none_or(|route| subject.route == Some(route))
            && self.tag.as_deref().is_none_or(|tag| subject.tag == Some(tag))
            && self.marker.as_deref().is_none_or(|marker| subject.carries(marker))
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || haystack.windows(needle.len()).any(|window| window == needle)
}

/// All holds, in the order in which they were placed. A request is stopped by the first that matches.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    holds: Mutex<Vec<Hold>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Hold {
    id: u64,
    gate: Gate,
    filter: Filter,
    /// How many have arrived.
    arrived: watch::Sender<u64>,
    /// Up to which arrival they may pass; `u64::MAX` once the hold is released.
    allowed: watch::Sender<u64>,
}

/// A place in the queue of a hold.
#[derive(Debug)]
pub(crate) struct Held {
    nth: u64,
    allowed: watch::Receiver<u64>,
}

impl Held {
    /// Waits until this arrival may pass. Safe to drop and to call again.
    pub(crate) async fn passed(&mut self) {
        let nth = self.nth;
        // The sender lives in `Gates`; should that go away, nothing is held any more.
        let _ = self.allowed.wait_for(|allowed| *allowed >= nth).await;
    }
}

impl Gates {
    pub(crate) fn hold(&self, gate: Gate, filter: Filter) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let hold = Hold { id, gate, filter, arrived: watch::Sender::new(0), allowed: watch::Sender::new(0) };
        lock(&self.holds).push(hold);
        id
    }

    /// Registers an arrival at `gate`. `None`: nothing holds it.
    ///
    /// `note` is told whether something does, before whoever waits for the arrival can know of it.
    pub(crate) fn arrive(&self, gate: Gate, subject: Subject<'_>, note: impl FnOnce(bool)) -> Option<Held> {
        let holds = lock(&self.holds);
        let hold = holds.iter().find(|hold| {
            hold.gate.covers(gate) && *hold.allowed.borrow() != u64::MAX && hold.filter.matches(subject)
        });
        note(hold.is_some());
        let hold = hold?;
        let allowed = hold.allowed.subscribe();
        let mut nth = 0;
        hold.arrived.send_modify(|arrived| {
            *arrived += 1;
            nth = *arrived;
        });
        Some(Held { nth, allowed })
    }

    /// Whether somebody may want to hold this gate: a cheap way not to split a write in two.
    pub(crate) fn any_at(&self, gate: Gate) -> bool {
        lock(&self.holds).iter().any(|hold| hold.gate == gate && *hold.allowed.borrow() != u64::MAX)
    }

    /// Lets `more` arrivals pass, or with `None` all of them, for good.
    pub(crate) fn release(&self, id: u64, more: Option<u64>) -> bool {
        let holds = lock(&self.holds);
        let Some(hold) = holds.iter().find(|hold| hold.id == id) else { return false };
        hold.allowed.send_modify(|allowed| {
            *allowed = more.map_or(u64::MAX, |more| allowed.saturating_add(more));
        });
        true
    }

    /// Follows the number of arrivals of one hold.
    pub(crate) fn arrivals(&self, id: u64) -> Option<watch::Receiver<u64>> {
        lock(&self.holds).iter().find(|hold| hold.id == id).map(|hold| hold.arrived.subscribe())
    }
}
