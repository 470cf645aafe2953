//! The body of one response: what a call has to say, until it ends or the client has gone.

use super::guard::Shape;
use crate::progress::ProgressSink;
use crate::result::Encoded;
use crate::{CallHandle, Delivery};
use bytes::Bytes;
use countermand_core::Cause;
use http_body::Frame;
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// Progress that waits for a client to read. Beyond, newer progress takes the place of the newest.
const PROGRESS: usize = 16;

/// The client has gone: there is nobody to answer, and the connection or stream is broken off.
#[derive(Debug, thiserror::Error)]
#[error("the client has gone")]
pub(super) struct Gone;

/// The call's end of a response. Holds no more than a few notifications and one answer, whatever the client reads.
pub(super) struct Outlet {
    shape: Shape,
    state: Mutex<State>,
    dropped: Notify,
}

#[derive(Default)]
struct State {
    progress: VecDeque<String>,
    keep_alive: bool,
    end: Option<End>,
    /// Nobody will read any more: the body is gone.
    dropped: bool,
    done: bool,
    waker: Option<Waker>,
}

enum End {
    Answer(Encoded),
    Aborted,
}

impl Outlet {
    pub(super) fn new(shape: Shape) -> (Arc<Self>, CallBody) {
        let outlet = Arc::new(Self { shape, state: Mutex::default(), dropped: Notify::new() });
        (Arc::clone(&outlet), CallBody(outlet))
    }

    /// Hands over the answer, unless the client has ended the call.
    pub(super) fn answer(&self, call: &CallHandle, answer: Encoded) -> Delivery {
        let mut state = self.lock();
        if state.dropped {
            call.cancel(Cause::ClientDisconnected, None);
        }
        let settled = call.settle(|| state.end = Some(End::Answer(answer)));
        let delivery = match settled {
            Ok(()) => Delivery::Sent,
            Err(cause) => {
                state.end = Some(End::Aborted);
                Delivery::Suppressed(cause)
            }
        };
        wake(state);
        delivery
    }

    /// Breaks the response off: nothing more is sent.
    pub(super) fn abort(&self) {
        let mut state = self.lock();
        state.progress.clear();
        state.end = Some(End::Aborted);
        wake(state);
    }

    /// Sends a sign of life, unless one is still waiting to be read.
    pub(super) fn keep_alive(&self) {
        let mut state = self.lock();
        state.keep_alive = true;
        wake(state);
    }

    /// Waits until the body has been dropped: the connection has broken, or the client has reset the stream.
    pub(super) async fn dropped(&self) {
        loop {
            let mut dropped = pin!(self.dropped.notified());
            dropped.as_mut().enable();
            if self.lock().dropped {
                return;
            }
            dropped.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, json: &str) -> Bytes {
        match self.shape {
            Shape::Events => event(json),
            Shape::Json => Bytes::copy_from_slice(json.as_bytes()),
        }
    }
}

/// One server-sent event. The message is one line, as `data` wants it.
pub(super) fn event(json: &str) -> Bytes {
    Bytes::from(format!("event: message\ndata: {json}\n\n"))
}

fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl ProgressSink for Outlet {
    fn offer(&self, call: &CallHandle, json: &str) -> bool {
        let mut state = self.lock();
        let sent = !state.dropped
            && call.while_open(|| {
                state.progress.truncate(PROGRESS - 1);
                state.progress.push_back(json.to_owned());
                true
            });
        wake(state);
        sent
    }
}

/// The client's end of a response to a call. Dropping it tells the call that nobody reads any more.
pub(super) struct CallBody(Arc<Outlet>);

/// What a response can still become before its headers are sent.
pub(super) enum Head {
    /// The answer is all there is to say.
    Whole(Encoded),
    /// There is more to come, or more than the answer.
    Stream,
    Gone,
}

impl CallBody {
    /// Waits until there is something to say.
    pub(super) async fn ready(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.0.lock();
            if state.end.is_some() || !state.progress.is_empty() {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Decides what the headers are to say, once.
    pub(super) fn head(&self) -> Head {
        let mut state = self.0.lock();
        let alone = state.progress.is_empty();
        match state.end.take() {
            Some(End::Answer(answer)) if alone => {
                state.done = true;
                Head::Whole(answer)
            }
            Some(End::Aborted) => Head::Gone,
            end => {
                state.end = end;
                // Something is on the wire at once, so that every part in between passes the headers on.
                state.keep_alive = true;
                Head::Stream
            }
        }
    }
}

impl Drop for CallBody {
    fn drop(&mut self) {
        self.0.lock().dropped = true;
        self.0.dropped.notify_waiters();
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
        let outlet = match self.get_mut() {
            Self::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Call(CallBody(outlet)) => outlet,
        };
        let mut state = outlet.lock();
        if let Some(json) = state.progress.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(outlet.event(&json)))));
        }
        match state.end.take() {
            Some(End::Answer(answer)) => {
                state.done = true;
                Poll::Ready(Some(Ok(Frame::data(outlet.event(&answer.json)))))
            }
            Some(End::Aborted) => {
                state.done = true;
                Poll::Ready(Some(Err(Gone)))
            }
            None if state.done => Poll::Ready(None),
            None if std::mem::take(&mut state.keep_alive) => {
                let sign = if outlet.shape == Shape::Events { ":\n\n" } else { " " };
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(sign.as_bytes())))))
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Call(CallBody(outlet)) => outlet.lock().done,
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
