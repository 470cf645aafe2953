//! The clock of a running process.

use countermand_core::{Dice, Now, Timestamp, ports::Clock};
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// Wall-clock time that never goes back while the process lives: anchored once, carried on by the
/// monotonic clock, and moved forward when the wall clock is found ahead (a suspended machine,
/// a corrected clock). Follows tokio's paused time in tests.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    base: AtomicI64,
}

/// How far the wall clock may be ahead before we follow it.
const SLACK: Duration = Duration::from_secs(1);

impl SystemClock {
    /// A clock anchored at the wall clock's time.
    pub fn new() -> Self {
        Self { started: Instant::now(), base: AtomicI64::new(wall()) }
    }

    /// The time now.
    pub fn at(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let carried = self.base.load(Ordering::Relaxed).saturating_add(elapsed);
        let ahead = wall().saturating_sub(carried);
        if ahead > SLACK.as_micros() as i64 {
            self.base.fetch_add(ahead, Ordering::Relaxed);
            return Timestamp::from_micros(carried + ahead);
        }
        Timestamp::from_micros(carried)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now { at: self.at(), dice: Dice(*uuid::Uuid::new_v4().as_bytes()) }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
