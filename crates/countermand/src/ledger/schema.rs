//! The schema and its versions.
//!
//! `user_version` counts the migrations that a file has had; `application_id` says that the file is ours,
//! so that we neither read nor extend somebody else's database.

use rusqlite::Connection;

/// Each migration leads from its index to the next version. What has been released is never edited.
pub(super) const MIGRATIONS: &[&str] =
    &[include_str!("schema/0001.sql"), include_str!("schema/0002.sql"), include_str!("schema/0003.sql")];

/// `CMLG`, in ASCII.
const APPLICATION_ID: i32 = 0x434d_4c47;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A ledger (or an empty file, version 0) that has had so many migrations, at most all that we know.
    Version(u32),
    /// A ledger that has had more migrations than we know.
    Newer(u32),
    /// Something else.
    Foreign,
}

/// Looks what a file is, where `known` migrations exist.
pub(super) fn look(connection: &Connection, known: usize) -> rusqlite::Result<Found> {
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let empty = application == 0 && version == 0 && tables == 0;
    Ok(match application {
        _ if empty => Found::Version(0),
        APPLICATION_ID if version as usize > known => Found::Newer(version),
        APPLICATION_ID => Found::Version(version),
        _ => Found::Foreign,
    })
}

/// Applies what a file of version `from` lacks, each migration in a transaction of its own, so
/// that a crash between two leaves a version.
pub(super) fn migrate(connection: &mut Connection, from: u32, migrations: &[&str]) -> rusqlite::Result<()> {
    for (version, sql) in (1_u32..).zip(migrations).skip(from as usize) {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const ONE: &str = "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7);";
    const TWO: &str = "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 1;";
    const THREE: &str = "UPDATE a SET y = x + y;";

    fn empty() -> Connection {
        Connection::open_in_memory().expect("opens")
    }

    #[test]
    fn an_older_file_gets_the_migrations_that_it_lacks_and_keeps_its_rows() {
        let mut file = empty();
        migrate(&mut file, 0, &[ONE]).expect("migrates");
        assert_eq!(look(&file, 3).expect("looks"), Found::Version(1));
        migrate(&mut file, 1, &[ONE, TWO, THREE]).expect("migrates");
        assert_eq!(look(&file, 3).expect("looks"), Found::Version(3));
        let row = file.query_row("SELECT x, y FROM a", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(row, Ok((7, 8)));
    }

    #[test]
    fn a_newer_file_is_told_from_an_older_one() {
        let mut file = empty();
        migrate(&mut file, 0, &[ONE, TWO, THREE]).expect("migrates");
        assert_eq!(look(&file, 2).expect("looks"), Found::Newer(3));
    }

    #[test]
    fn a_migration_that_fails_leaves_the_version_before_it() {
        let mut file = empty();
        let broken = "CREATE TABLE b (x INTEGER); SELECT nothing FROM nowhere;";
        assert!(migrate(&mut file, 0, &[ONE, broken]).is_err());
        assert_eq!(look(&file, 2).expect("looks"), Found::Version(1));
        assert!(file.prepare("SELECT * FROM b").is_err(), "half a migration stayed");
    }

    #[test]
    fn somebody_elses_database_is_foreign() {
        let file = empty();
        file.execute_batch("CREATE TABLE theirs (x)").expect("creates");
        assert_eq!(look(&file, 1).expect("looks"), Found::Foreign);
    }
}
