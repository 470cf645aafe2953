//! A request's body, handed to the connection piece by piece.
//!
//! hyper flushes what it was given before it closes the connection of a request that was dropped. A long body in one
//! piece would so be delivered in full after its call was cancelled; what hyper was not given yet, it cannot send.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// hyper holds up to 16 of them.
const PIECE: usize = 16 << 10;

/// The body of a request. Its length is known, and sent.
pub(super) fn body(text: String) -> reqwest::Body {
    if text.len() <= PIECE { text.into() } else { reqwest::Body::wrap(Upload { rest: text.into() }) }
}

struct Upload {
    rest: Bytes,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
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
