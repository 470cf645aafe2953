//! Tells somebody what they should know of operations: what the ledger keeps for that, until it was told.

use super::Engine;
use countermand_core::{
    Notice, OperationId, Row, Timestamp,
    notice::{self, Told},
    ports::{BoxFuture, LedgerError},
};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// How often the ledger is looked at without a wake-up.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many are told at once: one that hangs does not hold up the rest.
const AT_ONCE: usize = 8;

/// How many are looked at, to find as many that are not being told already.
const PAGE: usize = 2 * AT_ONCE;

/// Tells somebody one thing of an operation. Told twice it must do no harm: a crash may come between the telling and its
/// record. The error is in words without secrets; it is tried again.
pub type Teller = Arc<dyn Fn(Notice, Row) -> BoxFuture<'static, Result<Heard, String>> + Send + Sync>;

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Somebody knows.
    Told,
    /// Nobody is to be told.
    Nobody,
}

impl Engine {
    /// Tells what there is to tell until the engine stops; what has failed is tried again for a day. It is spawned here and
    /// supervised by the engine.
    pub fn tell_by(&self, teller: Teller) {
        let engine = self.clone();
        self.inner.tracker.spawn(async move {
            let stop = engine.inner.stop.clone();
            stop.run_until_cancelled(engine.tell_forever(teller)).await;
        });
    }

    /// Tells what there is to tell of one operation now, each thing once. Whether nothing is left to be told: what has failed
    /// is, for whoever looks after this ledger next.
    ///
    /// # Errors
    /// [`LedgerError::Store`] where the ledger cannot be asked.
    ///
    /// # Cancel safety
    /// If the future is dropped, somebody may have been told without a record of it.
    pub async fn tell_of(&self, id: OperationId, teller: Teller) -> Result<bool, LedgerError> {
        loop {
            let due = self.inner.ledger.notices(self.now(), usize::MAX).await?;
            let Some(notice) = due.into_iter().find(|notice| notice.operation == id) else { break };
            self.clone().tell_one(notice, teller.clone()).await;
        }
        let some_time = Timestamp::from_micros(i64::MAX);
        let waits = self.inner.ledger.notices(some_time, usize::MAX).await?;
        Ok(waits.iter().all(|notice| notice.operation != id))
    }

    async fn tell_forever(&self, teller: Teller) {
        let mut telling = JoinSet::new();
        let mut of: HashSet<OperationId> = HashSet::new();
        loop {
            match self.inner.ledger.notices(self.now(), PAGE).await {
                Ok(due) => {
                    for notice in due {
                        if telling.len() < AT_ONCE && of.insert(notice.operation) {
                            telling.spawn(self.clone().tell_one(notice, teller.clone()));
                        }
                    }
                }
                Err(error) => tracing::error!("failed to look for what is to be told: {error}"),
            }
            tokio::select! {
                Some(told) = telling.join_next() => match told {
                    Ok(operation) => {
                        of.remove(&operation);
                    }
                    Err(panicked) => {
                        tracing::error!("failed to tell somebody: {panicked}: a bug, please report it");
                        // Which one it was is not known: those that are being told may be told twice.
                        of.clear();
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                },
                () = self.inner.news.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Tells it, and records that. While that cannot be recorded it is not told again.
    async fn tell_one(self, notice: Notice, teller: Teller) -> OperationId {
        let id = notice.operation;
        let told = match self.inner.ledger.get(id).await {
            Ok(row) => {
                let heard = teller(notice.clone(), row.clone()).await;
                self.outcome(&notice, &row, heard)
            }
            Err(LedgerError::Absent { .. }) => Told::Nobody,
            Err(error) => {
                tracing::error!(operation = %id, "failed to tell somebody of an operation: {error}");
                tokio::time::sleep(LOOK_EVERY).await;
                return id;
            }
        };
        while let Err(error) = self.inner.ledger.told(notice.number, told.clone()).await {
            tracing::error!(operation = %id, notice = %notice.news, "failed to record what was told: {error}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        id
    }

    fn outcome(&self, notice: &Notice, row: &Row, heard: Result<Heard, String>) -> Told {
        let (operation, news, attempts) = (notice.operation, notice.news, notice.attempts + 1);
        let error = match heard {
            Ok(Heard::Told) => {
                tracing::info!(%operation, notice = %news, attempts, "somebody was told of an operation");
                return Told::Done;
            }
            Ok(Heard::Nobody) => return Told::Nobody,
            Err(error) => error,
        };
        let told = notice::failed(notice, error, self.inner.clock.now());
        match &told {
            Told::GivenUp { error } => tracing::error!(
                %operation,
                tool = row.tool,
                upstream = row.upstream,
                upstream_id = row.upstream_id.as_ref().map(ToString::to_string),
                key = %row.key,
                phase = %row.phase,
                notice = %news,
                attempts,
                last_error = error,
                todo = "look at it with `countermand ops show`, and correct `on_orphan`",
                "nobody could be told of an operation for 24 h, and it is not tried any more"
            ),
            Told::Again { error, .. } => tracing::warn!(
                %operation,
                notice = %news,
                attempts,
                last_error = error,
                "failed to tell somebody of an operation; it is tried again"
            ),
            Told::Done | Told::Nobody => {}
        }
        told
    }
}
