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
    let mut found = Vec::new();
    for (path, ledger) in place.open_all()? {
        let query = Query { id_prefix: Some(id.to_ascii_lowercase()), limit: 2, ..Query::default() };
        for row in ledger.list(query).await? {
            found.push((row, path.clone()));
        }
    }
    match found.as_slice() {
        [] => bail!("no operation's id starts with `{id}`: `countermand ops list` shows those there are"),
        [(row, path)] => {
            let ledger = SqliteLedger::open(path, countermand::ledger::OpenMode::Operator)?;
            Ok(Found { row: row.clone(), path: path.clone(), ledger })
        }
        _ => bail!("more than one operation's id starts with `{id}`: write more of it"),
    }
}
