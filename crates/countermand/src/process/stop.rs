//! How a program is asked to stop, and when asking is over.

use super::StopSignal;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A way to stop: the signal, its grace, then SIGTERM, then SIGKILL to everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stop {
    /// What asks first.
    pub signal: StopSignal,
    /// How long it may take to obey.
    pub grace: Duration,
}

/// How long it may take to obey SIGTERM, where that is not what asked first.
pub(super) const TERM_GRACE: Duration = Duration::from_secs(1);

impl Default for Stop {
    fn default() -> Self {
        Self { signal: StopSignal::Term, grace: Duration::from_secs(5) }
    }
}

impl Stop {
    /// No word of warning.
    pub const NOW: Self = Self { signal: StopSignal::Kill, grace: Duration::ZERO };

    /// For what a program that has exited leaves behind.
    pub(super) const LEFT_BEHIND: Self = Self { signal: StopSignal::Term, grace: TERM_GRACE };

    /// What is sent before SIGKILL, and how long each may take.
    pub(super) fn steps(self) -> Vec<(StopSignal, Duration)> {
        match self.signal {
            StopSignal::Kill => Vec::new(),
            StopSignal::Term => vec![(StopSignal::Term, self.grace)],
            signal => vec![(signal, self.grace), (StopSignal::Term, TERM_GRACE)],
        }
    }

    /// How long it takes until SIGKILL is sent.
    pub fn patience(self) -> Duration {
        self.steps().iter().map(|(_, grace)| *grace).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigterm_follows_what_is_not_sigterm_and_nothing_precedes_sigkill() {
        let stop = |signal| Stop { signal, grace: Duration::from_secs(5) };
        assert_eq!(
            stop(StopSignal::Int).steps(),
            [(StopSignal::Int, Duration::from_secs(5)), (StopSignal::Term, TERM_GRACE)]
        );
        assert_eq!(stop(StopSignal::Term).steps(), [(StopSignal::Term, Duration::from_secs(5))]);
        assert_eq!(stop(StopSignal::Kill).steps(), []);
        assert_eq!(Stop::NOW.patience(), Duration::ZERO);
        assert_eq!(stop(StopSignal::Int).patience(), Duration::from_secs(6));
    }
}
