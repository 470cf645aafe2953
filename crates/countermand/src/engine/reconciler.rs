//! Finds the operations that nobody drives. It takes no input: it reads the ledger, plans, and hands
//! rows to drivers. A wake-up is a hint; the same path runs after a crash.

use super::{Engine, RECONCILE_EVERY, REQUESTS_EVERY, Word};
use countermand_core::{
    Cause, OperationId, Row,
    event::Event,
    ports::{Action, Filed, LedgerError, Order, Query, Request},
};
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    time::Duration,
};

/// How many rows are read at once.
const PAGE: usize = 1_000;

/// How many rows a pass leaves to drivers at most: the rest wait for the next one.
const DRIVEN_AT_MOST: usize = 20_000;

/// How often settled rows are pruned.
const PRUNE_EVERY: Duration = Duration::from_secs(3600);

/// Whether the row shows what was asked for, or cannot any more. `told` is the row's version when it was told here.
fn is_done(row: &Row, action: &Action, told: Option<u64>) -> bool {
    match action {
        // What an operator notes is history, whoever wanted it before.
        Action::Cancel { note } => {
            let heard = note.is_none() || told.is_some_and(|version| version < row.version);
            row.phase.is_settled() || (row.cancel_wanted() && heard)
        }
        // A retry may have failed again by now: it was done all the same, and is not to be done again.
        Action::Retry => !row.phase.awaits_operator() || told.is_some_and(|version| version < row.version),
        Action::Resolve { .. } => row.phase.is_settled(),
    }
}

/// Whether a row of our own that has no driver looks as if a call still waited for it: its driver has broken, and the
/// call was told that nobody follows its operation any more. So it has no client, and would wait for one for ever.
fn left_behind(row: &Row) -> bool {
    row.awaited && row.disconnect_at.is_none() && !row.cancel_wanted()
}

/// Which of the rows that are due have to be driven.
fn plan(due: Vec<Row>, driven: &HashSet<OperationId>) -> Vec<Row> {
    due.into_iter().filter(|row| !driven.contains(&row.id)).collect()
}

impl Engine {
    /// Runs the reconciler until the engine stops: at once, then whenever it is woken or a second has passed.
    /// It is spawned here and supervised by the engine.
    pub fn reconcile(&self) {
        let engine = self.clone();
        self.inner.tracker.spawn(async move {
            let stop = engine.inner.stop.clone();
            stop.run_until_cancelled(engine.reconcile_forever()).await;
        });
        let engine = self.clone();
        self.inner.tracker.spawn(async move {
            let stop = engine.inner.stop.clone();
            stop.run_until_cancelled(engine.answer_requests()).await;
        });
    }

    async fn reconcile_forever(&self) {
        let mut pruned = None;
        loop {
            match self.reconcile_once().await {
                Ok(_) => {}
                Err(error) => tracing::error!("failed to reconcile: {error}"),
            }
            let now = tokio::time::Instant::now();
            if pruned.is_none_or(|at| now.duration_since(at) >= PRUNE_EVERY) {
                pruned = Some(now);
                if let Err(error) = self.inner.ledger.prune(self.now() - self.inner.retention).await {
                    tracing::warn!("failed to prune settled operations: {error}");
                }
            }
            tokio::select! {
                () = self.inner.wake.notified() => {}
                () = tokio::time::sleep(RECONCILE_EVERY) => {}
            }
        }
    }

    /// One pass: every unsettled row that is due, or that an earlier incarnation held, gets a driver.
    /// Returns how many did.
    ///
    /// # Errors
    /// [`LedgerError::Store`] where the ledger cannot be read; rows found before that are driven.
    pub async fn reconcile_once(&self) -> Result<usize, LedgerError> {
        let earlier = Query {
            unsettled: true,
            other_than_epoch: Some(self.inner.epoch),
            order: Order::Urgency,
            limit: PAGE,
            ..Query::default()
        };
        let due = Query { other_than_epoch: None, due_by: Some(self.now()), ..earlier.clone() };
        let mut adopted = 0;
        for query in [earlier, due] {
            adopted += self.drive_all(query).await?;
        }
        Ok(adopted)
    }

    /// Drives what a query finds, page by page: rows that a driver has taken leave the
    /// query's answer, once they are written.
    async fn drive_all(&self, query: Query) -> Result<usize, LedgerError> {
        let mut adopted = 0;
        let mut limit = query.limit;
        while self.driven() < DRIVEN_AT_MOST {
            // Before the rows are read: a driver that ends while they are leaves a row here that is older than its last word.
            let driven = self.inner.lock().live.keys().copied().collect();
            let rows = self.inner.ledger.list(Query { limit, ..query.clone() }).await?;
            let complete = rows.len() < limit;
            let fresh = plan(rows, &driven);
            for row in &fresh {
                self.adopt_if_left(row).await?;
            }
            adopted += fresh.len();
            if complete {
                break;
            }
            if fresh.is_empty() {
                // The page was all driven rows that are not written yet: look past them.
                limit = limit.saturating_mul(2).min(DRIVEN_AT_MOST * 2);
                if limit == DRIVEN_AT_MOST * 2 {
                    break;
                }
            }
        }
        Ok(adopted)
    }

    /// Drives a row that was read a moment ago. One of our own may have been started, driven and ended since then,
    /// so it is read again now that it is known to have no driver.
    async fn adopt_if_left(&self, row: &Row) -> Result<(), LedgerError> {
        if row.epoch != self.inner.epoch {
            return self.adopt(row.clone(), None).await.map(drop);
        }
        if self.inner.is_driven(row.id) {
            return Ok(());
        }
        match self.inner.ledger.get(row.id).await {
            Ok(newest) => {
                let word = left_behind(&newest)
                    .then(|| Word::Happened(Event::ClientLeft { cause: Cause::ClientDisconnected }));
                self.adopt(newest, word).await.map(drop)
            }
            Err(LedgerError::Absent { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn answer_requests(&self) {
        let mut told = HashMap::new();
        loop {
            match self.inner.ledger.requests().await {
                Ok(requests) => {
                    for filed in requests {
                        self.attend(filed, &mut told).await;
                    }
                }
                Err(error) => tracing::error!("failed to look for operators' requests: {error}"),
            }
            tokio::time::sleep(REQUESTS_EVERY).await;
        }
    }

    /// Tells the operation once, and removes the request when what it asked for is durable, so that
    /// a crash in between loses nothing.
    async fn attend(&self, Filed { number, request }: Filed, told: &mut HashMap<u64, u64>) {
        let (done, version) = match self.inner.ledger.get(request.operation).await {
            Ok(row) => (is_done(&row, &request.action, told.get(&number).copied()), row.version),
            Err(LedgerError::Absent { .. }) => (true, 0),
            Err(_) => return,
        };
        if done {
            crash_point!(Before, RequestAnswered);
            if self.inner.ledger.answered(number).await.is_ok() {
                crash_point!(After, RequestAnswered);
                told.remove(&number);
            }
        } else if let Entry::Vacant(first) = told.entry(number)
            && self.answer(request).await
        {
            first.insert(version);
        }
    }

    /// Does what an operator asked for, or says that the operation could not be told: it is asked again then.
    async fn answer(&self, request: Request) -> bool {
        if let Action::Cancel { note } = &request.action {
            tracing::info!(operation = %request.operation, note, "an operator cancels");
        }
        let told = self.tell(request.operation, request.action.event()).await;
        if let Err(error) = &told {
            tracing::error!(operation = %request.operation, "failed to do what an operator asked for: {error}; it is tried again");
        }
        told.is_ok()
    }
}
