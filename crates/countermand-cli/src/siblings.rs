//! Ledgers of other gateways on the same config: what one of them left when it died is finished
//! by whoever finds its lock free.

use crate::engines::World;
use countermand::{
    core::{
        Timestamp,
        ports::{Ledger, LedgerError, Query},
    },
    engine::Engine,
    ledger::{OpenMode, SqliteLedger, siblings, try_adopt},
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often orphaned ledgers are looked for, and finished ones let go.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The ledgers beside our own that this process holds for now.
#[derive(Clone)]
pub(crate) struct Siblings {
    base: PathBuf,
    own: PathBuf,
    world: World,
    held: Arc<Mutex<Vec<Held>>>,
}

#[derive(Clone)]
struct Held {
    path: PathBuf,
    engine: Engine,
}

impl Siblings {
    /// Those of the family of `base`, without our own.
    pub(crate) fn new(base: &Path, own: &Path, world: World) -> Self {
        Self { base: base.to_owned(), own: own.to_owned(), world, held: Arc::default() }
    }

    /// Looks after them until the future is dropped.
    pub(crate) async fn look_after(&self) {
        loop {
            self.adopt().await;
            self.let_go().await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The engines over what is held now.
    pub(crate) fn engines(&self) -> Vec<Engine> {
        self.lock().iter().map(|held| held.engine.clone()).collect()
    }

    async fn adopt(&self) {
        let held: HashSet<PathBuf> = self.lock().iter().map(|held| held.path.clone()).collect();
        for path in siblings(&self.base) {
            if path == self.own || held.contains(&path) || !has_work(&path).await {
                continue;
            }
            match try_adopt(&path) {
                Ok(Some(ledger)) => {
                    tracing::info!(ledger = %path.display(), "another gateway left operations: this one finishes them");
                    let engine = self.world.engine(Arc::new(ledger));
                    self.world.tend(&engine);
                    self.lock().push(Held { path, engine });
                }
                // Its gateway lives.
                Ok(None) => {}
                Err(error) => tracing::warn!(ledger = %path.display(), "{error}"),
            }
        }
    }

    async fn let_go(&self) {
        let held = self.lock().clone();
        for Held { path, engine } in held {
            if has_more(&**engine.ledger()).await == Ok(false) {
                engine.shutdown(Duration::ZERO).await;
                self.lock().retain(|held| held.path != path);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a ledger has anything to finish. One that cannot be read has nothing that we could finish.
async fn has_work(path: &Path) -> bool {
    match SqliteLedger::open(path, OpenMode::Operator) {
        Ok(ledger) => has_more(&ledger).await.unwrap_or(false),
        Err(_) => false,
    }
}

/// Whether anything is unsettled, or still to be told.
async fn has_more(ledger: &dyn Ledger) -> Result<bool, LedgerError> {
    let unsettled = Query { unsettled: true, limit: 1, ..Query::default() };
    let some_time = Timestamp::from_micros(i64::MAX);
    Ok(!ledger.list(unsettled).await?.is_empty() || !ledger.notices(some_time, 1).await?.is_empty())
}
