//! The revisions of the protocol that are spoken here, and what carries them.

use std::fmt;

/// A revision of MCP. Ordered by date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2025-06-18: sessions opened by `initialize`.
    V2025_06_18,
    /// 2025-11-25: sessions opened by `initialize`.
    V2025_11_25,
    /// 2026-07-28: stateless, every request names its revision in `_meta`.
    V2026_07_28,
}

impl Revision {
    /// Every revision, newest first: the order in which they are offered to a peer.
    pub const ALL: [Self; 3] = [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18];

    /// The newest revision that is opened by `initialize`: what an `initialize` of an unknown one is answered with.
    pub const NEWEST_WITH_INITIALIZE: Self = Self::V2025_11_25;

    /// The date that names the revision on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that date, if it is one of ours.
    pub fn from_date(date: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == date)
    }

    /// Whether every request stands alone; else `initialize` opens a session first.
    pub const fn is_stateless(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What carries a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// Lines on standard input and output, or any pair of byte streams.
    Stdio,
    /// Streamable HTTP.
    Http,
}
