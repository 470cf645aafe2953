//! How much a log message matters.

use crate::RpcError;
use std::str::FromStr;

/// How much a log message matters: the levels of syslog (RFC 5424), the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For finding faults.
    Debug,
    /// What goes as it should.
    Info,
    /// What goes as it should and is worth knowing.
    Notice,
    /// What may go wrong.
    Warning,
    /// What has gone wrong.
    Error,
    /// What has gone wrong and spreads.
    Critical,
    /// What somebody must look at now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl Level {
    /// All of them, the least first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl FromStr for Level {
    type Err = RpcError;

    fn from_str(word: &str) -> Result<Self, RpcError> {
        Self::ALL.into_iter().find(|level| level.as_str() == word).ok_or_else(|| {
            let levels = Self::ALL.map(Self::as_str).join(", ");
            RpcError::invalid_params(format!("Invalid params: the log level must be one of {levels}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_an_unknown_one_is_refused() {
        assert!(Level::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert!("info".parse::<Level>().is_ok() && "loud".parse::<Level>().is_err());
    }
}
