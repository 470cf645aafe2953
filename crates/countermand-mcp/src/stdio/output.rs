//! What goes out: a bounded queue of messages, and the task that writes them, many at a time.

use crate::CallHandle;
use crate::progress;
use std::collections::VecDeque;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that wait for a client that does not read. Answers wait for room; progress is dropped.
const QUEUE: usize = 256;

/// Where messages are put; each is one line of JSON, without its end.
pub(super) type Outbox = mpsc::Sender<String>;

/// Room for one message.
pub(super) type Room<'a> = mpsc::Permit<'a, String>;

/// What the reader itself has to say, until there is room for it.
#[derive(Default)]
pub(super) struct Replies {
    waiting: VecDeque<String>,
    bytes: usize,
}

impl Replies {
    pub(super) fn push(&mut self, reply: String) {
        self.bytes += reply.len();
        self.waiting.push_back(reply);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How much waits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn send_one(&mut self, room: Room<'_>) {
        if let Some(reply) = self.waiting.pop_front() {
            self.bytes -= reply.len();
            room.send(reply);
        }
    }

    /// Sends all that waits, unless the client has gone.
    pub(super) async fn send_all(mut self, outbox: Outbox) {
        while !self.is_empty() {
            let Ok(room) = outbox.reserve().await else { return };
            self.send_one(room);
        }
    }
}

/// The queue.
pub(super) fn queue() -> (Outbox, mpsc::Receiver<String>) {
    mpsc::channel(QUEUE)
}

/// Writes what is queued until every [`Outbox`] is gone. A client that has closed its end is `gone`.
pub(super) async fn write_all(
    mut output: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<String>,
    gone: CancellationToken,
) {
    let mut messages = Vec::with_capacity(QUEUE);
    let mut bytes = Vec::new();
    while queue.recv_many(&mut messages, QUEUE).await > 0 {
        bytes.clear();
        for message in messages.drain(..) {
            bytes.extend_from_slice(message.as_bytes());
            bytes.push(b'\n');
        }
        let written = async {
            output.write_all(&bytes).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!("the client does not take what we write: {error}");
            gone.cancel();
            return;
        }
    }
}

/// Takes notifications if there is room, without waiting.
pub(super) struct Sink(pub(super) Outbox);

impl progress::Sink for Sink {
    fn offer(&self, call: &CallHandle, json: &str) -> bool {
        let Ok(room) = self.0.try_reserve() else { return false };
        call.while_open(|| {
            room.send(json.to_owned());
            true
        })
    }

    fn insist(&self, call: Option<&CallHandle>, json: &str) -> bool {
        let Some(call) = call else { return self.0.try_send(json.to_owned()).is_ok() };
        self.offer(call, json)
    }
}
