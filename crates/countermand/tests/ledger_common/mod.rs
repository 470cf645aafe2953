//! Rows to keep, and what every ledger must do with them.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(missing_docs, unreachable_pub)]

pub mod conformance;
pub mod mount;

use countermand::{
    core::{
        CallId, Dice, Kind, NewRow, OnDisconnect, OperationId, Owner, Phase, Policy, Principal, Row,
        Timestamp, WhenCompleted,
        ports::{Definition, Entry, Ledger},
    },
    ledger::{OpenMode, SqliteLedger},
};
use serde_json::{Map, json};
use std::{path::Path, sync::Arc, time::Duration};
use uuid::Uuid;

pub fn gateway(path: &Path) -> SqliteLedger {
    SqliteLedger::open(path, OpenMode::Gateway).expect("opens as a gateway")
}

pub fn operator(path: &Path) -> SqliteLedger {
    SqliteLedger::open(path, OpenMode::Operator).expect("opens as an operator")
}

pub fn policy() -> Arc<Policy> {
    Arc::new(Policy {
        kind: Kind::Job,
        can_cancel: true,
        confirm_within: Duration::from_secs(30),
        force_after: Some(Duration::from_millis(1_500)),
        find: Some(countermand::core::Lookup::Eventual),
        key_window: Some(Duration::from_secs(24 * 3600)),
        shield: Duration::from_secs(30),
        horizon: Duration::from_secs(60),
        poll_every: Duration::from_millis(500),
        poll_max: Duration::from_secs(10),
        lifetime: Duration::from_secs(3600),
        undo_steps: 2,
        when_completed: WhenCompleted::Compensate,
        mark: true,
    })
}

pub fn definition(hash: &str) -> Definition {
    Definition { hash: hash.into(), policy: policy(), body: json!({ "request": "POST /jobs", "of": hash }) }
}

pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub fn id() -> OperationId {
    OperationId(Uuid::now_v7())
}

/// A row as a call makes it, of the definition `d`.
pub fn row(principal: &str) -> Row {
    let new = NewRow {
        id: id(),
        call: CallId(Uuid::now_v7()),
        session: None,
        request_id: None,
        principal: Principal::from(principal),
        tool: "run_report".into(),
        args_hash: "00ff".into(),
        inputs: Map::new(),
        definition: "d".into(),
        policy: policy(),
        upstream: "reports".into(),
        key: Dice(*Uuid::new_v4().as_bytes()).key(),
        on_disconnect: OnDisconnect::Cancel,
        owner: Owner::from("us"),
        epoch: 1,
    };
    Row::new(new, at(1_000))
}

/// The row as settled at a time.
pub fn settled(mut row: Row, when: i64) -> Row {
    row.phase = Phase::Completed;
    row.settled_at = Some(at(when));
    row.updated_at = at(when);
    row.next_at = None;
    row.inputs.seal();
    row
}

pub fn entry(event: &str) -> Entry {
    Entry { at: at(7), event: event.into(), phase: Phase::Intent, note: None }
}

pub async fn insert(ledger: &dyn Ledger, row: Row) -> Row {
    ledger.insert(row, entry("intended")).await.expect("inserts")
}

pub async fn define(ledger: &dyn Ledger) {
    ledger.define(definition("d")).await.expect("defines");
}

/// The requests that wait.
pub async fn waiting(ledger: &dyn countermand_core::ports::Ledger) -> Vec<countermand_core::ports::Request> {
    ledger.requests().await.expect("reads requests").into_iter().map(|filed| filed.request).collect()
}
