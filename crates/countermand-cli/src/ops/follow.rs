//! What has changed in the ledgers of a family since the last look. The ledger has no events for other
//! processes, so it is read: what is unsettled, what is new, and what was unsettled a moment ago; never the settled history.

use super::{ALL, Where, states::States};
use anyhow::Result;
use countermand::{
    clock::SystemClock,
    core::{
        OperationId, Phase, Row, Timestamp,
        ports::{Entry, Ledger as _, LedgerError, Order, Query},
    },
    ledger::{OpenError, OpenMode, SqliteLedger, siblings},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    time::Duration,
};

/// A row may become visible so much later than its id says, and is found all the same.
const SLACK: Duration = Duration::from_secs(2);

/// A row that has been written since the last look.
pub(super) struct Change {
    pub(super) row: Row,
    /// Its phase at the last look; `None` for a new row.
    pub(super) before: Option<Phase>,
    /// What happened to it since.
    pub(super) entries: Vec<Entry>,
}

/// The ledgers of a family, and what was last seen in them.
pub(super) struct Family {
    base: PathBuf,
    ledgers: Vec<Followed>,
    /// Files of the family that cannot be opened, and have been told of.
    told: HashSet<PathBuf>,
    clock: SystemClock,
    looked_at: Timestamp,
}

struct Followed {
    path: PathBuf,
    ledger: SqliteLedger,
    known: HashMap<OperationId, Known>,
    failing: bool,
}

#[derive(Clone, Copy)]
struct Known {
    phase: Phase,
    version: u64,
}

impl Family {
    /// Opens those that are there.
    pub(super) fn open(place: &Where) -> Result<Self> {
        let ledgers = place.open_all()?.into_iter().map(|(path, ledger)| Followed::new(path, ledger));
        let clock = SystemClock::new();
        Ok(Self {
            base: place.path()?,
            ledgers: ledgers.collect(),
            told: HashSet::new(),
            looked_at: clock.at(),
            clock,
        })
    }

    /// What there is at first, newest first: the operations that are meant, of all others nothing.
    pub(super) async fn first(&mut self, states: &States, limit: Option<usize>) -> Result<Vec<Row>> {
        let now = self.clock.at();
        let mut found = Vec::new();
        for followed in &mut self.ledgers {
            for row in followed.read(self.looked_at).await? {
                followed.know(&row);
            }
            // Read second: what has changed in between is a change.
            let rows = followed.ledger.list(states.query(limit.unwrap_or(ALL))).await?;
            for row in &rows {
                followed.know(row);
            }
            found.extend(rows);
        }
        self.looked_at = now;
        found.sort_by_key(|row| std::cmp::Reverse(row.id));
        found.truncate(limit.unwrap_or(ALL));
        Ok(found)
    }

    /// What has changed, in the order in which it did. A ledger that cannot be read now is told of once, and read again later.
    pub(super) async fn changes(&mut self) -> Vec<Change> {
        self.discover();
        let now = self.clock.at();
        let mut changes = Vec::new();
        for followed in &mut self.ledgers {
            match followed.changes(self.looked_at).await {
                Ok(found) => {
                    followed.failing = false;
                    changes.extend(found);
                }
                Err(error) if followed.failing => tracing::debug!("{error}"),
                Err(error) => {
                    followed.failing = true;
                    tracing::warn!("{error}; it is read again");
                }
            }
            followed.forget(self.looked_at);
        }
        self.looked_at = now;
        changes.sort_by_key(|change| change.row.updated_at);
        changes
    }

    /// Another gateway on the same config has made a ledger of its own.
    fn discover(&mut self) {
        for path in siblings(&self.base) {
            if self.ledgers.iter().any(|followed| followed.path == path) {
                continue;
            }
            match SqliteLedger::open(&path, OpenMode::Operator) {
                Ok(ledger) => self.ledgers.push(Followed::new(path, ledger)),
                // Its gateway is just making it.
                Err(OpenError::TooOld { found: 0, .. } | OpenError::Missing { .. }) => {}
                Err(error) => {
                    if self.told.insert(path) {
                        tracing::warn!("{error}");
                    }
                }
            }
        }
    }
}

impl Followed {
    fn new(path: PathBuf, ledger: SqliteLedger) -> Self {
        Self { path, ledger, known: HashMap::new(), failing: false }
    }

    fn know(&mut self, row: &Row) {
        self.known.insert(row.id, Known { phase: row.phase, version: row.version });
    }

    /// The rows in which something can have changed since then, oldest first.
    async fn read(&self, since: Timestamp) -> Result<Vec<Row>, LedgerError> {
        let unsettled = Query { unsettled: true, order: Order::Oldest, limit: ALL, ..Query::default() };
        let new = Query {
            order: Order::Oldest,
            limit: ALL,
            after: Some(first_id(since - SLACK)),
            ..Query::default()
        };
        let mut rows = BTreeMap::new();
        for query in [unsettled, new] {
            rows.extend(self.ledger.list(query).await?.into_iter().map(|row| (row.id, row)));
        }
        let gone =
            self.known.iter().filter(|(id, known)| !known.phase.is_settled() && !rows.contains_key(id));
        let gone: Vec<OperationId> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            match self.ledger.get(id).await {
                Ok(row) => drop(rows.insert(id, row)),
                // Retention has removed it.
                Err(LedgerError::Absent { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rows.into_values().collect())
    }

    async fn changes(&mut self, since: Timestamp) -> Result<Vec<Change>, LedgerError> {
        let mut changes = Vec::new();
        for row in self.read(since).await? {
            let before = self.known.get(&row.id).copied();
            let version = before.map_or(0, |known| known.version);
            if version >= row.version {
                continue;
            }
            // One line a version; what was written after the row was read comes at the next look.
            let entries = self.ledger.history(row.id).await?;
            let (from, to) = (index(version), index(row.version));
            let entries = entries.into_iter().take(to).skip(from).collect();
            self.know(&row);
            changes.push(Change { row, before: before.map(|known| known.phase), entries });
        }
        Ok(changes)
    }

    /// What is settled, and too old to be read as new, cannot change any more.
    fn forget(&mut self, since: Timestamp) {
        let oldest = first_id(since - SLACK);
        self.known.retain(|id, known| !known.phase.is_settled() || *id > oldest);
    }
}

fn index(version: u64) -> usize {
    usize::try_from(version).unwrap_or(usize::MAX)
}

/// Less than every id that was made at this time or later: an id of version 7 begins with its milliseconds.
fn first_id(at: Timestamp) -> OperationId {
    let millis = u128::try_from(at.as_micros() / 1000).unwrap_or_default();
    OperationId(uuid::Uuid::from_u128(millis << 80))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_made_from_a_time_on_are_greater_than_its_first_id() {
        let clock = SystemClock::new();
        let id = OperationId(uuid::Uuid::now_v7());
        assert!(first_id(clock.at() - SLACK) < id);
        assert!(first_id(clock.at() + SLACK) > id);
    }
}
