//! The command line beside the gateway: what it says, where, and how it exits.

mod by_hand;
mod cancels;
mod disk;
mod family;
mod manual;
mod ops;
mod secrets;
mod starting;
mod sync_order;
mod under_us;
mod terminals;
mod watch;

use crate::stage::{Caller, Door, Stage};
use serde_json::{Value, json};

fn tagged(tag: &str) -> Value {
    json!({ "tag": tag })
}

/// `ops list --json` with these words more.
async fn listed(stage: &Stage, more: &[&str]) -> Vec<Value> {
    let said = stage.outcome(&[&["ops", "list", "--json"], more].concat()).await.exited(0);
    said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn id(row: &Value) -> &str {
    row["id"].as_str().unwrap()
}

/// What design.md promises of every line of `ops list --json`.
const KEYS: [&str; 19] = [
    "id",
    "call",
    "tool",
    "upstream",
    "kind",
    "phase",
    "desired",
    "cause",
    "reason",
    "outcome",
    "upstream_id",
    "key",
    "attempts",
    "next_at",
    "last_error",
    "created_at",
    "updated_at",
    "settled",
    "principal",
];

async fn a_running_job(door: Door, stage: &Stage) -> (Caller, Value) {
    let mut caller = Caller::at(door, stage).await;
    let pending = caller.call(1, "run_report", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    // Over HTTP the call lives as long as its connection.
    std::mem::forget(pending);
    let row = stage.operations().await.remove(0);
    (caller, row)
}

fn has_all_keys(row: &Value) {
    for key in KEYS {
        assert!(row.get(key).is_some(), "`{key}` is missing: {row:#}");
    }
    for key in ["created_at", "updated_at"] {
        let at = row[key].as_str().unwrap();
        assert!(at.ends_with('Z') && at.parse::<jiff::Timestamp>().is_ok(), "{key}: {at}");
    }
}
