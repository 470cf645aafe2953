//! `ops retry` and `ops resolve`: what an operator settles by hand, through the gateway that drives the row, or without one.

use super::{a_running_job, has_all_keys, id, tagged};
use crate::stage::{Caller, Door, Outcome, Stage};
use countermand::{
    core::{
        OperationId, Phase, Row,
        ports::{Entry, Ledger as _},
    },
    ledger::{OpenMode, SqliteLedger},
};
use countermand_testkit::fake::{Fault, Filter, Gate, Route, connections_open};
use serde_json::{Value, json};
use std::time::Duration;

/// A job whose cancel is refused for want of credentials: `orphaned`.
async fn an_orphan(stage: &Stage) -> (Caller, Value) {
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    let (caller, row) = a_running_job(Door::Stdio, stage).await;
    stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
    (caller, stage.phase("orphaned").await)
}

/// A job that was stopped, and whose undo is refused.
async fn a_failed_undo(stage: &Stage) -> (Caller, Value) {
    stage.fake.fault(Route::DeleteRows, Fault::Status(403, None), Some(1));
    let mut caller = Caller::at(Door::Stdio, stage).await;
    let pending = caller.call(1, "with_undo", tagged("t")).await;
    stage.phase("running").await;
    caller.cancel(pending).await;
    (caller, stage.phase("compensation_failed").await)
}

/// Changes the one row behind everybody's back. No gateway runs.
async fn changed(stage: &Stage, change: impl FnOnce(&mut Row)) -> Row {
    let id: OperationId = id(&stage.operations().await[0]).parse().unwrap();
    let ledger = SqliteLedger::open(stage.ledger_file(), OpenMode::Gateway).unwrap();
    let mut row = ledger.get(id).await.unwrap();
    change(&mut row);
    let entry = Entry { at: row.updated_at, event: "aged".to_owned(), phase: row.phase, note: None };
    ledger.update(row.clone(), row.epoch, entry).await.unwrap()
}

/// An orphan of yesterday, and nobody has tried since then.
async fn an_orphan_of_yesterday(stage: &Stage) {
    let (mut caller, _) = an_orphan(stage).await;
    caller.kill().await;
    changed(stage, |row| {
        row.phase_since = row.phase_since - Duration::from_secs(25 * 3600);
        row.next_at = Some(row.phase_since);
    })
    .await;
}

/// A row that waits for an operator, with nobody who drives it.
async fn a_row_given_up(stage: &Stage) -> Row {
    let (mut caller, _) = an_orphan(stage).await;
    caller.kill().await;
    changed(stage, |row| {
        row.phase = Phase::NeedsIntervention;
        (row.turn, row.turn_at, row.cancel_at, row.next_at) = (None, None, None, None);
    })
    .await
}

/// How many requests have reached the upstream.
fn requests(stage: &Stage) -> usize {
    stage.fake.events().iter().filter(|event| event.is("request")).count()
}

async fn history(stage: &Stage, row: &Value) -> Vec<Value> {
    let said = stage.outcome(&["ops", "show", id(row), "--json"]).await.exited(0).stdout;
    serde_json::from_str::<Value>(&said).unwrap()["history"].as_array().unwrap().clone()
}

/// What the last line of a row's history says.
async fn last_note(stage: &Stage, row: &Value) -> (Value, Value) {
    let last = history(stage, row).await.pop().unwrap();
    (last["event"].clone(), last["note"].clone())
}

const SAYING: [&str; 4] = ["--as", "stopped", "--note", "the vendor ended it by phone"];

