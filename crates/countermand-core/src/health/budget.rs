//! The retry budget: what first requests have earned lately, and a bucket that time fills.
//!
//! The bucket is kept as the time until which all that was taken from it is paid for. A retry that finds it in the
//! future waits for its own turn, so that many that wait do not all ask again at once.

use super::HealthPolicy;
use crate::time::Timestamp;
use std::time::Duration;

/// For how long what is not used adds up.
const ADDS_UP: Duration = Duration::from_secs(10);

/// What one retry costs, in what first requests earn: a percentage each.
const PRICE: u64 = 100;

/// How many retries there may be.
#[derive(Debug, Clone)]
pub struct Budget {
    /// What a first request earns.
    wage: u64,
    /// What was earned and not spent, in this window and in the one before.
    earned: [u64; 2],
    window: Timestamp,
    /// How long it takes until time has filled in one retry.
    pause: Duration,
    paid_until: Timestamp,
}

impl Budget {
    /// A full one.
    pub fn new(policy: HealthPolicy) -> Self {
        Self {
            wage: u64::from(policy.retry_percent),
            earned: [0; 2],
            window: Timestamp::default(),
            pause: Duration::from_secs(1) / policy.retries_per_second.max(1),
            paid_until: Timestamp::default(),
        }
    }

    /// A first request.
    pub fn earn(&mut self, at: Timestamp) {
        self.turn(at);
        self.earned[0] = self.earned[0].saturating_add(self.wage);
    }

    /// A retry: from when on it is sent. One that cannot be put off for so long goes when it must, and takes nothing.
    pub fn spend(&mut self, at_latest: Option<Timestamp>, at: Timestamp) -> Timestamp {
        self.turn(at);
        let [now, before] = &mut self.earned;
        if *now + *before >= PRICE {
            let old = PRICE.min(*before);
            *before -= old;
            *now -= PRICE - old;
            return at;
        }
        let paid = self.paid_until.max(at - ADDS_UP) + self.pause;
        match at_latest.map(|latest| latest.max(at)) {
            Some(latest) if latest < paid => latest,
            _ => {
                self.paid_until = paid;
                paid.max(at)
            }
        }
    }

    /// A retry that is not sent after all.
    pub fn give_back(&mut self) {
        self.paid_until = self.paid_until - self.pause;
    }

    /// Forgets what was earned too long ago.
    fn turn(&mut self, at: Timestamp) {
        let passed = at.since(self.window);
        if passed < ADDS_UP {
            return;
        }
        self.earned = if passed < ADDS_UP * 2 { [0, self.earned[0]] } else { [0; 2] };
        self.window = at;
    }
}
