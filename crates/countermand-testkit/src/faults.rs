//! Wrappers around ports that fail when they are told to.

use countermand_core::{
    DefinitionHash, News, OperationId, Row, Timestamp,
    notice::{Notice, Told},
    ports::{BoxFuture, Definition, Entry, Filed, Ledger, LedgerError, Query, Request},
};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// A ledger whose writes fail for as long as it is full. Reads go on.
#[derive(Debug, Default)]
pub struct FaultyLedger<L> {
    /// The ledger behind it.
    pub inner: L,
    full: AtomicBool,
    held: watch::Sender<bool>,
    broken: AtomicBool,
}

impl<L: Ledger> FaultyLedger<L> {
    /// Around this ledger, not full.
    pub fn new(inner: L) -> Self {
        Self {
            inner,
            full: AtomicBool::new(false),
            held: watch::Sender::new(false),
            broken: AtomicBool::new(false),
        }
    }

    /// From now on whoever inserts a row does not hear of it, though it is there; or all of them do.
    pub fn hold_inserts(&self, hold: bool) {
        self.held.send_replace(hold);
    }

    /// The next update panics.
    pub fn break_next_update(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    /// From now on every write fails, or none does.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// The failure of a write, while it is full. The write behind it is not even begun.
    fn refused(&self) -> Result<(), LedgerError> {
        if !self.full.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(LedgerError::Store {
            action: "write",
            path: "the ledger under test".to_owned(),
            message: "no space left on the device: free some".to_owned(),
        })
    }

    /// Writes, unless it is full.
    fn write<'a, T: Send + 'a>(
        &'a self,
        write: impl FnOnce(&'a L) -> BoxFuture<'a, Result<T, LedgerError>>,
    ) -> BoxFuture<'a, Result<T, LedgerError>> {
        match self.refused() {
            Ok(()) => write(&self.inner),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl<L: Ledger> Ledger for FaultyLedger<L> {
    fn define(&self, definition: Definition) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.write(|inner| inner.define(definition))
    }

    fn definition(&self, hash: DefinitionHash) -> BoxFuture<'_, Result<Definition, LedgerError>> {
        self.inner.definition(hash)
    }

    fn insert(&self, row: Row, entry: Entry) -> BoxFuture<'_, Result<Row, LedgerError>> {
        let inserted = self.write(|inner| inner.insert(row, entry));
        let mut held = self.held.subscribe();
        Box::pin(async move {
            let inserted = inserted.await;
            // The sender lives as long as we do.
            let _released = held.wait_for(|held| !held).await;
            inserted
        })
    }

    fn update_with_news(
        &self,
        row: Row,
        epoch: u64,
        entry: Entry,
        news: Vec<News>,
    ) -> BoxFuture<'_, Result<Row, LedgerError>> {
        assert!(!self.broken.swap(false, Ordering::SeqCst), "the ledger under test breaks");
        self.write(|inner| inner.update_with_news(row, epoch, entry, news))
    }

    fn notices(&self, due_by: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Notice>, LedgerError>> {
        self.inner.notices(due_by, limit)
    }

    fn told(&self, notice: u64, told: Told) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.write(|inner| inner.told(notice, told))
    }

    fn get(&self, id: OperationId) -> BoxFuture<'_, Result<Row, LedgerError>> {
        self.inner.get(id)
    }

    fn list(&self, query: Query) -> BoxFuture<'_, Result<Vec<Row>, LedgerError>> {
        self.inner.list(query)
    }

    fn history(&self, id: OperationId) -> BoxFuture<'_, Result<Vec<Entry>, LedgerError>> {
        self.inner.history(id)
    }

    fn file_request(&self, request: Request) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.write(|inner| inner.file_request(request))
    }

    fn requests(&self) -> BoxFuture<'_, Result<Vec<Filed>, LedgerError>> {
        self.inner.requests()
    }

    fn answered(&self, request: u64) -> BoxFuture<'_, Result<(), LedgerError>> {
        self.write(|inner| inner.answered(request))
    }

    fn prune(&self, before: Timestamp) -> BoxFuture<'_, Result<u64, LedgerError>> {
        self.write(|inner| inner.prune(before))
    }
}
