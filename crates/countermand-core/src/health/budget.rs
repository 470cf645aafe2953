//! The retry budget: a bucket that first requests and time fill, and that retries empty.
//!
//! It is kept as the time until which all that was taken is paid for. A retry that finds it in the future waits for
//! its own turn, so that many that wait do not all ask again at once.

use super::HealthPolicy;
use crate::time::Timestamp;
use std::time::Duration;

/// For how long an unused budget adds up.
const ADDS_UP: Duration = Duration::from_secs(10);

/// How many retries there may be.
#[derive(Debug, Clone)]
pub struct Budget {
    /// What one retry costs.
    price: Duration,
    /// What a first request earns.
    wage: Duration,
    paid_until: Timestamp,
}

impl Budget {
    /// A full one.
    pub fn new(policy: HealthPolicy) -> Self {
        let price = Duration::from_secs(1) / policy.retries_per_second.max(1);
        Self { price, wage: price * policy.retry_percent / 100, paid_until: Timestamp::default() }
    }

    /// A first request.
    pub fn earn(&mut self) {
        self.paid_until = self.paid_until - self.wage;
    }

    /// A retry: from when on it is sent. One that cannot be put off for so long goes when it must, and takes nothing.
    pub fn spend(&mut self, at_latest: Option<Timestamp>, at: Timestamp) -> Timestamp {
        let paid = self.paid_until.max(at - ADDS_UP) + self.price;
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
        self.paid_until = self.paid_until - self.price;
    }
}
