//! Who may open a ledger, which files are ledgers, and what the refusal says.

mod ledger_common;

use countermand::{
    core::ports::{Ledger as _, LedgerError, Query},
    ledger::{
        LedgerUrl, LedgerUrlError, OpenError, OpenMode, SqliteLedger, open_first_free, siblings, try_adopt,
    },
};
use ledger_common::{define, entry, gateway, mount::Mount, operator, row};
use rusqlite::Connection;
use std::path::Path;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("makes a directory")
}

fn refusal(path: &Path, mode: OpenMode) -> OpenError {
    SqliteLedger::open(path, mode).expect_err("is refused")
}

/// A refusal names the file and what to do.
fn says(error: &OpenError, path: &Path, words: &[&str]) {
    let text = error.to_string();
    assert!(text.starts_with("failed to open the ledger "), "{text}");
    assert!(text.contains(&path.display().to_string()), "{text}");
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

#[test]
fn a_second_gateway_is_told_which_process_holds_the_ledger() {
    let directory = directory();
    let path = directory.path().join("ledger.db");
    let first = gateway(&path);
    let error = refusal(&path, OpenMode::Gateway);
    assert!(
        matches!(error, OpenError::Locked { holder: Some(pid), .. } if pid == std::process::id()),
        "{error:?}"
    );
    says(&error, &path, &["another gateway (process ", "--ledger"]);

    drop(first);
    gateway(&path);
    assert!(directory.path().join("ledger.db.lock").exists(), "the lock file stays");
}

#[test]
fn each_gateway_is_an_incarnation_of_its_own() {
    let directory = directory();
    let path = directory.path().join("ledger.db");
    let epochs: Vec<u64> = (0..3).map(|_| gateway(&path).epoch()).collect();
    assert_eq!(epochs, [1, 2, 3]);
    assert_eq!(operator(&path).epoch(), 3);
    assert_eq!(gateway(&path).epoch(), 4);
}

#[test]
fn an_operator_opens_beside_a_gateway_and_creates_nothing() {
    let directory = directory();
    let path = directory.path().join("ledger.db");
    let error = refusal(&path, OpenMode::Operator);
    assert!(matches!(error, OpenError::Missing { .. }), "{error:?}");
    says(&error, &path, &["no such file", "a gateway creates it"]);
    assert!(!path.exists());

    let _gateway = gateway(&path);
    operator(&path);
    assert_eq!(std::fs::read_dir(directory.path()).expect("lists").count(), 4, "db, -wal, -shm, lock");
}

#[tokio::test]
async fn an_operator_does_not_write_rows() {
    let directory = directory();
    let path = directory.path().join("ledger.db");
    define(&gateway(&path)).await;
    let refused = operator(&path).insert(row("p"), entry("intended")).await;
    assert!(
        matches!(&refused, Err(LedgerError::Store { action: "write", message, .. }) if message.contains("only a gateway"))
    );
}

#[test]
fn a_ledger_of_a_newer_version_is_refused_by_both() {
    let directory = directory();
    let path = directory.path().join("ledger.db");
    gateway(&path);
    set_version(&path, 99);
    for mode in [OpenMode::Gateway, OpenMode::Operator] {
        let error = refusal(&path, mode);
        assert!(matches!(error, OpenError::TooNew { found: 99, known: 3, .. }), "{error:?}");
        says(&error, &path, &["version 99", "up to 3", "or a newer one"]);
    }
    set_version(&path, 3);
    assert_eq!(gateway(&path).epoch(), 2, "the refused ones have changed nothing");
}

#[test]
fn a_ledger_of_an_older_version_is_migrated_by_a_gateway_only() {
    let directory = directory();
    let path = directory.path().join("ledger.db");
    std::fs::write(&path, "").expect("writes");
    let error = refusal(&path, OpenMode::Operator);
    assert!(matches!(error, OpenError::TooOld { found: 0, known: 3, .. }), "{error:?}");
    says(&error, &path, &["version 0", "version 3", "start a gateway"]);
    assert_eq!(std::fs::read(&path).expect("reads"), b"", "an operator does not migrate");

    gateway(&path);
    operator(&path);
}

#[tokio::test]
async fn the_rows_of_an_older_version_are_there_after_its_migration() {
    let directory = directory();
    let path = directory.path().join("ledger.db");
    let kept = {
        let ledger = gateway(&path);
        define(&ledger).await;
        ledger_common::insert(&ledger, row("p")).await
    };
    let first = "DROP INDEX unsettled_by_identity; DROP INDEX unsettled_by_principal; DROP INDEX untold_by_principal; \
        DROP TABLE notices";
    Connection::open(&path).and_then(|first_version| first_version.execute_batch(first)).expect("drops");
    set_version(&path, 1);
    let identical = Query { unsettled: true, identity: Some(kept.identity()), ..Query::default() };
    assert_eq!(gateway(&path).list(identical).await, Ok(vec![kept]));
}

fn set_version(path: &Path, version: u32) {
    let connection = Connection::open(path).expect("opens");
    connection.pragma_update(None, "user_version", version).expect("updates");
}

#[test]
fn a_file_that_is_no_ledger_is_left_alone() {
    let directory = directory();
    let text = directory.path().join("notes.txt");
    std::fs::write(&text, "dear diary, ".repeat(1_000)).expect("writes");
    let theirs = directory.path().join("theirs.db");
    Connection::open(&theirs).and_then(|theirs| theirs.execute_batch("CREATE TABLE t (x)")).expect("creates");
    for path in [text, theirs] {
        let before = std::fs::read(&path).expect("reads");
        for mode in [OpenMode::Gateway, OpenMode::Operator] {
            let error = refusal(&path, mode);
            assert!(matches!(error, OpenError::NotALedger { .. }), "{error:?}");
            says(&error, &path, &["no ledger of ours", "--ledger"]);
        }
        assert_eq!(std::fs::read(&path).expect("reads"), before);
    }
}

#[test]
fn a_place_that_is_not_there_is_named() {
    let directory = directory();
    let path = directory.path().join("nowhere/ledger.db");
    let error = refusal(&path, OpenMode::Gateway);
    assert!(matches!(error, OpenError::NoDirectory { .. }), "{error:?}");
    says(&error, &path, &["there is no directory", "create it"]);

    let error = refusal(directory.path(), OpenMode::Gateway);
    assert!(matches!(error, OpenError::System { .. }), "{error:?}");
    says(&error, directory.path(), &["name a file"]);
}

#[test]
fn a_read_only_file_system_is_named() {
    let Some(mount) = Mount::of("4m") else { return };
    mount.make_read_only();
    let path = mount.path().join("ledger.db");
    let error = refusal(&path, OpenMode::Gateway);
    assert!(matches!(error, OpenError::System { .. }), "{error:?}");
    says(&error, &path, &["read-only", "name another place"]);
}

#[test]
fn a_read_only_directory_is_named() {
    let directory = directory();
    let mut permissions = std::fs::metadata(directory.path()).expect("is there").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(directory.path(), permissions).expect("changes");
    if std::fs::write(directory.path().join("probe"), "").is_ok() {
        println!("skipped: this user may write in spite of the permissions");
        return;
    }
    let path = directory.path().join("ledger.db");
    says(&refusal(&path, OpenMode::Gateway), &path, &["make it writable for this user"]);
}

#[test]
fn a_read_only_file_is_named() {
    let Some(mount) = Mount::of("4m") else { return };
    let path = mount.path().join("ledger.db");
    drop(gateway(&path));
    mount.make_read_only();
    let error = refusal(&path, OpenMode::Gateway);
    says(&error, &path, &["read-only"]);
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_a_new_ledger() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = directory();
    let path = directory.path().join("ledger.db");
    let _ledger = gateway(&path);
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let mode = std::fs::metadata(directory.path().join(file)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn gateways_on_one_config_take_the_first_ledger_that_is_free() {
    let directory = directory();
    let base = directory.path().join("my.ledger.db");
    let second = directory.path().join("my.ledger.2.db");
    let third = directory.path().join("my.ledger.3.db");

    let (one, path) = open_first_free(&base).expect("opens");
    assert_eq!(path, base);
    let (two, path) = open_first_free(&base).expect("opens");
    assert_eq!(path, second);
    let (_three, path) = open_first_free(&base).expect("opens");
    assert_eq!(path, third);
    drop(two);
    let (_two, path) = open_first_free(&base).expect("opens");
    assert_eq!(path, second);

    for other in ["my.ledger.x.db", "my.ledger.02.db", "my.ledger.1.db", "other.2.db", "my.ledger.4.db-wal"] {
        std::fs::write(directory.path().join(other), "").expect("writes");
    }
    assert_eq!(siblings(&base), [base.clone(), second.clone(), third]);

    assert!(try_adopt(&second).expect("looks").is_none(), "it is held");
    assert!(try_adopt(&base).expect("looks").is_none(), "it is held");
    drop(one);
    let adopted = try_adopt(&base).expect("looks").expect("is free");
    assert_eq!(adopted.epoch(), 2);
    let missing = directory.path().join("my.ledger.9.db");
    assert!(try_adopt(&missing).expect("looks").is_none());
    assert!(!missing.exists());
}

#[test]
fn a_name_without_an_extension_has_siblings_too() {
    let directory = directory();
    let base = directory.path().join("ledger");
    let _one = open_first_free(&base).expect("opens");
    let (_two, path) = open_first_free(&base).expect("opens");
    assert_eq!(path, directory.path().join("ledger.2"));
    assert_eq!(siblings(&base), [base, path]);
}

#[test]
fn an_address_is_a_path_relative_to_its_base() {
    let base = Path::new("/srv");
    for (text, path) in [
        ("sqlite:countermand.db", "/srv/countermand.db"),
        ("sqlite:/var/lib/c.db", "/var/lib/c.db"),
        ("sqlite:///var/lib/c.db", "/var/lib/c.db"),
        ("sqlite:a:b.db", "/srv/a:b.db"),
    ] {
        assert_eq!(LedgerUrl::parse(text, base).expect(text).path(), Path::new(path));
    }
}

#[test]
fn an_address_of_another_kind_is_answered_with_what_to_write() {
    let refusal = |text| LedgerUrl::parse(text, Path::new(".")).expect_err("is refused");
    let postgres = refusal("postgres://me:secret@db/ledger");
    assert!(matches!(postgres, LedgerUrlError::NotYet { .. }));
    assert!(postgres.to_string().contains("`postgres:` is not yet supported by this version"), "{postgres}");
    assert!(!postgres.to_string().contains("secret"));
    for text in ["countermand.db", "redis:x", "sqlite:", "sqlite://host/x.db", "sqlite:dir/", ""] {
        let error = refusal(text);
        assert!(matches!(error, LedgerUrlError::Malformed { .. }));
        assert!(error.to_string().contains("write `sqlite:PATH`"), "{error}");
    }
}
