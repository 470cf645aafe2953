//! `ops`: looking and acting, with and without a gateway.

use super::{id, listed, tagged};
use crate::{
    over_both,
    stage::{Caller, Door, Stage},
};
use countermand_testkit::fake::{Fault, Filter, Gate, Route};
use serde_json::{Value, json};

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

async fn kill(mut caller: Caller) {
    match &mut caller {
        Caller::Stdio(client) => client.kill().await,
        Caller::Http(gateway) => gateway.kill().await,
    }
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

over_both! {
    async fn a_row_has_all_its_keys_before_while_and_after_the_cancel(door) {
        let stage = Stage::new().await;
        let (_caller, row) = a_running_job(door, &stage).await;
        has_all_keys(&row);
        for empty in ["cause", "reason", "outcome", "last_error"] {
            assert_eq!(row[empty], Value::Null, "{empty}");
        }
        assert_eq!((&row["settled"], &row["desired"], &row["kind"]), (&json!(false), &json!("run"), &json!("job")));
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
        held.reached().await;
        has_all_keys(&stage.operations().await[0]);
        held.release();
        let row = stage.phase("cancelled").await;
        has_all_keys(&row);
        assert_eq!((&row["next_at"], &row["settled"], &row["outcome"]), (&Value::Null, &json!(true), &json!("cancelled")));
        assert_eq!(row["reason"], Value::Null, "the client gave none");
    }
}

over_both! {
    async fn a_cancel_by_an_operator_goes_through_the_gateway_that_drives_the_row(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tagged("t")).await;
        stage.fake.wait_for("job_polled", 1).await;
        let row = stage.operations().await.remove(0);
        let said = stage.outcome(&["ops", "cancel", id(&row), "--note", "too dear"]).await.exited(0);
        assert!(said.stdout.contains("the upstream confirmed it"), "{}", said.stdout);
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("an operator cancelled it"), "{result}");
        let row = stage.operations().await.remove(0);
        assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
        assert_eq!(stage.agree().await.cancelled, 1);
        let again = stage.outcome(&["ops", "cancel", id(&row)]).await.exited(0);
        assert!(again.stdout.contains("nothing to cancel"), "{}", again.stdout);
    }
}

