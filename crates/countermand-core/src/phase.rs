//! Phases, kinds and outcomes: the words of the ledger.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A word that is none of the ledger's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is no {of}: one of {known}")]
pub struct UnknownWord {
    /// The word that was read.
    pub word: String,
    /// What it should have been.
    pub of: &'static str,
    /// What it could have been.
    pub known: String,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $of:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in the ledger, on the command line and in metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|w| w.as_str() == word).ok_or_else(|| UnknownWord {
                    word: word.to_owned(),
                    of: $of,
                    known: Self::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

words! {
    /// Where an operation is in its life; named by what is awaited.
    Phase, "phase" {
        /// Durable; nothing has been sent.
        Intent = "intent",
        /// The create may be on the wire.
        Dispatched = "dispatched",
        /// Was it created? Nobody knows yet.
        Unknown = "unknown",
        /// The upstream's id is durable, and the upstream works.
        Running = "running",
        /// A cancel is owed to the upstream.
        CancelRequested = "cancel_requested",
        /// The cancel was accepted; its outcome is not confirmed.
        Cancelling = "cancelling",
        /// It cannot be stopped; it is bounded and watched.
        Draining = "draining",
        /// It has ended upstream; a confirmation, the delivery or the undo may be owed.
        Ended = "ended",
        /// Its effects are being undone.
        Compensating = "compensating",
        /// Something is owed, and is failing or late. Visible, retried.
        Orphaned = "orphaned",
        /// Settled: it finished.
        Completed = "completed",
        /// Settled: it failed.
        Failed = "failed",
        /// Settled: it was stopped, and a status read said so.
        Cancelled = "cancelled",
        /// Settled: nothing ever existed upstream.
        NeverCreated = "never_created",
        /// Settled: its effects were undone.
        Compensated = "compensated",
        /// Settled without proof: the cancel was delivered where nothing can verify it.
        Unverified = "unverified",
        /// Settled by an operator's word.
        Resolved = "resolved",
        /// We gave up after 24 h: an operator must retry or resolve.
        NeedsIntervention = "needs_intervention",
        /// The undo was refused or took longer than 24 h: an operator must retry or resolve.
        CompensationFailed = "compensation_failed",
    }
}

impl Phase {
    /// Whether nothing of the operation can be alive upstream, no create is on its way and
    /// nothing is owed (or, for `unverified` and `resolved`, that is all that will be known).
    pub const fn is_settled(self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::Failed
                | Self::Cancelled
                | Self::NeverCreated
                | Self::Compensated
                | Self::Unverified
                | Self::Resolved
        )
    }

    /// Whether only an operator leads on from here.
    pub const fn awaits_operator(self) -> bool {
        matches!(self, Self::NeedsIntervention | Self::CompensationFailed)
    }

    /// Whether the upstream may still run it: every phase before `ended`.
    pub const fn is_before_end(self) -> bool {
        matches!(
            self,
            Self::Intent
                | Self::Dispatched
                | Self::Unknown
                | Self::Running
                | Self::CancelRequested
                | Self::Cancelling
                | Self::Draining
        )
    }
}

words! {
    /// What kind of effect an operation is.
    Kind, "kind" {
        /// A remote job: created, polled, cancelled by its id.
        Job = "job",
        /// One HTTP request with an effect (`effect: once`).
        Http = "http",
        /// A statement or transaction of a database.
        Sql = "sql",
        /// A process and its group.
        Command = "command",
        /// Several effects in a row.
        Steps = "steps",
        /// A call to an existing MCP server.
        Mcp = "mcp",
    }
}

impl Kind {
    /// Whether the upstream's word that it has ended is final. A kernel or a database does not
    /// take it back; an HTTP API may, so its `cancelled` is read once more.
    pub const fn word_is_final(self) -> bool {
        !matches!(self, Self::Job | Self::Http)
    }
}

words! {
    /// How it ended upstream.
    Outcome, "outcome" {
        /// It did its work.
        Completed = "completed",
        /// It failed by itself.
        Failed = "failed",
        /// It was stopped.
        Cancelled = "cancelled",
        /// Its id is no longer known upstream, for at least ten seconds.
        Gone = "gone",
    }
}

words! {
    /// What we want of an operation. `cancel` never goes back to `run`.
    Desired, "desired" {
        /// Let it run.
        Run = "run",
        /// Stop it.
        Cancel = "cancel",
    }
}

words! {
    /// An operator's word on an operation that we could not settle.
    Verdict, "verdict" {
        /// It does not run any more.
        Stopped = "stopped",
        /// It never existed.
        NeverCreated = "never-created",
        /// It may run; nobody minds.
        Ignored = "ignored",
    }
}

words! {
    /// What somebody is told of an operation.
    News, "notice" {
        /// What is owed to it is late or failing.
        Orphaned = "orphaned",
        /// We gave up: an operator must retry or resolve.
        NeedsIntervention = "needs_intervention",
        /// It could not be undone: an operator must retry or resolve.
        CompensationFailed = "compensation_failed",
        /// It is settled, after somebody was told that it was not.
        Settled = "settled",
    }
}
