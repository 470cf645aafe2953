//! What operators ask for from outside: filed by one process, taken by the gateway.

use super::{columns::Cursor, connect, error::Failure};
use countermand_core::ports::{Filed, Request};
use rusqlite::{Connection, params};
use std::path::Path;

pub(super) fn file(connection: &Connection, request: &Request) -> Result<(), Failure> {
    connection
        .prepare_cached("INSERT INTO requests (operation, action) VALUES (?1, ?2)")?
        .execute(params![request.operation.to_string(), super::columns::json_text(&request.action)?])?;
    Ok(())
}

/// Files a request over a connection that lives only for it: whoever may read a ledger need not be able to write it.
pub(super) fn file_from_outside(path: &Path, request: &Request) -> Result<(), Failure> {
    // One statement is a transaction; it waits its turn between the gateway's commits.
    file(&connect::to_write(path)?, request)
}

/// All that wait, oldest first. The gateway asks often, and a look costs no write.
pub(super) fn waiting(connection: &Connection) -> Result<Vec<Filed>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT seq, operation, action FROM requests ORDER BY seq")?;
    let requests = statement.query_map([], |stored| {
        let mut from = Cursor::over(stored);
        let number = from.count()?;
        Ok(Filed { number, request: Request { operation: from.word()?, action: from.json()? } })
    })?;
    Ok(requests.collect::<rusqlite::Result<Vec<_>>>()?)
}

/// Removes one.
pub(super) fn remove(connection: &Connection, number: u64) -> Result<(), Failure> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    connection.prepare_cached("DELETE FROM requests WHERE seq = ?1")?.execute([number])?;
    Ok(())
}
