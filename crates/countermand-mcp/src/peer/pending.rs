//! One request in flight, for whoever waits for it.

use super::cancel::Receipt;
use super::connection::Connection;
use super::slot::{Happened, Slot};
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// One request in flight.
///
/// Dropped before its answer was there, it cancels the request, as [`Pending::cancel`] does: the server is told in
/// the background, and an answer is ignored.
pub struct Pending {
    pub(super) slot: Arc<Slot>,
    pub(super) connection: Arc<Connection>,
}

impl Pending {
    /// The id that the server knows it by. It is the progress token as well.
    pub fn id(&self) -> &RawValue {
        &self.slot.raw_id
    }

    /// Waits for what happens next. After [`Happened::Answered`] and [`Happened::Lost`] nothing does: then it says
    /// [`Happened::Lost`] at once, again and again.
    ///
    /// Up to 64 notifications wait to be taken (1 MiB of them); then the oldest progress is dropped, and if there is
    /// none the oldest notification. Answers and asks are never dropped. However slow one request's reader is, no
    /// other request waits for it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what has happened stays until it is returned.
    pub async fn next(&mut self) -> Happened {
        self.slot.next().await
    }

    /// Cancels the request, and returns at once.
    ///
    /// - If it was not sent yet, or not as a whole, it never will be.
    /// - Over streams and in an HTTP session the server gets a `notifications/cancelled` with the id that it knows.
    ///   [`Pending::next`] goes on: an answer may still come, or [`Happened::Lost`] when the server ends the
    ///   response without one. In a session the notification goes its own way, so it waits until the request has
    ///   certainly left, 250 ms at most, and is sent a second time if the server is seen to have received the
    ///   request only after the first. Towards a server over HTTP that gave no session the response is closed as
    ///   well, once the notification is through, and nothing more comes.
    /// - Over HTTP of 2026-07-28 the response is closed, which is the cancel, and nothing more comes:
    ///   [`Lost::Cancelled`](super::Lost::Cancelled).
    ///
    /// A second cancel is the first one, unless that has failed. The receipt tells what became of it, and may outlive
    /// this request; it need not be kept.
    pub fn cancel(&mut self, reason: Option<&str>) -> Receipt {
        self.connection.cancel(&self.slot, reason)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.connection.abandon(&self.slot);
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("id", &self.slot.id).finish_non_exhaustive()
    }
}