over_both! {
    async fn a_cancel_by_an_operator_without_a_gateway_takes_the_lock_and_drives_the_row(door) {
        let stage = Stage::new().await;
        let (caller, row) = a_running_job(door, &stage).await;
        kill(caller).await;
        let said = stage.outcome(&["ops", "cancel", id(&row), "--json"]).await.exited(0);
        let row: Value = serde_json::from_str(&said.stdout).unwrap();
        has_all_keys(&row);
        assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
        assert_eq!(stage.agree().await.cancelled, 1);
        // The lock is free again, and nothing is left to do.
        let _next = Caller::at(door, &stage).await;
        assert_eq!(stage.operations().await[0]["cause"], "operator");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_gateway_only_the_named_row_is_driven() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    for call in 1..=2 {
        caller.call(call, "run_report", tagged(&format!("t{call}"))).await;
        stage.fake.wait_for("job_created", usize::try_from(call).unwrap()).await;
    }
    let rows = stage
        .operations_when("two that run", |rows| {
            rows.len() == 2 && rows.iter().all(|row| row["phase"] == "running")
        })
        .await;
    kill(caller).await;
    let first = rows.iter().find(|row| row["upstream_id"] == "job-1").unwrap();
    stage.outcome(&["ops", "cancel", id(first)]).await.exited(0);
    let live = stage.fake.live_jobs();
    assert_eq!((live.len(), live[0].id.as_str()), (1, "job-2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_without_a_gateway_of_a_create_whose_answer_was_lost_finds_the_job_and_stops_it() {
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    caller.call(1, "run_report", tagged("t")).await;
    held.reached().await;
    let row = stage.operations().await.remove(0);
    assert_eq!(row["phase"], "dispatched");
    kill(caller).await;
    held.release();
    stage.outcome(&["ops", "cancel", id(&row)]).await.exited(0);
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn show_tells_the_timeline_in_words_and_as_json() {
    let stage = Stage::new().await;
    let (_caller, row) = a_running_job(Door::Stdio, &stage).await;
    stage.outcome(&["ops", "cancel", id(&row)]).await.exited(0);
    let said = stage.outcome(&["ops", "show", id(&row)]).await.exited(0).stdout;
    for word in [
        id(&row),
        "job-1",
        row["key"].as_str().unwrap(),
        "run_report",
        "operator",
        "intended",
        "cancel_requested",
        "└─",
    ] {
        assert!(said.contains(word), "`{word}` is missing:\n{said}");
    }
    let said = stage.outcome(&["ops", "show", id(&row), "--json"]).await.exited(0).stdout;
    let shown: Value = serde_json::from_str(&said).unwrap();
    has_all_keys(&shown);
    let history = shown["history"].as_array().unwrap();
    let phases: Vec<&str> = history.iter().map(|entry| entry["phase"].as_str().unwrap()).collect();
    assert_eq!(phases.first(), Some(&"intent"));
    assert_eq!(phases.last(), Some(&"cancelled"));
    for phase in ["dispatched", "running", "cancel_requested", "cancelling", "ended"] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
    assert!(history.iter().all(|entry| entry["at"].as_str().is_some_and(|at| at.ends_with('Z'))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_beginning_of_an_id_is_enough_where_it_is_the_only_one() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    for call in 1..=2 {
        caller.call(call, "run_report", tagged("t")).await;
    }
    let rows = stage.operations_when("two rows", |rows| rows.len() == 2).await;
    let (one, two) = (id(&rows[0]), id(&rows[1]));
    let same = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
    let ambiguous = stage.outcome(&["ops", "show", &one[..same]]).await.exited(1);
    assert!(ambiguous.stderr.contains("more than one operation"), "{}", ambiguous.stderr);
    let shown = stage.outcome(&["ops", "show", &one[..=same].to_ascii_uppercase()]).await.exited(0);
    assert!(shown.stdout.contains(one), "{}", shown.stdout);
    for command in ["show", "cancel"] {
        let unknown = stage.outcome(&["ops", command, "ffff"]).await.exited(1);
        assert!(unknown.stderr.contains("no operation's id starts with `ffff`"), "{}", unknown.stderr);
        assert!(unknown.stdout.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_newest_first_and_can_be_cut_and_filtered_by_state() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut calls = Vec::new();
    for call in 1..=3 {
        calls.push(caller.call(call, "run_report", tagged(&format!("t{call}"))).await);
        stage.fake.wait_for("job_created", usize::try_from(call).unwrap()).await;
    }
    caller.cancel(calls.remove(0)).await;
    stage
        .operations_when("one that is settled", |rows| rows.iter().any(|row| row["phase"] == "cancelled"))
        .await;
    let of = |rows: Vec<Value>| -> Vec<String> {
        rows.iter().map(|row| row["upstream_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of(listed(&stage, &[]).await), ["job-3", "job-2", "job-1"]);
    assert_eq!(of(listed(&stage, &["--limit", "2"]).await), ["job-3", "job-2"]);
    assert_eq!(of(listed(&stage, &["--state", "running"]).await), ["job-3", "job-2"]);
    assert_eq!(of(listed(&stage, &["--state", "unsettled"]).await), ["job-3", "job-2"]);
    assert_eq!(of(listed(&stage, &["--state", "settled"]).await), ["job-1"]);
    assert_eq!(
        of(listed(&stage, &["--state", "cancelled", "--state", "running"]).await),
        ["job-3", "job-2", "job-1"]
    );
    assert!(listed(&stage, &["--state", "orphaned"]).await.is_empty());
    let table = stage.outcome(&["ops", "list"]).await.exited(0).stdout;
    assert!(table.contains("3 listed, 2 unsettled, 0 of them need a look."), "{table}");
    let wrong = stage.outcome(&["ops", "list", "--state", "gone"]).await.exited(1);
    assert!(wrong.stderr.contains("gone") && wrong.stderr.contains("unsettled"), "{}", wrong.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_stands_out_in_the_list_with_what_is_failing() {
    let stage = Stage::new().await;
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    let (_caller, row) = a_running_job(Door::Stdio, &stage).await;
    stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
    let row = stage.phase("orphaned").await;
    assert!(row["last_error"].as_str().unwrap().contains("401"), "{row:#}");
    let table = stage.outcome(&["ops", "list"]).await.exited(0).stdout;
    assert!(table.contains("1 unsettled, 1 of them need a look."), "{table}");
    assert!(table.contains("401") && table.contains("operator"), "{table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_ledger_is_named_with_what_to_do_and_is_not_made() {
    let stage = Stage::new().await;
    for args in [&["ops", "list"][..], &["ops", "show", "a"], &["ops", "cancel", "a"]] {
        let said = stage.outcome(args).await.exited(1);
        assert!(said.stderr.contains(&stage.ledger_file().display().to_string()), "{}", said.stderr);
        assert!(said.stderr.contains("there is no such file"), "{}", said.stderr);
        assert!(said.stderr.contains("name the right ledger with -c or --ledger"), "{}", said.stderr);
        assert!(said.stdout.is_empty());
    }
    assert!(!stage.ledger_file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_can_be_named_instead_of_a_config() {
    let stage = Stage::new().await;
    let (_caller, row) = a_running_job(Door::Stdio, &stage).await;
    let url = format!("sqlite:{}", stage.ledger_file().display());
    let said = crate::stage::Outcome::of(stage.command(&["ops", "list", "--json", "--ledger", &url]))
        .await
        .exited(0);
    assert!(said.stdout.contains(id(&row)));
    let neither = crate::stage::Outcome::of(stage.command(&["ops", "list"])).await.exited(2);
    assert!(neither.stderr.contains("--config") && neither.stderr.contains("--ledger"), "{}", neither.stderr);
    let said =
        crate::stage::Outcome::of(stage.command(&["ops", "list", "--ledger", "mysql://u:hunter2@h/d"]))
            .await
            .exited(1);
    assert!(said.stderr.contains("sqlite:PATH") && !said.stderr.contains("hunter2"), "{}", said.stderr);
}

/// `ops cancel ID`, running.
fn cancelling(stage: &Stage, row: &Value) -> tokio::process::Child {
    let mut command = stage.command(&["ops", "cancel", id(row), "-c"]);
    command
        .arg(stage.config())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_whose_gateway_is_killed_meanwhile_goes_on_by_itself() {
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let (caller, row) = a_running_job(Door::Http, &stage).await;
    let mut command = cancelling(&stage, &row);
    held.reached().await;
    kill(caller).await;
    held.release();
    assert!(command.wait().await.unwrap().success());
    let row = stage.operations().await.remove(0);
    assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("operator")));
    assert_eq!(stage.agree().await.cancelled, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_cancels_at_once_without_a_gateway_take_turns() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    for call in 1..=2 {
        caller.call(call, "run_report", tagged(&format!("t{call}"))).await;
    }
    let rows = stage
        .operations_when("two that run", |rows| {
            rows.len() == 2 && rows.iter().all(|row| row["phase"] == "running")
        })
        .await;
    kill(caller).await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let mut first = cancelling(&stage, &rows[0]);
    held.reached().await;
    let mut second = cancelling(&stage, &rows[1]);
    held.release();
    assert!(first.wait().await.unwrap().success());
    assert!(second.wait().await.unwrap().success());
    assert!(
        stage.operations().await.iter().all(|row| row["phase"] == "cancelled" && row["cause"] == "operator")
    );
    assert_eq!(stage.agree().await.cancelled, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_is_killed_while_it_drives_the_row_leaves_it_wanted_for_the_next_start() {
    let stage = Stage::new().await;
    let (caller, row) = a_running_job(Door::Stdio, &stage).await;
    kill(caller).await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let mut command = cancelling(&stage, &row);
    held.reached().await;
    command.kill().await.unwrap();
    held.release();
    let left = stage.operations().await.remove(0);
    assert_eq!((&left["settled"], &left["cause"]), (&json!(false), &json!("operator")));
    let _next = stage.stdio().await;
    assert_eq!(stage.phase("cancelled").await["cause"], "operator");
    stage.agree().await;
}
