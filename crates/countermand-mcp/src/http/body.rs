//! The response to one call: what the call has to say, until it ends or the client has gone.
//!
//! A response that stands alone has one reader, and what was read is forgotten. A session's is kept: its events have
//! ids, its reader may go and another one may go on from any of them.

use super::guard::Shape;
use crate::calls::Attendance;
use crate::progress::Sink;
use crate::result::Encoded;
use crate::{CallHandle, Delivery, Presence};
use bytes::Bytes;
use countermand_core::Cause;
use http_body::Frame;
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// Notifications that wait for a client to read, or to come back. Beyond, the oldest makes room.
const NOTIFICATIONS: usize = 32;
/// Questions and other messages that wait likewise.
const MESSAGES: usize = 256;

/// The client has gone: there is nobody to answer, and the connection or stream is broken off.
#[derive(Debug, thiserror::Error)]
#[error("the client has gone")]
pub(super) struct Gone;

/// Where a session keeps a response.
pub(super) struct Keeping {
    /// The number of the response in its session, the first part of its events' ids.
    pub(super) stream: u64,
    /// Whether a stream begins with an event that has nothing but an id, so that a client can resume before
    /// anything was said.
    pub(super) primed: bool,
    /// Whether its client is there; one that stands alone cannot come back, so nobody follows it.
    pub(super) attendance: Attendance,
}

/// The call's end of a response. Holds no more than a few notifications and one answer, whatever the client reads.
pub(super) struct Outlet {
    keeping: Option<Keeping>,
    state: Mutex<State>,
    /// Told when a reader has gone.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// In the order of their numbers.
    events: VecDeque<Event>,
    /// How many events there have been; the first one is number 1.
    count: u64,
    /// The last event that was read.
    read_to: u64,
    end: Option<End>,
    reader: Option<Reader>,
    readers: u64,
}

struct Event {
    number: u64,
    json: Arc<str>,
    /// Whether newer ones make up for it.
    passing: bool,
}

/// Who reads the response now.
struct Reader {
    generation: u64,
    keep_alive: bool,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The last event is the answer; its code, if it is an error.
    Answered(Option<i64>),
    /// Nothing more is said.
    Closed,
    /// The client has gone, and its connection is broken off.
    Aborted,
}

impl State {
    fn is_read_by(&self, generation: u64) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.generation == generation)
    }

    fn push(&mut self, json: Arc<str>) {
        self.put(json, false);
    }

    fn put(&mut self, json: Arc<str>, passing: bool) {
        self.count += 1;
        self.events.push_back(Event { number: self.count, json, passing });
    }

    /// Makes room for one more event of its kind: the oldest one goes.
    fn make_room(&mut self, passing: bool, most: usize) {
        if self.events.iter().filter(|event| event.passing == passing).count() >= most {
            let oldest = self.events.iter().position(|event| event.passing == passing);
            oldest.map(|oldest| self.events.remove(oldest));
        }
    }

    fn next_after(&self, position: u64) -> Option<&Event> {
        self.events.get(self.events.partition_point(|event| event.number <= position))
    }
}

impl Outlet {
    /// A response that stands alone, and its only reader.
    pub(super) fn new(shape: Shape) -> (Arc<Self>, CallBody) {
        Self::made(shape, None)
    }

    /// A response that its session keeps, and its first reader.
    pub(super) fn kept(shape: Shape, keeping: Keeping) -> (Arc<Self>, CallBody) {
        Self::made(shape, Some(keeping))
    }

    fn made(shape: Shape, keeping: Option<Keeping>) -> (Arc<Self>, CallBody) {
        let outlet = Arc::new(Self { keeping, state: Mutex::default(), changed: Notify::new() });
        let body = outlet.read_after(0, shape);
        (outlet, body)
    }

    /// A new reader of the events after the number `position`. Whoever read until now reads no more.
    pub(super) fn read_after(self: &Arc<Self>, position: u64, shape: Shape) -> CallBody {
        let mut state = self.lock();
        state.readers += 1;
        let generation = state.readers;
        let before = state.reader.replace(Reader { generation, keep_alive: true, waker: None });
        self.client(Attendance::returned);
        drop(state);
        if let Some(waker) = before.and_then(|reader| reader.waker) {
            waker.wake();
        }
        self.changed.notify_waiters();
        CallBody { outlet: Arc::clone(self), shape, generation, position, prime: false }
    }

