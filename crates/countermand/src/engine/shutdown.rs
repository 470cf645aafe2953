//! The one way to end: cancel what is a plain call's, wait, leave the rest to the ledger.

use super::{Engine, Inner};
use countermand_core::{Cause, OperationId, Row, event::Event};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// What a shutdown left to the next start.
#[derive(Debug)]
pub struct Left {
    /// The operations that are not settled, as they were last seen.
    pub rows: Vec<Arc<Row>>,
}

impl Engine {
    /// Ends the engine. Nothing is started any more; every plain call's operation is cancelled at once (cause `shutdown`), a
    /// detached one stays as it is; what has not settled within `grace` is left in the ledger for the next start.
    ///
    /// # Cancel safety
    /// If the future is dropped, the cancels are out all the same, and drivers go on until the
    /// process ends.
    pub async fn shutdown(&self, grace: Duration) -> Left {
        let until = Instant::now() + grace;
        for (id, row) in self.inner.begin_shutdown() {
            if Inner::is_plain(&row) {
                let wish = Event::CancelWanted { cause: Cause::Shutdown, reason: None, note: None };
                self.inner.tell_live(id, &wish);
            }
        }
        while let Some(mut waiting) = self.inner.a_stopping_one() {
            let ended = async { while waiting.changed().await.is_ok() {} };
            if tokio::time::timeout_at(until, ended).await.is_err() {
                break;
            }
        }
        let rows = self.inner.lock().live.values().map(|live| live.view.borrow().row.clone()).collect();
        self.inner.stop.cancel();
        self.inner.tracker.close();
        let _bounded = tokio::time::timeout(Duration::from_secs(1), self.inner.tracker.wait()).await;
        Left { rows }
    }
}

impl Inner {
    fn begin_shutdown(&self) -> Vec<(OperationId, Arc<Row>)> {
        let mut state = self.lock();
        state.shutting_down = true;
        state.live.iter().map(|(id, live)| (*id, live.view.borrow().row.clone())).collect()
    }

    /// Somebody to wait for: an operation that is to stop and has not.
    fn a_stopping_one(&self) -> Option<tokio::sync::watch::Receiver<super::View>> {
        let state = self.lock();
        let stops = |live: &&super::Line| Self::is_plain(&live.view.borrow().row);
        state.live.values().find(stops).map(|live| live.view.clone())
    }
}