fn resolve<'a>(row: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [&["ops", "resolve", row], words].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_is_settled_by_an_operators_word_through_the_gateway() {
    let stage = Stage::new().await;
    let (mut caller, row) = an_orphan(&stage).await;
    let said = stage.outcome(&resolve(id(&row), &SAYING)).await.exited(0);
    assert!(said.stdout.contains("An operator settled it by hand."), "{}", said.stdout);
    let row = stage.phase("resolved").await;
    assert_eq!((&row["settled"], &row["cause"]), (&json!(true), &json!("operator")));
    let (event, note) = last_note(&stage, &row).await;
    assert_eq!((event, note), (json!("resolved"), json!("stopped: the vendor ended it by phone")));
    let shown = stage.outcome(&["ops", "show", id(&row)]).await.exited(0).stdout;
    assert!(shown.contains("the vendor ended it by phone"), "{shown}");
    // The gateway has let go of it, and works on.
    caller.works().await;
    let again = stage.outcome(&resolve(id(&row), &SAYING)).await.exited(1);
    assert!(again.stderr.contains("is settled (`resolved`)"), "{}", again.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_is_settled_by_an_operators_word_without_a_gateway() {
    let stage = Stage::new().await;
    let (mut caller, row) = an_orphan(&stage).await;
    caller.kill().await;
    stage.fake.wait(|events| connections_open(events) == 0).await;
    let before = requests(&stage);
    let words = ["--as", "ignored", "--note", "it costs nothing", "--json"];
    let said = stage.outcome(&resolve(id(&row), &words)).await.exited(0);
    let row: Value = serde_json::from_str(&said.stdout).unwrap();
    has_all_keys(&row);
    assert_eq!((&row["phase"], &row["settled"]), (&json!("resolved"), &json!(true)));
    assert_eq!(last_note(&stage, &row).await.1, json!("ignored: it costs nothing"));
    assert_eq!(requests(&stage), before, "a word needs no upstream");
    // The lock is free again, and nothing is left to do.
    let mut next = Caller::at(Door::Http, &stage).await;
    next.works().await;
    assert_eq!(stage.operations().await[0]["phase"], "resolved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_whose_answer_was_lost_can_be_said_never_to_have_been() {
    let stage = Stage::new().await;
    stage.fake.fault(Route::CreateJob, Fault::Status(500, None), None);
    stage.fake.fault(Route::FindJobs, Fault::Status(500, None), None);
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    caller.call(1, "run_report", tagged("t")).await;
    let row = stage.phase("unknown").await;
    let words = ["--as", "never-created", "--note", "their log has no such request"];
    stage.outcome(&resolve(id(&row), &words)).await.exited(0);
    let row = stage.phase("resolved").await;
    assert_eq!(last_note(&stage, &row).await.1, json!("never-created: their log has no such request"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_resolved_is_refused_with_where_a_word_counts_and_nothing_is_filed() {
    let stage = Stage::new().await;
    let (mut caller, row) = a_running_job(Door::Stdio, &stage).await;
    let said = stage.outcome(&resolve(id(&row), &SAYING)).await.exited(1);
    assert!(said.stderr.contains("`running`") && said.stderr.contains("ops cancel"), "{}", said.stderr);
    for phase in ["unknown", "draining", "orphaned", "needs_intervention", "compensation_failed"] {
        assert!(said.stderr.contains(&format!("`{phase}`")), "{phase}: {}", said.stderr);
    }
    assert!(said.stdout.is_empty());
    let said = stage.outcome(&["ops", "retry", id(&row)]).await.exited(1);
    assert!(
        said.stderr.contains("`running`") && said.stderr.contains("`needs_intervention`"),
        "{}",
        said.stderr
    );
    caller.barrier().await;
    let ledger = SqliteLedger::open(stage.ledger_file(), OpenMode::Operator).unwrap();
    assert!(ledger.requests().await.unwrap().is_empty());
    assert_eq!(stage.operations().await[0]["phase"], "running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_without_a_verdict_or_a_note_is_no_command() {
    let stage = Stage::new().await;
    let config = stage.config().display().to_string();
    for words in [
        &[][..],
        &["--as", "stopped"],
        &["--note", "why"],
        &["--as", "gone", "--note", "why"],
        &["--as", "stopped", "--note", ""],
        &["--as", "stopped", "--note", "  "],
    ] {
        let args = [&["ops", "resolve", "a", "-c", &config], words].concat();
        let said = Outcome::of(stage.command(&args)).await.exited(2);
        assert!(said.stdout.is_empty() && !said.stderr.is_empty(), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_undo_is_tried_again_through_the_gateway() {
    let stage = Stage::new().await;
    let (mut caller, row) = a_failed_undo(&stage).await;
    assert_eq!(stage.fake.rows("t"), 1);
    let said = stage.outcome(&["ops", "retry", id(&row)]).await.exited(0);
    assert!(said.stdout.contains("its effects were undone"), "{}", said.stdout);
    assert_eq!((stage.phase("compensated").await["settled"].clone(), stage.fake.rows("t")), (json!(true), 0));
    assert!(history(&stage, &row).await.iter().any(|entry| entry["event"] == "retry_wanted"));
    caller.works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_undo_is_tried_again_without_a_gateway() {
    let stage = Stage::new().await;
    let (mut caller, row) = a_failed_undo(&stage).await;
    caller.kill().await;
    let said = stage.outcome(&["ops", "retry", id(&row), "--json"]).await.exited(0);
    let row: Value = serde_json::from_str(&said.stdout).unwrap();
    has_all_keys(&row);
    assert_eq!((&row["phase"], stage.fake.rows("t")), (&json!("compensated"), 0));
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_is_refused_again_says_why_with_and_without_a_gateway() {
    let stage = Stage::new().await;
    let (mut caller, row) = a_failed_undo(&stage).await;
    stage.fake.fault(Route::DeleteRows, Fault::Status(403, None), None);
    for gateway in [true, false] {
        let said = stage.outcome(&["ops", "retry", id(&row)]).await.exited(1);
        for word in ["`compensation_failed` again", "undo 1 was refused", "403"] {
            assert!(said.stderr.contains(word), "gateway: {gateway}, `{word}`: {}", said.stderr);
        }
        caller.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_after_a_day_is_tried_again_through_the_gateway() {
    let stage = Stage::new().await;
    a_row_given_up(&stage).await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let row = stage.phase("needs_intervention").await;
    stage.fake.clear_faults();
    let said = stage.outcome(&["ops", "retry", id(&row)]).await.exited(0);
    assert!(said.stdout.contains("the upstream confirmed it"), "{}", said.stdout);
    assert_eq!(stage.agree().await.cancelled, 1);
    caller.works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_that_nobody_tried_for_a_day_is_tried_again_by_the_next_start_and_not_given_up() {
    let stage = Stage::new().await;
    an_orphan_of_yesterday(&stage).await;
    stage.fake.clear_faults();
    let _next = Caller::at(Door::Stdio, &stage).await;
    stage.phase("cancelled").await;
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_after_a_day_is_tried_again_without_a_gateway() {
    let stage = Stage::new().await;
    let row = json!({ "id": a_row_given_up(&stage).await.id });
    let said = stage.outcome(&["ops", "cancel", id(&row)]).await.exited(1);
    assert!(said.stderr.contains("ops retry") && said.stderr.contains("ops resolve"), "{}", said.stderr);
    stage.fake.clear_faults();
    stage.outcome(&["ops", "retry", id(&row)]).await.exited(0);
    stage.phase("cancelled").await;
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_after_a_day_can_be_settled_by_word() {
    let stage = Stage::new().await;
    let row = json!({ "id": a_row_given_up(&stage).await.id });
    stage.outcome(&resolve(id(&row), &SAYING)).await.exited(0);
    stage.phase("resolved").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_needs_no_retry_and_its_next_one_is_told() {
    let stage = Stage::new().await;
    let (_caller, row) = an_orphan(&stage).await;
    let said = stage.outcome(&["ops", "retry", id(&row)]).await.exited(1);
    assert!(said.stderr.contains("is retried by itself, next at 2"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_will_be_retried_in_a_minute_is_not_waited_for_and_lets_go_of_the_lock() {
    let stage = Stage::new().await;
    let (mut caller, row) = an_orphan(&stage).await;
    let with = stage.outcome(&["ops", "cancel", id(&row)]).await.exited(1);
    assert!(with.stderr.contains("is retried, next at 2"), "{}", with.stderr);
    caller.kill().await;
    let without = stage.outcome(&["ops", "cancel", id(&row)]).await.exited(1);
    assert!(without.stderr.contains("as soon as a gateway runs on its ledger"), "{}", without.stderr);
    let _free = stage.http().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_whose_next_try_is_a_minute_away_is_cancelled_at_once_without_a_gateway() {
    let stage = Stage::new().await;
    let (mut caller, row) = an_orphan(&stage).await;
    caller.kill().await;
    stage.fake.clear_faults();
    stage.outcome(&["ops", "cancel", id(&row)]).await.exited(0);
    assert_eq!(stage.operations().await[0]["phase"], "cancelled");
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_that_was_filed_for_a_gateway_that_died_is_done_once() {
    let stage = Stage::new().await;
    let (mut caller, row) = a_failed_undo(&stage).await;
    stage.fake.fault(Route::DeleteRows, Fault::Status(403, None), None);
    let held =
        stage.fake.hold(Gate::RequestHead, Filter { route: Some(Route::DeleteRows), ..Filter::default() });
    let mut command = stage.command(&["ops", "retry", id(&row), "-c"]);
    let mut retrying = command.arg(stage.config()).spawn().unwrap();
    held.reached().await;
    caller.kill().await;
    held.release();
    assert_eq!(retrying.wait().await.unwrap().code(), Some(1));
    let ledger = SqliteLedger::open(stage.ledger_file(), OpenMode::Operator).unwrap();
    assert!(ledger.requests().await.unwrap().is_empty());
}
