//! A ledger that the release before has written: what it left is finished by this one.
//!
//! `upgrade/version-1.ledger` was written by the gateway of schema version 1, with operations in several phases, and
//! killed. [`makes_the_ledger_of_a_release`] is how.

use crate::{
    points::count,
    stage::{BINARY, Stage, Times},
};
use countermand::definition::{ToolDefinition, UndoDefinition};
use countermand_testkit::{
    client::{StdioClient, message},
    fake::{FakeUpstream, Fault, Filter, Gate, HeldGate, Route},
};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Where the upstream of the release before was: it is in the definitions, and is replaced by where it is now.
const THEN: &str = "http://127.0.0.1:39117";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/upgrade/version-1.ledger")
}

/// A row of the ledger as it was left.
struct Left {
    tag: String,
    phase: String,
    key: String,
    tool: String,
    upstream_id: Option<String>,
}

fn left(ledger: &Connection) -> Vec<Left> {
    let mut rows = ledger
        .prepare("SELECT inputs, phase, key, tool, upstream_id FROM operations WHERE settled = 0 ORDER BY upstream_id IS NULL, upstream_id, id")
        .unwrap();
    let rows = rows.query_map([], |row| {
        let inputs: String = row.get(0)?;
        let inputs: Value = serde_json::from_str(&inputs).unwrap();
        let tag = inputs.to_string();
        Ok(Left { tag, phase: row.get(1)?, key: row.get(2)?, tool: row.get(3)?, upstream_id: row.get(4)? })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// The upstream as it was then: the same jobs under the same keys, and an order.
async fn as_it_was(fake: &FakeUpstream, left: &[Left]) {
    let client = reqwest::Client::new();
    for row in left {
        let path = if row.tool == "order" { "orders" } else { "jobs" };
        let request = client.post(format!("{}/{path}?tag=t", fake.base_url()));
        let answer = request.header("Idempotency-Key", &row.key).send().await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        if let Some(id) = &row.upstream_id {
            assert_eq!(answer["id"], json!(id), "the jobs were created in another order");
        }
    }
}

/// Moves all times, as if it had been left a moment ago.
fn as_of_now(ledger: &Connection) {
    let mut columns =
        ledger.prepare("SELECT name FROM pragma_table_info('operations') WHERE type = 'INTEGER'").unwrap();
    let columns = columns.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let times: Vec<String> = columns
        .filter(|name| {
            name.ends_with("_at")
                || matches!(&**name, "phase_since" | "missing_since" | "create_horizon" | "hard_deadline")
        })
        .map(|name| format!("{name} = {name} + (SELECT delta FROM moved)"))
        .collect();
    let times = times.join(", ");
    ledger
        .execute_batch(&format!(
            "CREATE TEMP TABLE moved AS SELECT CAST(unixepoch() AS INTEGER) * 1000000 - max(updated_at) AS delta FROM operations;
             UPDATE operations SET {times}; DROP TABLE moved;"
        ))
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_release_before_has_left_in_its_ledger_is_finished_by_this_one() {
    let stage = Stage::new().await;
    std::fs::copy(fixture(), stage.ledger_file()).unwrap();
    // An operator of this release changes nothing, and says who does.
    let said = stage.outcome(&["ops", "list"]).await.exited(1);
    assert!(said.stderr.contains("its schema is version 1"), "{}", said.stderr);
    assert!(said.stderr.contains("start a gateway of this version on it once"), "{}", said.stderr);

    let ledger = Connection::open(stage.ledger_file()).unwrap();
    let version: u32 = ledger.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 1);
    let left = left(&ledger);
    let mut phases: Vec<&str> = left.iter().map(|row| row.phase.as_str()).collect();
    phases.sort_unstable();
    assert_eq!(
        phases,
        [
            "cancel_requested",
            "compensating",
            "dispatched",
            "dispatched",
            "draining",
            "ended",
            "running",
            "running",
            "unknown"
        ],
    );
    as_it_was(&stage.fake, &left).await;
    ledger
        .execute("UPDATE definitions SET body = replace(body, ?1, ?2)", [THEN, &stage.fake.base_url()])
        .unwrap();
    as_of_now(&ledger);
    drop(ledger);
    // What had ended, and what cannot be stopped.
    for row in left.iter().filter(|row| matches!(&*row.phase, "ended" | "compensating")) {
        stage.fake.finish(row.upstream_id.as_ref().unwrap());
    }
    let before = stage.fake.events().len();

    let _next = stage.stdio().await;
    for row in left.iter().filter(|row| row.phase == "draining" || row.tool == "detached") {
        stage.fake.finish(row.upstream_id.as_ref().unwrap());
    }
    let rows = stage
        .operations_when("nothing unsettled", |rows| rows.iter().all(|row| row["settled"] == true))
        .await;
    for row in &left {
        let now = rows.iter().find(|now| now["key"] == json!(row.key)).unwrap();
        let ends_as = match (&*row.phase, &*row.tool) {
            ("draining" | "ended", _) | (_, "detached" | "order") => "completed",
            ("compensating", _) | ("dispatched", "with_undo") => "compensated",
            _ => "cancelled",
        };
        assert_eq!(now["phase"], ends_as, "{} of {}: {now:#}", row.phase, row.tag);
    }
    let events = &stage.fake.events()[before..];
    assert_eq!(
        count(events, "job_created") + count(events, "order_committed"),
        0,
        "nothing is made a second time"
    );
}

#[test]
fn the_definitions_of_the_release_before_are_read_and_say_the_same() {
    let ledger = Connection::open_with_flags(fixture(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut bodies = ledger.prepare("SELECT body FROM definitions").unwrap();
    let bodies = bodies.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let mut undone = 0;
    for body in bodies {
        let mut stored: Value = serde_json::from_str(&body).unwrap();
        let read: ToolDefinition = serde_json::from_value(stored.clone()).unwrap();
        assert!(read.upstream.http().is_some_and(|http| http.base_url == THEN), "{stored:#}");
        undone += read.compensate.iter().filter_map(UndoDefinition::request).count();
        // What it did not know yet.
        stored["upstream"]["limits"]["health"] = serde_json::to_value(read.upstream.health()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), stored);
    }
    assert!(undone > 0, "none of them undoes anything");
}

/// The config of the release: times that never pass by themselves.
async fn release_stage(fake: &FakeUpstream) -> Stage {
    Stage::with_config(Times { shield: "5s", horizon: "1s" }, |config| {
        let after = config.split_once("base_url: \"").unwrap().1;
        let base = after.split_once('"').unwrap().0.to_owned();
        config
            .replace(&base, &fake.base_url())
            .replace("lifetime: 4s", "lifetime: 2h")
            .replace("confirm_within: 3s", "confirm_within: 1h")
    })
    .await
}

/// Writes `upgrade/version-1.ledger` by the gateway in `OLD_COUNTERMAND`, on a port that must be free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes the fixture; needs the binary of a release before"]
async fn makes_the_ledger_of_a_release() {
    let old = std::env::var_os("OLD_COUNTERMAND").unwrap();
    let fake = FakeUpstream::listen(THEN.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap();
    let stage = release_stage(&fake).await;
    let mut command = Command::new(old);
    command.args(["serve", "-c"]).arg(stage.config()).current_dir(stage.dir.path());
    let mut client = StdioClient::spawn(command).unwrap();
    client.initialize("2025-11-25").await;
    let of = |route, tag: &str| Filter { route: Some(route), tag: Some(tag.into()), ..Filter::default() };
    let mut held: Vec<HeldGate> = Vec::new();

    // Those with an id, in the order of their ids.
    let running = [
        ("run_report", "running"),
        ("detached", "detached"),
        ("run_report", "cancel_requested"),
        ("no_cancel", "draining"),
        ("with_undo", "compensating"),
        ("run_report", "ended"),
    ];
    for (n, (tool, tag)) in running.into_iter().enumerate() {
        client.send(&message::call(n as u64, tool, json!({ "tag": tag }))).await;
        fake.wait(|events| events.iter().any(|event| event.is("job_polled") && event.tagged(tag))).await;
    }
    fake.fault_for(of(Route::CancelJob, "cancel_requested"), Fault::Status(503, Some(3600)), None);
    client.send(&message::cancelled(json!(2), Some("enough"))).await;
    fake.wait(|events| {
        events.iter().any(|event| event.is("fault_applied") && event.tagged("cancel_requested"))
    })
    .await;
    client.send(&message::cancelled(json!(3), None)).await;
    fake.wait_for("marked", 1).await;
    held.push(fake.hold(Gate::RequestHead, of(Route::DeleteRows, "compensating")));
    client.send(&message::cancelled(json!(4), None)).await;
    held.push(fake.hold(Gate::Result, Filter::default()));
    fake.finish("job-6");
    for gate in &held {
        gate.reached().await;
    }

    // Those whose create was not answered.
    let created = fake.hold(Gate::CreateCommitted, of(Route::CreateJob, "dispatched"));
    client.send(&message::call(6, "with_undo", json!({ "tag": "dispatched" }))).await;
    created.reached().await;
    fake.fault_for(of(Route::CreateJob, "unknown"), Fault::ResetAfterCommit, Some(1));
    let replayed = fake.hold(Gate::RequestHead, of(Route::CreateJob, "unknown"));
    client.send(&message::call(7, "run_report", json!({ "tag": "unknown" }))).await;
    replayed.reached().await;
    replayed.release_one();
    replayed.reached_n(2).await;
    let ordered = fake.hold(Gate::OrderCommitted, Filter::default());
    client.send(&message::call(8, "order", json!({ "tag": "ordered" }))).await;
    ordered.reached().await;
    client.kill().await;

    let ledger = Connection::open(stage.ledger_file()).unwrap();
    let merged = ledger.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(merged, 0);
    ledger.execute_batch("VACUUM").unwrap();
    for row in left(&ledger) {
        println!("{} {} {:?} {}", row.tool, row.phase, row.upstream_id, row.tag);
    }
    drop(ledger);
    assert!(Path::new(BINARY).exists());
    std::fs::copy(stage.ledger_file(), fixture()).unwrap();
}
