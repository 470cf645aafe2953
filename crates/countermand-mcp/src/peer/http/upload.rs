//! The body of a request, which knows whether it has been handed over as a whole.
//!
//! A server cannot act on a part of a request. So until its last piece is asked for, a cancel means that the request is
//! never sent: the connection is broken off, or its stream reset, and that is all. hyper asks for pieces once a connection
//! is there and the head is on its way, and flushes what it was given before it closes a connection that was dropped:
//! what it was not given it cannot send.

use crate::peer::slot::Slot;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

const PIECE: usize = 16 * 1024;

/// The request was cancelled before it was sent.
#[derive(Debug, thiserror::Error)]
#[error("it was cancelled before it was sent")]
pub(super) struct Revoked;

pub(super) struct Upload {
    rest: Bytes,
    slot: Option<Arc<Slot>>,
}

impl Upload {
    pub(super) fn new(json: String, slot: Option<Arc<Slot>>) -> Self {
        Self { rest: json.into(), slot }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Revoked;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Revoked>>> {
        let is_last = self.rest.len() <= PIECE;
        if is_last && self.slot.take().is_some_and(|slot| !slot.hand_over()) {
            self.rest.clear();
            return Poll::Ready(Some(Err(Revoked)));
        }
        let length = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(length);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
