//! A look at all processes, shared by all who want one at the same time.

use super::{NOTICE, OPERATION};
use crate::platform::{self, Identity, Stat};
use std::{
    io,
    sync::{Arc, OnceLock},
};
use tokio::{sync::Mutex, time::Instant};

/// All processes at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) processes: Vec<Seen>,
}

/// A process, as it was seen.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) stat: Stat,
    operation: OnceLock<Option<String>>,
}

impl Seen {
    pub(super) fn new(stat: Stat) -> Self {
        Self { stat, operation: OnceLock::new() }
    }

    #[cfg(test)]
    pub(super) fn of(stat: Stat, operation: &str) -> Self {
        Self { stat, operation: OnceLock::from(Some(operation.to_owned())) }
    }

    /// The operation that its environment names. Read when it is asked for: that costs as much as all the rest.
    ///
    /// # Errors
    /// Where it cannot be looked at now.
    pub(super) fn operation(&self) -> io::Result<Option<&str>> {
        if let Some(known) = self.operation.get() {
            return Ok(known.as_deref());
        }
        let Identity { pid, .. } = self.stat.id;
        let mut operation = platform::variable(pid, OPERATION)?;
        if operation.is_some() && platform::variable(pid, NOTICE)?.is_some() {
            operation = None;
        }
        Ok(self.operation.get_or_init(|| operation).as_deref())
    }
}

/// Takes snapshots, one at a time.
#[derive(Debug, Default)]
pub(super) struct Census {
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

impl Census {
    /// A snapshot that was begun after this was called.
    ///
    /// # Errors
    /// Where the processes cannot be looked at now.
    pub(super) async fn take(&self) -> io::Result<Arc<Snapshot>> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((begun, snapshot)) = &*last
            && *begun > asked
        {
            return Ok(snapshot.clone());
        }
        let begun = Instant::now();
        let looked = tokio::task::spawn_blocking(platform::processes).await??;
        let snapshot = Arc::new(Snapshot { processes: looked.into_iter().map(Seen::new).collect() });
        *last = Some((begun, snapshot.clone()));
        Ok(snapshot)
    }
}
