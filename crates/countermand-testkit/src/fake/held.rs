//! The handle of a hold: waits for arrivals, and lets them go.

use std::sync::Arc;
use std::time::Duration;

use super::gate::Gate;
use super::server::{PATIENCE, show};
use super::state::State;

/// A gate that is held. Dropping it lets everybody through, for good.
#[derive(Debug)]
#[must_use = "a hold that is dropped holds nothing"]
pub struct HeldGate {
    state: Arc<State>,
    gate: Gate,
    id: u64,
}

impl HeldGate {
    pub(crate) fn new(state: Arc<State>, gate: Gate, id: u64) -> HeldGate {
        HeldGate { state, gate, id }
    }

    /// Waits until somebody has arrived. It need not be there any more.
    ///
    /// # Panics
    /// After 10 s, with the record.
    pub async fn reached(&self) {
        self.reached_n(1).await;
    }

    /// Waits until `n` have arrived since the hold was placed, whether or not they were let through.
    ///
    /// # Panics
    /// After 10 s and 10 ms for each of them, with the record.
    pub async fn reached_n(&self, n: u64) {
        let patience = PATIENCE + Duration::from_millis(n.saturating_mul(10));
        let Some(mut arrivals) = self.state.gates.arrivals(self.id) else { return };
        let all = arrivals.wait_for(|arrived| *arrived >= n);
        if tokio::time::timeout(patience, all).await.is_err() {
            let arrived = self.arrived();
            let (gate, record) = (self.gate, show(&self.state.record.since(0)));
            panic!("{n} did not reach {gate} in {patience:?}, only {arrived}; the record:\n{record}");
        }
    }

    /// How many have arrived.
    pub fn arrived(&self) -> u64 {
        self.state.gates.arrivals(self.id).map_or(0, |arrivals| *arrivals.borrow())
    }

    /// Lets everybody through, for good.
    pub fn release(self) {
        drop(self);
    }

    /// Lets the first that waits through, or the next that arrives.
    pub fn release_one(&self) {
        self.state.gates.release(self.id, Some(1));
    }
}

impl Drop for HeldGate {
    fn drop(&mut self) {
        self.state.gates.release(self.id, None);
    }
}
