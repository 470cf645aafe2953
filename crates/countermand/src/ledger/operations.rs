//! Writing and reading single operations, and their history.

use super::{
    columns::{self, COLUMNS, Cursor, SETTLED},
    definitions::{self, Known},
    error::Failure,
    notices,
};
use countermand_core::{
    News, OperationId, Row,
    ports::{Entry, LedgerError},
};
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use std::sync::LazyLock;

static INSERT: LazyLock<String> = LazyLock::new(|| {
    let places: Vec<String> = (1..=COLUMNS.len() + 1).map(|place| format!("?{place}")).collect();
    format!(
        "INSERT INTO operations ({}, {SETTLED}) VALUES ({}) ON CONFLICT (id) DO NOTHING",
        COLUMNS.join(", "),
        places.join(", ")
    )
});

/// Writes all but the id, which stays; the fence is the epoch and the version that were read.
static UPDATE: LazyLock<String> = LazyLock::new(|| {
    let columns = COLUMNS.iter().chain([&SETTLED]).enumerate().skip(1);
    let sets: Vec<String> = columns.map(|(at, column)| format!("{column} = ?{}", at + 1)).collect();
    let (epoch, version) = (COLUMNS.len() + 2, COLUMNS.len() + 3);
    format!(
        "UPDATE operations SET {} WHERE id = ?1 AND epoch = ?{epoch} AND version = ?{version}",
        sets.join(", ")
    )
});

static GET: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM operations WHERE id = ?1", COLUMNS.join(", ")));

pub(super) fn insert(connection: &Connection, mut row: Row, entry: &Entry) -> Result<Row, Failure> {
    if !definitions::is_stored(connection, &row.definition)? {
        return Err(definitions::absent(&row.definition).into());
    }
    row.version = 1;
    let written =
        connection.prepare_cached(&INSERT)?.execute(params_from_iter(columns::values(&row, row.version)?))?;
    if written == 0 {
        return Err(not_written(connection, row.id)?);
    }
    append(connection, &row, entry)?;
    Ok(row)
}

pub(super) fn update(
    connection: &Connection,
    mut row: Row,
    epoch: u64,
    entry: &Entry,
    news: &[News],
) -> Result<Row, Failure> {
    let fence = [columns::count(epoch)?, columns::count(row.version)?];
    let version = row.version + 1;
    let values = columns::values(&row, version)?.into_iter().chain(fence);
    let written = connection.prepare_cached(&UPDATE)?.execute(params_from_iter(values))?;
    if written == 0 {
        return Err(not_written(connection, row.id)?);
    }
    row.version = version;
    append(connection, &row, entry)?;
    notices::add(connection, row.id, news, entry.at)?;
    Ok(row)
}

/// Why a write found no row of its epoch and version.
fn not_written(connection: &Connection, id: OperationId) -> Result<Failure, Failure> {
    let stored = connection
        .prepare_cached("SELECT epoch, version FROM operations WHERE id = ?1")?
        .query_row([id.to_string()], |stored| {
            let mut from = Cursor::over(stored);
            Ok(LedgerError::Fenced { id, epoch: from.count()?, version: from.count()? })
        })
        .optional()?;
    Ok(stored.unwrap_or_else(|| absent(id)).into())
}

fn append(connection: &Connection, row: &Row, entry: &Entry) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO history (operation, seq, at, event, phase, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            row.id.to_string(),
            columns::count(row.version)?,
            entry.at.as_micros(),
            entry.event,
            entry.phase.as_str(),
            entry.note
        ])?;
    Ok(())
}

pub(super) fn get(connection: &Connection, known: &Known, id: OperationId) -> Result<Row, Failure> {
    let mut statement = connection.prepare_cached(&GET)?;
    let mut rows = statement.query([id.to_string()])?;
    let stored = rows.next()?.ok_or_else(|| absent(id))?;
    columns::row(stored, |hash| known.policy(connection, hash))
}

pub(super) fn history(connection: &Connection, id: OperationId) -> Result<Vec<Entry>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT at, event, phase, note FROM history WHERE operation = ?1 ORDER BY seq")?;
    let entries = statement.query_map([id.to_string()], |stored| {
        let mut from = Cursor::over(stored);
        Ok(Entry { at: from.time()?, event: from.plain()?, phase: from.word()?, note: from.plain()? })
    })?;
    Ok(entries.collect::<rusqlite::Result<_>>()?)
}

fn absent(id: OperationId) -> LedgerError {
    LedgerError::Absent { what: format!("operation {id}") }
}