    /// Whether anything is left to be read after that number, or may still come.
    pub(super) fn has_more_after(&self, position: u64) -> bool {
        let state = self.lock();
        state.end.is_none() || state.next_after(position).is_some()
    }

    /// The number of the last event that anybody has read.
    pub(super) fn read_to(&self) -> u64 {
        self.lock().read_to
    }

    /// Whether somebody reads it now.
    pub(super) fn is_read(&self) -> bool {
        self.lock().reader.is_some()
    }

    /// Bytes that are kept.
    pub(super) fn size(&self) -> usize {
        self.lock().events.iter().map(|event| event.json.len()).sum()
    }

    /// Follows the client of a kept response.
    pub(super) fn presence(&self) -> Presence {
        self.keeping.as_ref().map_or_else(Presence::constant, |keeping| keeping.attendance.presence())
    }

    fn client(&self, moved: fn(&Attendance)) {
        if let Some(keeping) = &self.keeping {
            moved(&keeping.attendance);
        }
    }

    /// The client has shown that it is there, though it may not read this response.
    pub(super) fn sign_of_life(&self) {
        let state = self.lock();
        if state.end.is_none() {
            self.client(Attendance::returned);
        }
    }

    /// The client has shown nothing for long: it is there only if it reads.
    pub(super) fn silence(&self) {
        let state = self.lock();
        if state.end.is_none() && state.reader.is_none() {
            self.client(Attendance::left);
        }
    }

    /// That reader has gone, if it still was one.
    pub(super) fn leave(&self, generation: u64) {
        let mut state = self.lock();
        if !state.is_read_by(generation) {
            return;
        }
        state.reader = None;
        if state.end.is_none() {
            self.client(Attendance::left);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until that reader has gone: its connection has broken, its stream was reset, or another one reads.
    pub(super) async fn left(&self, generation: u64) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.lock().is_read_by(generation) {
                return;
            }
            changed.await;
        }
    }

    /// Hands over the answer, unless the client has ended the call. `first` runs before anybody can see it.
    pub(super) fn answer(&self, call: &CallHandle, answer: Encoded, first: impl FnOnce()) -> Delivery {
        let mut state = self.lock();
        if self.keeping.is_none() && state.reader.is_none() {
            call.cancel(Cause::ClientDisconnected, None);
        }
        let settled = call.settle(|| {
            first();
            state.push(answer.json.into());
            state.end = Some(End::Answered(answer.error));
        });
        let delivery = match settled {
            Ok(()) => Delivery::Sent,
            Err(cause) => {
                self.end_silently(&mut state);
                Delivery::Suppressed(cause)
            }
        };
        wake(state);
        delivery
    }

    /// Ends the response without an answer: nothing more is sent, and what has not been read is forgotten.
    pub(super) fn abort(&self) {
        let mut state = self.lock();
        self.end_silently(&mut state);
        wake(state);
    }

    /// A session's stream comes to its end; any other is broken off.
    fn end_silently(&self, state: &mut State) {
        if state.end.is_none() {
            state.events.clear();
            state.end = Some(if self.keeping.is_some() { End::Closed } else { End::Aborted });
        }
    }

