//! Retention: removes what has been settled for long, a little at a time.

use super::error::Failure;
use countermand_core::Timestamp;
use rusqlite::{Connection, params};

/// How many rows one transaction removes: writers wait for no more than that.
pub(super) const BATCH: usize = 200;

/// Settled rows, by their last write. Nothing here can name an unsettled one.
pub(super) const OLDEST: &str =
    "SELECT rowid FROM operations WHERE settled = 1 AND updated_at < ?1 ORDER BY updated_at LIMIT ?2";

/// Removes up to [`BATCH`] rows with their history. Returns how many.
pub(super) fn prune(connection: &Connection, before: Timestamp) -> Result<usize, Failure> {
    let mut oldest = connection.prepare_cached(OLDEST)?;
    let rows: Vec<i64> = oldest
        .query_map(params![before.as_micros(), BATCH as i64], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut delete =
        connection.prepare_cached("DELETE FROM operations WHERE rowid = ?1 AND settled = 1 RETURNING id")?;
    let mut delete_history = connection.prepare_cached("DELETE FROM history WHERE operation = ?1")?;
    for row in &rows {
        let id: String = delete.query_row([row], |row| row.get(0))?;
        delete_history.execute([&id])?;
        super::notices::remove(connection, &id)?;
    }
    Ok(rows.len())
}
