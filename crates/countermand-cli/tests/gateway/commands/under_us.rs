//! What others do to the ledger while a gateway runs on it: nothing is lost in silence, and what is known is still cancelled.

use super::tagged;
use crate::{
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use rusqlite::Connection;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// The text of a call's result, which must be an error that says that nothing was sent; and nothing was.
async fn refused(stage: &Stage, caller: &mut Caller, id: u64, tag: &str) -> String {
    let mut call = caller.call(id, "order", tagged(tag)).await;
    let result: Value = caller.answer(&mut call).await;
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("nothing was sent upstream"), "{text}");
    assert!(text.contains(&stage.ledger_file().display().to_string()), "{text}");
    assert!(!stage.fake.events().iter().any(|event| event.tagged(tag)), "something was sent: {text}");
    text
}

fn remove_ledger(stage: &Stage) {
    for more in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{more}", stage.ledger_file().display())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_removed_under_a_gateway_takes_no_new_work_and_what_is_known_is_cancelled() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let pending = caller.call(1, "run_report", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    remove_ledger(&stage);
    let text = refused(&stage, &mut caller, 2, "late").await;
    assert!(text.contains("removed or replaced") && text.contains("restart"), "{text}");
    // It is never recorded elsewhere, where nobody would look for it.
    assert!(!stage.ledger_file().exists());
    caller.cancel(pending).await;
    stage.fake.wait_for("job_cancelled", 1).await;
    // A read needs no ledger.
    caller.works().await;
    assert!(caller.logs().contains("removed or replaced"), "{}", caller.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_put_back_by_a_copy_is_not_taken_for_the_one_that_was_there() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut first = caller.call(1, "order", tagged("first")).await;
    assert_eq!(caller.answer(&mut first).await["isError"], false);
    let copy = stage.dir.path().join("copy");
    std::fs::copy(stage.ledger_file(), &copy).unwrap();
    std::fs::rename(&copy, stage.ledger_file()).unwrap();
    let text = refused(&stage, &mut caller, 2, "late").await;
    assert!(text.contains("removed or replaced"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_another_process_keeps_locked_takes_no_new_work_and_a_cancel_does_not_wait_for_it() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let pending = caller.call(1, "run_report", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    let other = Connection::open(stage.ledger_file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO meta VALUES ('other', 1)").unwrap();
    let text = refused(&stage, &mut caller, 2, "late").await;
    assert!(text.contains("another process keeps it locked"), "{text}");
    let wanted = Instant::now();
    caller.cancel(pending).await;
    stage.fake.wait_for("job_cancelled", 1).await;
    let took = wanted.elapsed();
    assert!(took < Duration::from_secs(3), "the cancel was sent after {took:?}");
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    let row = stage.phase("cancelled").await;
    assert_eq!(row["cause"], "client_cancelled");
    stage.agree().await;
    let mut after = caller.call(3, "order", tagged("after")).await;
    assert_eq!(caller.answer(&mut after).await["isError"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_page_is_named_with_what_to_do_and_nothing_runs_unrecorded() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    for id in 1..20 {
        let mut call = caller.call(id, "order", tagged("before")).await;
        assert_eq!(caller.answer(&mut call).await["isError"], false);
    }
    assert!(caller.rest().await.is_empty());
    let file = Connection::open(stage.ledger_file()).unwrap();
    let (page, size): (u32, u32) = file
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'operations'", [], |row| row.get(0))
        .and_then(|page| Ok((page, file.pragma_query_value(None, "page_size", |row| row.get(0))?)))
        .unwrap();
    drop(file);
    let mut bytes = std::fs::read(stage.ledger_file()).unwrap();
    bytes[((page - 1) * size) as usize..(page * size) as usize].fill(0xff);
    std::fs::write(stage.ledger_file(), &bytes).unwrap();

    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let text = refused(&stage, &mut caller, 1, "late").await;
    assert!(text.contains("malformed") && text.contains("restore a backup"), "{text}");
    assert!(caller.logs().contains("restore a backup"), "{}", caller.logs());
    caller.works().await;
    let listed = stage.outcome(&["ops", "list"]).await.exited(1);
    assert!(listed.stderr.contains("restore a backup"), "{}", listed.stderr);
}

/// From now on no file of this process grows beyond so many bytes.
fn limit_files(pid: u32, bytes: &str) {
    let set = std::process::Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:")])
        .output()
        .expect("util-linux is installed");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
}

over_all! {
    /// For real: each write fails, and the signal that comes with it would kill the process by default.
    async fn a_ledger_that_can_no_longer_be_written_takes_no_new_work_and_what_is_known_is_cancelled(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tagged("t")).await;
        stage.phase("running").await;
        limit_files(caller.pid(), "4096");
        for id in 2..5 {
            let text = refused(&stage, &mut caller, id, &format!("late{id}")).await;
            assert!(text.contains("disk I/O error") && text.contains("`ulimit -f`"), "{text}");
        }
        // A read needs no ledger.
        caller.works().await;
        caller.cancel(pending).await;
        stage.fake.wait_for("job_cancelled", 1).await;
        caller.works().await;
        let logs = caller.logs();
        let said = logs.lines().find(|line| line.contains("goes on from memory")).expect(&logs);
        assert!(said.contains("ERROR") && said.contains("job-1") && said.contains("`ulimit -f`"), "{said}");
        assert_eq!(stage.operations().await[0]["desired"], "run", "what is not recorded is not shown");
        limit_files(caller.pid(), "unlimited");
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], caller.cause());
        assert_eq!(stage.agree().await.cancelled, 1);
        let mut after = caller.call(10, "order", tagged("after")).await;
        assert_eq!(caller.answer(&mut after).await["isError"], false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_recorded_before_a_kill_is_asked_for_again_by_the_next_start() {
    let stage = Stage::without_grace(Door::Stdio, Times::default()).await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let pending = caller.call(1, "run_report", tagged("t")).await;
    stage.phase("running").await;
    limit_files(caller.pid(), "4096");
    caller.cancel(pending).await;
    stage.fake.wait_for("job_cancelled", 1).await;
    caller.kill().await;
    assert_eq!(stage.operations().await[0]["phase"], "running", "nothing of the cancel was recorded");
    let _next = Caller::at(Door::Stdio, &stage).await;
    let row = stage.phase("cancelled").await;
    // Who wanted it died with the process; that nobody is there any more is known.
    assert_eq!(row["cause"], "client_disconnected");
    assert_eq!(stage.agree().await.cancelled, 1);
}
