//! `ops list` and `ops show`, with and without a gateway.

use super::{a_running_job, has_all_keys, id, listed, tagged};
use crate::{
    over_all,
    stage::{Caller, Door, Stage},
};
use countermand_testkit::fake::{Fault, Filter, Gate, Route};
use serde_json::{Value, json};

over_all! {
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
async fn the_beginning_or_the_ending_of_an_id_is_enough_where_it_is_the_only_one() {
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
    for ending in [&one[28..], &format!("…{}", &one[28..]), &one[24..].to_ascii_uppercase()] {
        let shown = stage.outcome(&["ops", "show", ending]).await.exited(0);
        assert!(shown.stdout.contains(one), "{ending}: {}", shown.stdout);
    }
    let different = one.bytes().rev().zip(two.bytes().rev()).take_while(|(a, b)| a == b).count();
    if different > 0 {
        let ambiguous = stage.outcome(&["ops", "show", &one[36 - different..]]).await.exited(1);
        assert!(ambiguous.stderr.contains("more than one operation"), "{}", ambiguous.stderr);
    }
    for command in ["show", "cancel", "retry"] {
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
    let mixed = ["--state", "unsettled", "--state", "cancelled"];
    assert_eq!(of(listed(&stage, &mixed).await), ["job-3", "job-2", "job-1"]);
    let mixed = ["--state", "settled", "--state", "running"];
    assert_eq!(of(listed(&stage, &mixed).await), ["job-3", "job-2", "job-1"]);
    assert_eq!(
        of(listed(&stage, &["--state", "settled", "--limit", "1"]).await),
        ["job-1"],
        "filtered, then cut"
    );
    assert_eq!(of(listed(&stage, &["--state", "unsettled", "--limit", "1"]).await), ["job-3"]);
    assert!(listed(&stage, &["--limit", "0"]).await.is_empty());
    assert!(listed(&stage, &["--state", "orphaned"]).await.is_empty());
    let table = stage.outcome(&["ops", "list"]).await.exited(0).stdout;
    assert!(table.contains("3 listed, 2 unsettled, 0 of them need a look."), "{table}");
    let wrong = stage.outcome(&["ops", "list", "--state", "gone"]).await.exited(2);
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
    let resolve = ["ops", "resolve", "a", "--as", "stopped", "--note", "why"];
    for args in [
        &["ops", "list"][..],
        &["ops", "watch"],
        &["ops", "watch", "a"],
        &["ops", "show", "a"],
        &["ops", "cancel", "a"],
        &["ops", "retry", "a"],
        &resolve,
    ] {
        let said = stage.outcome(args).await.exited(1);
        assert!(said.stderr.contains(&stage.ledger_file().display().to_string()), "{}", said.stderr);
        assert!(said.stderr.contains("there is no such file"), "{}", said.stderr);
        assert!(said.stderr.contains("name the right ledger with -c or --ledger"), "{}", said.stderr);
        assert!(said.stdout.is_empty());
    }
    assert!(!stage.ledger_file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_of_a_newer_version_is_named_as_such_and_left_alone() {
    use std::os::unix::fs::FileExt as _;
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut order = caller.call(1, "order", tagged("t")).await;
    caller.answer(&mut order).await;
    let row = stage.settled(1).await.remove(0);
    caller.rest().await;
    // SQLite keeps `user_version` here.
    let file = std::fs::OpenOptions::new().write(true).open(stage.ledger_file()).unwrap();
    file.write_all_at(&99_u32.to_be_bytes(), 60).unwrap();
    let before = std::fs::read(stage.ledger_file()).unwrap();
    for args in [
        &["ops", "list"][..],
        &["ops", "watch"],
        &["ops", "watch", id(&row)],
        &["ops", "show", id(&row)],
        &["ops", "cancel", id(&row)],
        &["ops", "retry", id(&row)],
        &["ops", "resolve", id(&row), "--as", "stopped", "--note", "why"],
    ] {
        let said = stage.outcome(args).await.exited(1);
        for word in ["its schema is version 99", "use the countermand that wrote it", "ledger.db"] {
            assert!(said.stderr.contains(word), "{args:?}: {}", said.stderr);
        }
        assert!(said.stdout.is_empty());
    }
    assert_eq!(std::fs::read(stage.ledger_file()).unwrap(), before);
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
