//! Finds the one operation that an id, or its beginning, names.

use super::Where;
use anyhow::{Result, bail};
use countermand::{
    core::{
        Row,
        ports::{Ledger as _, Query},
    },
    ledger::SqliteLedger,
};
use std::path::PathBuf;

/// An operation, and the ledger that has it.
pub(super) struct Found {
    pub(super) row: Row,
    pub(super) path: PathBuf,
    pub(super) ledger: SqliteLedger,
}

/// The operation whose id starts with this text.
pub(super) async fn one(place: &Where, id: &str) -> Result<Found> {
    let (mut matches, mut last) = (0, None);
    for (path, ledger) in place.open_all()? {
        let query = Query { id_prefix: Some(id.to_ascii_lowercase()), limit: 2, ..Query::default() };
        let mut rows = ledger.list(query).await?;
        matches += rows.len();
        if let Some(row) = rows.pop() {
            last = Some(Found { row, path, ledger });
        }
    }
    match last {
        None => bail!("no operation's id starts with `{id}`: `countermand ops list` shows those there are"),
        Some(found) if matches == 1 => Ok(found),
        Some(_) => bail!("more than one operation's id starts with `{id}`: write more of it"),
    }
}