    /// Sends a sign of life, unless one is still waiting to be read.
    pub(super) fn keep_alive(&self) {
        let mut state = self.lock();
        if let Some(reader) = &mut state.reader {
            reader.keep_alive = true;
        }
        wake(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One event as it goes out. The message is one line, as `data` wants it.
    fn framed(&self, event: &Event, shape: Shape) -> Bytes {
        match (shape, &self.keeping) {
            (Shape::Json, _) => Bytes::copy_from_slice(event.json.as_bytes()),
            (Shape::Events, None) => Bytes::from(format!("event: message\ndata: {}\n\n", event.json)),
            (Shape::Events, Some(Keeping { stream, .. })) => Bytes::from(format!(
                "event: message\nid: {stream}-{}\ndata: {}\n\n",
                event.number, event.json
            )),
        }
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.reader.as_mut().and_then(|reader| reader.waker.take());
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Sink for Outlet {
    fn offer(&self, call: &CallHandle, json: &str) -> bool {
        let mut state = self.lock();
        let heard = self.keeping.is_some() || state.reader.is_some();
        let sent = heard
            && call.while_open(|| {
                state.make_room(true, NOTIFICATIONS);
                state.put(json.into(), true);
                true
            });
        wake(state);
        sent
    }

    fn insist(&self, call: Option<&CallHandle>, json: &str) -> bool {
        let mut state = self.lock();
        let heard = state.end.is_none() && (self.keeping.is_some() || state.reader.is_some());
        let mut put = || {
            state.make_room(false, MESSAGES);
            state.push(json.into());
            true
        };
        let sent = heard
            && match call {
                Some(call) => call.while_open(put),
                None => put(),
            };
        wake(state);
        sent
    }
}

/// The client's end of a response to a call. Dropping it tells the call that this reader has gone.
pub(super) struct CallBody {
    outlet: Arc<Outlet>,
    shape: Shape,
    generation: u64,
    /// The number of the last event that was read.
    position: u64,
    prime: bool,
}

/// What a response can still become before its headers are sent.
pub(super) enum Head {
    /// The answer is all there is to say; its code, if it is an error.
    Whole(Option<i64>),
    /// There is more to come, or more than the answer.
    Stream,
    /// Nothing will be said.
    Nothing,
    Gone,
}

impl CallBody {
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Waits until there is something to say.
    pub(super) async fn ready(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.outlet.lock();
            if state.end.is_some() || state.next_after(self.position).is_some() {
                return Poll::Ready(());
            }
            if let Some(reader) = &mut state.reader {
                reader.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Decides what the headers are to say, once.
    pub(super) fn head(&mut self) -> Head {
        let state = self.outlet.lock();
        match state.end {
            Some(End::Answered(error)) if state.events.len() == 1 => Head::Whole(error),
            Some(End::Aborted) => Head::Gone,
            Some(End::Closed) if state.events.is_empty() => Head::Nothing,
            _ => {
                let keeping = self.outlet.keeping.as_ref();
                self.prime = self.shape == Shape::Events && keeping.is_some_and(|it| it.primed);
                Head::Stream
            }
        }
    }

    /// What is left to be read, in that shape, where the head is [`Head::Whole`].
    pub(super) fn whole(self, shape: Shape) -> Option<Bytes> {
        let state = self.outlet.lock();
        state.next_after(self.position).map(|event| self.outlet.framed(event, shape))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Gone>>> {
        let outlet = &self.outlet;
        if std::mem::take(&mut self.prime) {
            let stream = outlet.keeping.as_ref().map_or(0, |keeping| keeping.stream);
            return Poll::Ready(Some(Ok(Bytes::from(format!("id: {stream}-0\ndata: \n\n")))));
        }
        let mut state = outlet.lock();
        if !state.is_read_by(self.generation) {
            return Poll::Ready(None);
        }
        if let Some(event) = state.next_after(self.position) {
            self.position = event.number;
            let bytes = outlet.framed(event, self.shape);
            state.read_to = state.read_to.max(self.position);
            if outlet.keeping.is_none() {
                state.events.retain(|event| event.number > self.position);
            }
            return Poll::Ready(Some(Ok(bytes)));
        }
        let end = state.end;
        let Some(reader) = &mut state.reader else { return Poll::Ready(None) };
        match end {
            Some(End::Aborted) => Poll::Ready(Some(Err(Gone))),
            Some(End::Answered(_) | End::Closed) => Poll::Ready(None),
            None if std::mem::take(&mut reader.keep_alive) => {
                let sign = if self.shape == Shape::Events { ":\n\n" } else { " " };
                Poll::Ready(Some(Ok(Bytes::from_static(sign.as_bytes()))))
            }
            None => {
                reader.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_at_its_end(&self) -> bool {
        let state = self.outlet.lock();
        let over = matches!(state.end, Some(End::Answered(_) | End::Closed));
        !state.is_read_by(self.generation)
            || (over && !self.prime && state.next_after(self.position).is_none())
    }
}

impl Drop for CallBody {
    fn drop(&mut self) {
        self.outlet.leave(self.generation);
    }
}

/// The body of any response.
pub(super) enum Body {
    Whole(Option<Bytes>),
    Call(CallBody),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Gone;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Gone>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Call(body) => body.poll(context).map(|next| next.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Call(body) => body.is_at_its_end(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Self::Call(_) => http_body::SizeHint::default(),
        }
    }
}
