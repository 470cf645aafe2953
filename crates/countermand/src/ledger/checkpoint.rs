//! Keeps the write-ahead log from growing without end.
//!
//! SQLite moves the log into the file by itself, but can begin the log anew only in a moment in which nobody reads
//! from it. Readers that overlap for long enough never leave it one, and the log grows. Beyond a size
//! we wait for such a moment.

use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The size beyond which we wait.
const TOO_LONG: u64 = 64 << 20;

/// After how many commits the size is looked at.
const LOOK_EVERY: u32 = 256;

/// How long writers are held up for it. A reader of ours needs less; a foreign one is not waited for.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Checkpoint {
    log: PathBuf,
    commits: u32,
}

impl Checkpoint {
    pub(super) fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self { log: log.into(), commits: 0 }
    }

    pub(super) fn after_commit(&mut self, connection: &Connection) {
        self.commits += 1;
        if self.commits < LOOK_EVERY {
            return;
        }
        self.commits = 0;
        let size = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        if size > TOO_LONG
            && let Err(error) = truncate(connection)
        {
            tracing::warn!(log = %self.log.display(), size, "failed to shorten the ledger's log: {error}; it is tried again");
        }
    }
}

fn truncate(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    // Not busy means done; busy (somebody still reads) is no error, and the next look tries again.
    let done = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(super::connect::WRITER_BUSY)?;
    done
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::ledger::connect;

    #[test]
    fn the_log_is_cut_unless_somebody_reads_and_nobody_waits_long_for_that() {
        let directory = tempfile::tempdir().expect("makes a directory");
        let path = directory.path().join("ledger.db");
        std::fs::write(&path, "").expect("writes");
        let writer = connect::to_write(&path).expect("opens");
        assert!(connect::use_wal(&writer).expect("switches"));
        writer.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("writes");
        let size = || std::fs::metadata(Checkpoint::of(&path).log).expect("is there").len();

        let reader = connect::to_read(&path).expect("opens");
        reader.execute_batch("BEGIN; SELECT * FROM t").expect("reads");
        writer.execute_batch("INSERT INTO t VALUES (2)").expect("writes");
        truncate(&writer).expect("a reader is no error");
        assert_ne!(size(), 0);
        reader.execute_batch("COMMIT").expect("ends");
        truncate(&writer).expect("cuts");
        assert_eq!(size(), 0);
    }
}
