//! From a call to a driven operation: recorded first, in a task of the engine, so that nothing is half begun.

use super::{Engine, Inner, Performer, audience::Audience, operation::Operation};
use countermand_core::{
    OperationId, Row,
    event::Event,
    ports::{Definition, Entry, LedgerError, Upstream},
};
use std::sync::Arc;

/// Why an operation could not be started. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The ledger could not record it.
    #[error("failed to record the operation, so nothing was sent upstream: {0}")]
    Ledger(#[from] LedgerError),
    /// We are going down.
    #[error("failed to start the operation: the gateway is shutting down; call again elsewhere or later")]
    ShuttingDown,
    /// Its definition cannot be performed here.
    #[error("failed to start the operation: {0}")]
    Definition(String),
}

/// Keeps the reconciler off a row that is being recorded, until it is driven or could not be recorded.
struct Starting {
    inner: Arc<Inner>,
    id: OperationId,
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.inner.lock().starting.remove(&self.id);
    }
}

impl Engine {
    /// Records an operation and starts to drive it. The row is durable when this returns, and
    /// nothing has been sent. `upstream` performs its requests in this process instead of the definition's own
    /// performer: for a create that needs arguments which the row must not keep.
    ///
    /// # Errors
    /// [`StartError`]: nothing was sent, and nothing will be.
    ///
    /// # Cancel safety
    /// If this future is dropped, the row may be recorded and driven all the same; it learns that its client has
    /// left.
    pub async fn start(
        &self,
        row: Row,
        definition: &Definition,
        upstream: Option<Arc<dyn Upstream>>,
    ) -> Result<Operation, StartError> {
        let performer = self.performer_of(definition, upstream).await?;
        self.supervised(self.clone().record(row, performer)).await
    }

    /// What performs a definition whose operations are about to be started, once it is recorded.
    pub(super) async fn performer_of(
        &self,
        definition: &Definition,
        upstream: Option<Arc<dyn Upstream>>,
    ) -> Result<Performer, StartError> {
        if self.inner.lock().shutting_down {
            return Err(StartError::ShuttingDown);
        }
        let mut performer = match self.inner.known(&definition.hash) {
            Some(performer) => performer,
            None => {
                crash_point!(Before, Definition);
                self.inner.ledger.define(definition.clone()).await?;
                crash_point!(After, Definition);
                self.inner.performer(definition).map_err(StartError::Definition)?
            }
        };
        performer.upstream = upstream.unwrap_or(performer.upstream);
        Ok(performer)
    }

    /// Does it in a task of the engine: what was begun is ended, whatever becomes of who waits for it.
    pub(super) async fn supervised<F>(&self, work: F) -> Result<Operation, StartError>
    where
        F: Future<Output = Result<Operation, StartError>> + Send + 'static,
    {
        match self.inner.tracker.spawn(work).await {
            Ok(started) => started,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            // The runtime goes down.
            Err(_) => Err(StartError::ShuttingDown),
        }
    }

    /// Records a row, and spawns its driver.
    pub(super) async fn record(self, row: Row, performer: Performer) -> Result<Operation, StartError> {
        // What was asked for without a row begins with its cancel.
        let (event, note) = match row.cause {
            Some(cause) => {
                let wanted = Event::CancelWanted { cause, reason: row.reason.clone(), note: None };
                (wanted.name(), wanted.note())
            }
            None => ("intended", Some(row.tool.clone())),
        };
        let entry = Entry { at: row.created_at, event: event.to_owned(), phase: row.phase, note };
        let id = row.id;
        self.inner.lock().starting.insert(id, Vec::new());
        let _starting = Starting { inner: self.inner.clone(), id };
        crash_point!(Before, Intent);
        let row = self.inner.ledger.insert(row, entry).await?;
        crash_point!(After, Intent);
        self.inner.begin(row, performer).ok_or(StartError::ShuttingDown)
    }
}

impl Inner {
    /// Spawns the driver of a row that was being started.
    fn begin(self: &Arc<Self>, row: Row, performer: Performer) -> Option<Operation> {
        let id = row.id;
        let started = Arc::new(row.clone());
        let line = self.drive(row, performer, Audience::of_one(), None);
        // In this order somebody who looks finds it in one of the tables.
        let said = self.lock().starting.remove(&id).unwrap_or_default();
        for event in said {
            self.tell_live(id, &event);
        }
        Some(Operation::started(line?, started, self.tracker.clone()))
    }
}
