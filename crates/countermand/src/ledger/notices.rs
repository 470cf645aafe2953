//! What somebody is to be told: written with the row that it is about, and kept until that is removed.

use super::{columns::Cursor, error::Failure};
use countermand_core::{
    News, OperationId, Timestamp,
    notice::{Notice, Told},
};
use rusqlite::{Connection, params};

/// Keeps what is to be told of an operation, from now on due.
pub(super) fn add(
    connection: &Connection,
    operation: OperationId,
    news: &[News],
    at: Timestamp,
) -> rusqlite::Result<()> {
    for news in news {
        let mut insert = connection.prepare_cached(
            "INSERT INTO notices (operation, news, at, state, attempts, next_at)
             SELECT ?1, ?2, ?3, 'waiting', 0, ?3
             WHERE ?4 OR EXISTS (SELECT 1 FROM notices WHERE operation = ?1)",
        )?;
        let always = *news != News::Settled;
        insert.execute(params![operation.to_string(), news.as_str(), at.as_micros(), always])?;
    }
    Ok(())
}

/// The oldest of each operation that waits, where it is due.
pub(super) const WAITING: &str = "
    SELECT seq, operation, news, at, attempts FROM notices AS notice
    WHERE state = 'waiting' AND next_at <= ?1 AND NOT EXISTS (
        SELECT 1 FROM notices AS earlier
        WHERE earlier.operation = notice.operation AND earlier.seq < notice.seq AND earlier.state = 'waiting')
    ORDER BY seq LIMIT ?2";

pub(super) fn waiting(
    connection: &Connection,
    due_by: Timestamp,
    limit: usize,
) -> Result<Vec<Notice>, Failure> {
    let mut statement = connection.prepare_cached(WAITING)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let notices = statement.query_map(params![due_by.as_micros(), limit], |stored| {
        let mut from = Cursor::over(stored);
        Ok(Notice {
            number: from.count()?,
            operation: from.word()?,
            news: from.word()?,
            at: from.time()?,
            attempts: from.plain()?,
        })
    })?;
    Ok(notices.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn told(connection: &Connection, number: u64, told: &Told) -> Result<(), Failure> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    let (state, next_at, error) = match told {
        Told::Done => ("told", None, None),
        Told::Nobody => ("nobody", None, None),
        Told::Again { at, error } => ("waiting", Some(at.as_micros()), Some(error)),
        Told::GivenUp { error } => ("given_up", None, Some(error)),
    };
    connection
        .prepare_cached(
            "UPDATE notices SET state = ?2, next_at = coalesce(?3, next_at), last_error = ?4, attempts = attempts + 1
             WHERE seq = ?1",
        )?
        .execute(params![number, state, next_at, error])?;
    Ok(())
}

/// Those of an operation that is removed.
pub(super) fn remove(connection: &Connection, operation: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM notices WHERE operation = ?1")?.execute([operation])?;
    Ok(())
}
