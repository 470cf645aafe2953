//! Connections, and the settings that durability rests on.

use rusqlite::{Connection, OpenFlags};
use std::{path::Path, time::Duration};

/// How long a connection waits for another one's lock: `ops` files a request in much less.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// How long the gateway's own writer waits for another process's lock. While it waits no cancel is recorded, and what is
/// not recorded is sent only once the write has failed.
pub(super) const WRITER_BUSY: Duration = Duration::from_secs(1);

/// After how many pages of 4 KiB in the write-ahead log a commit moves them into the file. The default of
/// 1,000 spends more on moving than on writing.
const CHECKPOINT_PAGES: u32 = 4_000;

/// Beyond this a log that has been moved is cut, so that one burst does not stay on the disk.
const LOG_KEPT: u32 = 16 << 20;

/// How many prepared statements a connection keeps. A listing has as many shapes as questions.
const STATEMENTS: usize = 64;

/// A connection that writes, to a file that is there.
pub(super) fn to_write(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // In WAL mode FULL syncs the log at every commit; NORMAL would lose the last ones with the power.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn to_read(path: &Path) -> rusqlite::Result<Connection> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Switches the file to a write-ahead log: readers and the writer do not wait for each other. The file remembers.
pub(super) fn use_wal(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| Ok(row.get_ref(0)?.as_str()? == "wal"))
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // No mutex: each connection stays on one thread.
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}
