//! The ways in which a request can fail, told apart as far as callers must.

use countermand_core::event::Trouble;
use http::StatusCode;
use std::fmt;

/// Why a request brought no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpFailure {
    /// It could not be filled in: nothing was sent, and nothing would be the next time.
    NotFilledIn(Trouble),
    /// No connection, no name, no TLS, no secret: not one byte of it was written.
    NotSent(Trouble),
    /// It may have been sent, and the answer did not arrive.
    Lost(Trouble),
    /// The head of an answer arrived, and its body did not.
    CutOff(StatusCode, Trouble),
    /// The body is larger than `max_bytes`.
    TooLarge(StatusCode, Trouble),
    /// The answer says that it did not work.
    Status(StatusCode, Trouble),
    /// The answer is a good one, but is not what it should be.
    Unusable(Trouble),
}

impl HttpFailure {
    /// What to tell of it.
    pub fn trouble(&self) -> &Trouble {
        match self {
            Self::NotFilledIn(trouble)
            | Self::NotSent(trouble)
            | Self::Lost(trouble)
            | Self::CutOff(_, trouble)
            | Self::TooLarge(_, trouble)
            | Self::Status(_, trouble)
            | Self::Unusable(trouble) => trouble,
        }
    }

    /// What to tell of it.
    pub fn into_trouble(self) -> Trouble {
        self.trouble().clone()
    }
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.trouble().message)
    }
}

impl std::error::Error for HttpFailure {}

/// Why an upstream cannot be used at all: its definition is not one that can work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to set up the upstream `{upstream}`: {problem}")]
pub struct UpstreamError {
    /// Its name.
    pub upstream: String,
    /// What is wrong, and what to do.
    pub problem: String,
}
