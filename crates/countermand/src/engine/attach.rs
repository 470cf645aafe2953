//! Identical calls: one that comes while another's operation still runs joins it, where the tool says so.

use super::{
    Engine, Inner,
    audience::may_join,
    operation::{Joined, Line, Operation, Word},
    start::StartError,
};
use countermand_core::{
    Identity, OperationId, Row,
    ports::{Definition, LedgerError, Query, Upstream},
};
use std::sync::Arc;
use tokio::sync::{OwnedMutexGuard, oneshot};

/// The right to look for an identical operation and to start one where there is none. The next identical call
/// waits for it, and then finds what was started.
struct Reservation {
    inner: Arc<Inner>,
    identity: Identity,
    held: Option<OwnedMutexGuard<()>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        self.held = None;
        // Nobody else waits: waiters hold it too, and come to it under this lock.
        if state.reserved.get(&self.identity).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            state.reserved.remove(&self.identity);
        }
    }
}

impl Engine {
    /// Joins the operation that an identical call (same principal, tool, definition and arguments) has started and that
    /// still runs, or starts this one as [`start`](Self::start) does. What is being cancelled is not joined, nor what cannot be stopped and is
    /// marked or undone. Of identical calls at the same moment one starts, and the others join it.
    ///
    /// # Errors
    /// As [`start`](Self::start); also where the ledger cannot be asked.
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    pub async fn start_or_attach(
        &self,
        row: Row,
        definition: &Definition,
        upstream: Option<Arc<dyn Upstream>>,
    ) -> Result<Operation, StartError> {
        let performer = self.performer_of(definition, upstream).await?;
        let engine = self.clone();
        self.supervised(async move {
            let _reservation = engine.reserve(row.identity()).await;
            match engine.join_identical(row.identity()).await? {
                Some(operation) => Ok(operation),
                None => engine.record(row, performer).await,
            }
        })
        .await
    }

    async fn reserve(&self, identity: Identity) -> Reservation {
        let lock = self.inner.lock().reserved.entry(identity.clone()).or_default().clone();
        let held = Some(lock.lock_owned().await);
        Reservation { inner: self.inner.clone(), identity, held }
    }

    /// Joins the newest that can be. The ledger knows them all, driven here or not.
    async fn join_identical(&self, identity: Identity) -> Result<Option<Operation>, LedgerError> {
        let mut query = Query { unsettled: true, identity: Some(identity), ..Query::default() };
        loop {
            let page = self.inner.ledger.list(query.clone()).await?;
            for row in page.iter().filter(|row| may_join(row)) {
                if let Some(operation) = self.join(row).await? {
                    return Ok(Some(operation));
                }
            }
            match page.last() {
                Some(last) if page.len() == query.limit => query.after = Some(last.id),
                _ => return Ok(None),
            }
        }
    }

    /// Joins it where its driver agrees: that alone knows what was said to it since the row was read.
    async fn join(&self, row: &Row) -> Result<Option<Operation>, LedgerError> {
        let (reply, joined) = oneshot::channel();
        let Some(line) = self.ask_to_join(row.id, reply).await? else { return Ok(None) };
        let joined = joined.await.ok();
        Ok(joined.map(|joined| Operation::attached(line, joined, self.inner.tracker.clone())))
    }

    async fn ask_to_join(
        &self,
        id: OperationId,
        reply: oneshot::Sender<Joined>,
    ) -> Result<Option<Line>, LedgerError> {
        let word = match self.inner.say_live(id, Word::Join(reply)) {
            Ok(line) => return Ok(Some(line)),
            Err(word) => word,
        };
        // Nobody drives it: it was detached, handed back, or is an earlier incarnation's. It may have had a driver
        // since it was read, so it is read again.
        match self.inner.ledger.get(id).await {
            Ok(newest) => self.adopt(newest, Some(word)).await,
            Err(LedgerError::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
