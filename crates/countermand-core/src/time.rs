//! Time and chance, as arguments: nothing in this crate reads a clock or rolls a die.

use crate::ids::Key;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A point in time: microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The point `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero where `earlier` is the later one.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(rhs.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Sixteen random bytes: all the chance that one [`step`](crate::step()) may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dice(pub [u8; 16]);

impl Dice {
    /// A duration between zero and `at_most`: *full jitter*.
    pub fn jitter(self, at_most: Duration) -> Duration {
        let [a, b, c, d, ..] = self.0;
        let share = f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX);
        at_most.mul_f64(share)
    }

    /// A fresh idempotency key.
    pub fn key(self) -> Key {
        Key::from_random(self.0)
    }
}

/// What a decision may know of the outside: the time, and a little chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Now {
    /// The time.
    pub at: Timestamp,
    /// The chance.
    pub dice: Dice,
}
