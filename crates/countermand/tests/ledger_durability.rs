//! What a ledger has acknowledged is there, whatever happens to callers, disks and other writers.

mod ledger_common;

use countermand::core::{
    Principal,
    ports::{Ledger as _, LedgerError, Query},
};
use futures_util::{FutureExt as _, future::join_all};
use ledger_common::{define, entry, gateway, insert, mount::Mount, row};
use rusqlite::Connection;
use serde_json::json;

#[tokio::test]
async fn a_thousand_concurrent_inserts_are_visible_when_answered_and_there_after_a_restart() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let ledger = gateway(&path);
    define(&ledger).await;
    let inserts = (0..1_000).map(|_| async {
        let row = insert(&ledger, row("p")).await;
        // A reader sees only what is committed.
        assert_eq!(ledger.get(row.id).await.as_ref(), Ok(&row));
        row
    });
    let mut rows = join_all(inserts).await;
    drop(ledger);

    rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    let ledger = gateway(&path);
    let kept = ledger.list(Query { limit: 2_000, ..Query::default() }).await.expect("lists");
    assert!(kept == rows, "{} of {} rows are there as they were written", kept.len(), rows.len());
}

#[tokio::test]
async fn of_many_writers_of_one_version_one_wins() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let ledger = gateway(&directory.path().join("ledger.db"));
    define(&ledger).await;
    let row = insert(&ledger, row("p")).await;
    let updates = join_all((0..100).map(|_| ledger.update(row.clone(), 1, entry("won")))).await;
    let (won, lost): (Vec<_>, Vec<_>) = updates.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    let fenced = LedgerError::Fenced { id: row.id, epoch: 1, version: 2 };
    assert!(lost.into_iter().all(|lost| lost.as_ref() == Err(&fenced)));
    assert_eq!(ledger.history(row.id).await.map(|history| history.len()), Ok(2));
}

#[tokio::test]
async fn a_dropped_future_leaves_a_row_or_none_and_a_ledger_that_works() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let ledger = gateway(&directory.path().join("ledger.db"));
    define(&ledger).await;
    for _ in 0..50 {
        let row = row("dropped");
        // Polled once, so that each is queued.
        drop(ledger.insert(row.clone(), entry("intended")).now_or_never());
        drop(ledger.list(Query::default()).now_or_never());
        match ledger.insert(row.clone(), entry("again")).await {
            Ok(written) => assert_eq!(written.version, 1),
            Err(error) => assert_eq!(error, LedgerError::Fenced { id: row.id, epoch: 1, version: 1 }),
        }
        assert_eq!(ledger.history(row.id).await.map(|history| history.len()), Ok(1));
    }
}

#[tokio::test]
async fn a_ledger_dropped_in_the_middle_of_work_gives_its_lock_back() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    for _ in 0..5 {
        let ledger = gateway(&path);
        define(&ledger).await;
        for _ in 0..50 {
            drop(ledger.insert(row("dropped"), entry("intended")).now_or_never());
            drop(ledger.list(Query::default()).now_or_never());
        }
    }
    let log = directory.path().join("ledger.db-wal");
    assert!(!log.exists(), "the last connection to close has moved the log into the file");
}

