//! The command line beside the gateway: what it says, where, and how it exits.

mod disk;
mod family;
mod ops;
mod secrets;
mod starting;

use crate::stage::Stage;
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
