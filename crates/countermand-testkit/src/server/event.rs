//! What a server tells of itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

/// One line of the record.
#[derive(Debug, Clone)]
pub struct Event {
    /// When the recorder heard of it.
    pub at: Instant,
    /// The process that it is about.
    pub pid: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened, in the past tense.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// A process started.
    Started {
        /// Itself.
        pid: u32,
        /// The server that started it, in a session of its own.
        #[serde(default)]
        of: Option<u32>,
    },
    /// A message arrived.
    Received {
        /// As it was written.
        line: String,
    },
    /// A tool began to work.
    Working {
        /// The tag among its arguments.
        tag: String,
        /// The request's id.
        id: Value,
    },
    /// A tool works no more.
    Worked {
        /// The tag among its arguments.
        tag: String,
        /// The request's id.
        id: Value,
        /// Why.
        how: How,
    },
    /// The server's input ended.
    InputEnded,
    /// The process ended, however it did.
    Ended,
}

/// Why a tool works no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Its time was over, or it was released: it has done all that it had to do.
    Finished,
    /// It was cancelled, and stopped.
    Obeyed,
}

impl Event {
    /// The message that arrived.
    pub fn message(&self) -> Option<Value> {
        match &self.kind {
            EventKind::Received { line } => serde_json::from_str(line).ok(),
            _ => None,
        }
    }

    /// The message that arrived, where it has that method.
    pub fn heard(&self, method: &str) -> Option<Value> {
        self.message().filter(|message| message["method"] == method)
    }

    /// Whether it is the start of the work with that tag.
    pub fn works(&self, on: &str) -> bool {
        matches!(&self.kind, EventKind::Working { tag, .. } if tag == on)
    }

    /// How the work with that tag came to its end.
    pub fn worked(&self, on: &str) -> Option<How> {
        match &self.kind {
            EventKind::Worked { tag, how, .. } if tag == on => Some(*how),
            _ => None,
        }
    }
}
