//! What first wanted a cancel.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What first wanted the cancel of a call or an operation.
///
/// It is written once and never changes; whatever wants the same cancel later is history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The client said so: `notifications/cancelled`, or a request of the same meaning.
    ClientCancelled,
    /// The client is gone: end of its input, or the end of its response stream.
    ClientDisconnected,
    /// Its session has ended: DELETE, or idle for too long.
    SessionEnded,
    /// A timeout of the call, or the lifetime of the operation.
    Deadline,
    /// An operator said so.
    Operator,
    /// We are going down.
    Shutdown,
}

impl Cause {
    /// Every cause, in the order in which they are documented.
    pub const ALL: [Self; 6] = [
        Self::ClientCancelled,
        Self::ClientDisconnected,
        Self::SessionEnded,
        Self::Deadline,
        Self::Operator,
        Self::Shutdown,
    ];

    /// The name that the ledger, the command line and the metrics use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientCancelled => "client_cancelled",
            Self::ClientDisconnected => "client_disconnected",
            Self::SessionEnded => "session_ended",
            Self::Deadline => "deadline",
            Self::Operator => "operator",
            Self::Shutdown => "shutdown",
        }
    }

    /// Whether the client itself ended the call. Such a call is sent nothing more;
    /// any other cause is answered at once with an error result.
    pub const fn is_the_clients(self) -> bool {
        matches!(self, Self::ClientCancelled | Self::ClientDisconnected | Self::SessionEnded)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
