//! `ops watch`: what changes, as it does, whatever becomes of the gateway.

use super::{a_running_job, has_all_keys, id, tagged};
use crate::stage::{Caller, Door, Outcome, Stage, signal};
use countermand_testkit::{
    client::message,
    fake::{Fault, Filter, Gate, Route},
};
use serde_json::{Value, json};
use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A running `ops watch`.
struct Watch {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
}

impl Watch {
    fn start(stage: &Stage, words: &[&str]) -> Self {
        let mut command = stage.command(&[&["ops", "watch"], words].concat());
        command.arg("-c").arg(stage.config()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, seen: Vec::new() }
    }

    /// The next line; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing more came after {:#?}", self.seen)).unwrap();
        self.seen.extend(line.clone());
        line
    }

    /// Reads up to the line that has all these words.
    async fn until(&mut self, words: &[&str]) -> String {
        loop {
            let line = self.next().await;
            let line = line.unwrap_or_else(|| panic!("{words:?} never came: {:#?}", self.seen));
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    /// Reads JSON up to this phase.
    async fn phase(&mut self, phase: &str) -> Value {
        let line = self.until(&[&format!(r#""phase":"{phase}""#)]).await;
        serde_json::from_str(&line).unwrap()
    }

    /// Reads to the end.
    async fn ended(mut self) -> (ExitStatus, Vec<String>) {
        while self.next().await.is_some() {}
        (self.process.wait().await.unwrap(), self.seen)
    }

    /// Presses Ctrl-C. What was printed in all.
    async fn interrupted(self) -> Vec<String> {
        signal(self.process.id(), "INT");
        let (status, seen) = self.ended().await;
        assert_eq!(status.code(), Some(0), "{seen:#?}");
        seen
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_comes_first_and_then_every_change_until_ctrl_c() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let first = caller.call(1, "run_report", tagged("t1")).await;
    let row = stage.phase("running").await;
    let mut watch = Watch::start(&stage, &[]);
    let line = watch.until(&["running"]).await;
    assert!(line.contains(id(&row)) && line.contains("run_report") && !line.contains('→'), "{line}");
    let at = line.split_whitespace().next().unwrap();
    assert!(at.parse::<jiff::Timestamp>().is_ok(), "{at}");
    caller.call(2, "with_undo", tagged("t2")).await;
    watch.until(&["with_undo", "- → intent"]).await;
    watch.until(&["with_undo", "dispatched → running", "job-2"]).await;
    caller.cancel(first).await;
    watch.until(&[id(&row), "running → cancel_requested", "client_cancelled"]).await;
    watch.until(&[id(&row), "ended → cancelled"]).await;
    let seen = watch.interrupted().await;
    let of_one: Vec<&str> = seen
        .iter()
        .filter(|line| line.contains(id(&row)))
        .map(|line| line.split("  ").nth(3).unwrap().trim())
        .collect();
    assert_eq!(
        of_one,
        [
            "running",
            "running → cancel_requested",
            "cancel_requested → cancelling",
            "cancelling → ended",
            "ended → cancelled"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_begins_and_ends_between_two_looks_is_shown_all_the_same() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut text = Watch::start(&stage, &[]);
    let mut json = Watch::start(&stage, &["--json"]);
    // Once a job that stays is seen, both look.
    caller.call(1, "run_report", tagged("t1")).await;
    text.until(&["running"]).await;
    json.phase("running").await;
    let mut order = caller.call(2, "order", tagged("t2")).await;
    assert_eq!(caller.answer(&mut order).await["isError"], false);
    text.until(&["order", "- → intent"]).await;
    text.until(&["order", "→ completed"]).await;
    let row = json.phase("completed").await;
    has_all_keys(&row);
    assert_eq!((&row["tool"], &row["settled"]), (&json!("order"), &json!(true)));
    for watch in [text, json] {
        let seen = watch.interrupted().await;
        let ends = seen
            .iter()
            .filter(|line| line.contains("→ completed") || line.contains(r#""phase":"completed""#));
        assert_eq!(ends.count(), 1, "told once: {seen:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_outlives_the_gateway_and_sees_what_the_next_one_does() {
    let stage = Stage::new().await;
    let (mut caller, row) = a_running_job(Door::Http, &stage).await;
    let mut watch = Watch::start(&stage, &["--json"]);
    watch.phase("running").await;
    caller.kill().await;
    let mut absent = Watch::start(&stage, &[]);
    absent.until(&[id(&row), "running"]).await;
    // Without a gateway the command itself drives the row.
    stage.outcome(&["ops", "cancel", id(&row)]).await.exited(0);
    assert_eq!(watch.phase("cancelled").await["cause"], "operator");
    absent.until(&["→ cancelled"]).await;
    let mut next = Caller::at(Door::Stdio, &stage).await;
    next.call(1, "run_report", tagged("t2")).await;
    assert_eq!(watch.phase("running").await["upstream_id"], "job-2");
    absent.until(&["→ running", "job-2"]).await;
    for watch in [watch, absent] {
        watch.interrupted().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_a_second_gateway_makes_meanwhile_is_watched_too() {
    let stage = Stage::new().await;
    let (_caller, _) = a_running_job(Door::Stdio, &stage).await;
    let mut watch = Watch::start(&stage, &[]);
    watch.until(&["running"]).await;
    let mut second = stage.stdio().await;
    assert!(stage.dir.path().join("ledger.2.db").exists());
    second.send(&message::call(1, "with_undo", tagged("t2"))).await;
    watch.until(&["with_undo", "→ running"]).await;
    second.kill().await;
    // The first finishes what the second left.
    watch.until(&["with_undo", "→ compensated"]).await;
    watch.interrupted().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_has_gone_ends_a_watch_though_nothing_changes() {
    let stage = Stage::new().await;
    let (_caller, row) = a_running_job(Door::Stdio, &stage).await;
    for words in [&[][..], &["--json"], &[id(&row)]] {
        let mut watch = Watch::start(&stage, words);
        watch.next().await;
        let Watch { mut process, lines, .. } = watch;
        drop(lines);
        let status = tokio::time::timeout(PATIENCE, process.wait()).await.expect("it ends").unwrap();
        assert_eq!(status.code(), Some(0), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_operation_is_followed_until_it_is_settled() {
    let stage = Stage::new().await;
    let (_caller, row) = a_running_job(Door::Stdio, &stage).await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let mut text = Watch::start(&stage, &[&id(&row)[28..]]);
    let mut json = Watch::start(&stage, &[id(&row), "--json"]);
    text.until(&["created", "running", "job-1"]).await;
    json.phase("running").await;
    stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
    held.reached().await;
    text.until(&["cancel_wanted", "operator"]).await;
    json.phase("cancel_requested").await;
    held.release();
    let (status, seen) = text.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(seen[0].contains(id(&row)) && seen[0].contains("run_report"), "{seen:#?}");
    assert!(seen[seen.len() - 2].contains("└─ seen_ended"), "{seen:#?}");
    assert!(seen.last().unwrap().contains("the upstream confirmed it"), "{seen:#?}");
    let (status, seen) = json.ended().await;
    assert_eq!(status.code(), Some(0));
    let last: Value = serde_json::from_str(seen.last().unwrap()).unwrap();
    has_all_keys(&last);
    assert_eq!((&last["phase"], &last["settled"]), (&json!("cancelled"), &json!(true)));
    // The whole story, once more: it is what `show` tells.
    let (_, again) = Watch::start(&stage, &[id(&row)]).ended().await;
    let shown = stage.outcome(&["ops", "show", id(&row)]).await.exited(0).stdout;
    for line in &again[1..again.len() - 1] {
        assert!(shown.contains(line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_choose_what_is_shown_at_first_and_what_enters_or_leaves_them() {
    let stage = Stage::new().await;
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    let (mut caller, row) = a_running_job(Door::Stdio, &stage).await;
    let mut watch = Watch::start(&stage, &["--state", "orphaned"]);
    let mut json = Watch::start(&stage, &["--state", "orphaned", "--state", "resolved", "--json"]);
    let mut all = Watch::start(&stage, &[]);
    all.until(&["running"]).await;
    caller.call(2, "run_report", tagged("t2")).await;
    all.until(&["→ running", "job-2"]).await;
    stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
    let line = watch.until(&["→ orphaned"]).await;
    assert!(line.contains("operator") && line.contains("401"), "{line}");
    json.phase("orphaned").await;
    let words = ["ops", "resolve", id(&row), "--as", "ignored", "--note", "a test"];
    stage.outcome(&words).await.exited(0);
    watch.until(&["orphaned → resolved", "ignored: a test"]).await;
    json.phase("resolved").await;
    for watch in [watch, json] {
        let seen = watch.interrupted().await;
        assert!(seen.iter().all(|line| line.contains("orphaned") || line.contains("resolved")), "{seen:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_cuts_what_is_there_at_first_and_nothing_that_changes() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut calls = Vec::new();
    for call in 1..=3 {
        calls.push(caller.call(call, "run_report", tagged(&format!("t{call}"))).await);
        stage.fake.wait_for("job_created", usize::try_from(call).unwrap()).await;
    }
    stage
        .operations_when("all", |rows| rows.iter().filter(|row| row["phase"] == "running").count() == 3)
        .await;
    let mut watch = Watch::start(&stage, &["--json", "--limit", "2"]);
    assert_eq!(watch.phase("running").await["upstream_id"], "job-2", "the oldest of the newest comes first");
    assert_eq!(watch.phase("running").await["upstream_id"], "job-3");
    caller.cancel(calls.remove(0)).await;
    assert_eq!(watch.phase("cancelled").await["upstream_id"], "job-1");
    watch.interrupted().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_what_is_not_there_says_so() {
    let stage = Stage::new().await;
    let said = stage.outcome(&["ops", "watch"]).await.exited(1);
    assert!(said.stderr.contains("there is no such file"), "{}", said.stderr);
    let config = stage.config().display().to_string();
    for more in [&["--state", "orphaned"][..], &["--limit", "1"]] {
        let args = [&["ops", "watch", "abc", "-c", &config], more].concat();
        Outcome::of(stage.command(&args)).await.exited(2);
    }
}