#[tokio::test]
async fn a_writer_waits_while_another_process_holds_the_file() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let ledger = gateway(&path);
    define(&ledger).await;
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO meta VALUES ('other', 1)").expect("begins");

    let mut write = ledger.insert(row("p"), entry("intended"));
    assert!(write.as_mut().now_or_never().is_none());
    // A read is not held up by either.
    assert_eq!(ledger.list(Query::default()).await, Ok(Vec::new()));
    other.execute_batch("COMMIT").expect("commits");
    assert!(write.await.is_ok());
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_says_what_to_do() {
    let Some(mount) = Mount::of("4m") else { return };
    let path = mount.path().join("ledger.db");
    let ledger = gateway(&path);
    define(&ledger).await;
    let filler = mount.fill(1 << 20);

    let mut kept = Vec::new();
    let error = loop {
        let writes = join_all((0..8).map(|_| {
            let mut row = row("p");
            row.detail.insert("padding".into(), json!("x".repeat(4_000)));
            ledger.insert(row, entry("intended"))
        }));
        let (written, failed): (Vec<_>, Vec<_>) = writes.await.into_iter().partition(Result::is_ok);
        kept.extend(written.into_iter().flatten());
        assert!(kept.len() < 2_000, "8 MB were acknowledged on a disk of 4");
        if let Some(Err(error)) = failed.into_iter().next() {
            break error;
        }
    };
    let LedgerError::Store { action: "write", path: named, message } = &error else { panic!("{error:?}") };
    assert_eq!(*named, path.display().to_string());
    assert!(message.contains("full") && message.contains("free some space"), "{message}");

    let all = Query { principal: Some(Principal::from("p")), limit: 10_000, ..Query::default() };
    let there = ledger.list(all.clone()).await.expect("a full disk can be read").len();
    assert_eq!(there, kept.len());
    assert!(!kept.is_empty());

    std::fs::remove_file(filler).expect("removes");
    kept.push(insert(&ledger, row("p")).await);
    drop(ledger);
    kept.sort_by_key(|row| std::cmp::Reverse(row.id));
    let ledger = gateway(&path);
    assert!(ledger.list(all).await == Ok(kept), "a row is missing, or one came back");
}

#[tokio::test]
async fn a_database_that_cannot_be_written_is_no_fence_and_no_absence() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let ledger = gateway(&path);
    define(&ledger).await;
    let row = insert(&ledger, row("p")).await;
    let other = Connection::open(&path).expect("opens");
    other.execute_batch("ALTER TABLE history RENAME TO gone").expect("renames");

    let results = join_all([
        ledger.update(row.clone(), 1, entry("lost")),
        ledger.update(ledger_common::row("p"), 1, entry("to nothing")),
    ])
    .await;
    assert!(matches!(&results[0], Err(LedgerError::Store { action: "write", .. })), "{:?}", results[0]);
    assert!(matches!(&results[1], Err(LedgerError::Absent { .. })), "{:?}", results[1]);
    assert_eq!(ledger.get(row.id).await, Ok(row.clone()), "half a write stayed");

    other.execute_batch("ALTER TABLE gone RENAME TO history").expect("renames");
    assert!(ledger.update(row, 1, entry("written")).await.is_ok());
}

#[tokio::test]
async fn a_row_without_its_definition_is_a_broken_store_and_no_absence() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let ledger = gateway(&path);
    define(&ledger).await;
    let row = insert(&ledger, row("p")).await;
    Connection::open(&path).and_then(|other| other.execute("DELETE FROM definitions", [])).expect("deletes");
    let read = ledger.get(row.id).await;
    assert!(
        matches!(&read, Err(LedgerError::Store { action: "read", message, .. }) if message.contains("definition d")),
        "{read:?}"
    );
}

#[tokio::test]
async fn the_definitions_that_nothing_names_go_and_those_in_use_stay() {
    let directory = tempfile::tempdir().expect("makes a directory");
    let path = directory.path().join("ledger.db");
    let ledger = gateway(&path);
    for hash in ["d", "unused", "read again"] {
        ledger.define(ledger_common::definition(hash)).await.expect("defines");
    }
    insert(&ledger, row("p")).await;
    assert_eq!(ledger.prune(ledger_common::at(0)).await, Ok(0));
    assert!(ledger.definition("unused".into()).await.is_ok(), "this process may still insert a row of it");
    drop(ledger);

    let ledger = gateway(&path);
    assert!(ledger.definition("read again".into()).await.is_ok());
    assert_eq!(ledger.prune(ledger_common::at(0)).await, Ok(0));
    assert!(matches!(ledger.definition("unused".into()).await, Err(LedgerError::Absent { .. })));
    for hash in ["d", "read again"] {
        assert!(ledger.definition(hash.into()).await.is_ok(), "{hash}");
    }
}
