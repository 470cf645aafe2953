//! What a person sees: tables on a real terminal, of any width; and what a program gets instead.

use super::{a_running_job, id, tagged};
use crate::stage::{BINARY, Caller, Door, Outcome, Stage};
use countermand_testkit::fake::{Fault, Route};
use serde_json::Value;
use tokio::process::Command;

/// Runs `countermand ARGS -c CONFIG` on a terminal of its own, so many columns wide; `None` where no terminal can be had.
async fn on_a_terminal(stage: &Stage, columns: usize, args: &[&str]) -> Option<Vec<String>> {
    let line = format!("stty cols {columns} rows 24 && {BINARY} {} -c config.yaml", args.join(" "));
    script(stage, columns, &line).await
}

/// Runs a line of shell on a terminal of its own.
async fn script(stage: &Stage, columns: usize, line: &str) -> Option<Vec<String>> {
    if Command::new("script").arg("--version").output().await.is_err() {
        println!("skipped: `script` of util-linux is not here");
        return None;
    }
    let mut script = Command::new("script");
    script.args(["-qec", line, "/dev/null"]).current_dir(stage.dir.path()).env("COUNTERMAND_LOG", "warn");
    let said = Outcome::of(script).await.exited(0).stdout;
    println!("{}\n{said}", "-".repeat(columns));
    Some(said.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect())
}

/// Three operations: one that runs, one that was cancelled, one whose cancel is refused.
async fn three_operations(stage: &Stage) -> (Caller, Vec<Value>) {
    let mut caller = Caller::at(Door::Stdio, stage).await;
    for call in 1..=2 {
        caller.call(call, "run_report", tagged(&format!("t{call}"))).await;
        stage.fake.wait_for("job_created", usize::try_from(call).unwrap()).await;
    }
    let first =
        stage.operations_when("two", |rows| rows.iter().filter(|row| row["phase"] == "running").count() == 2);
    stage.outcome(&["ops", "cancel", id(&first.await[1])]).await.exited(0);
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    let pending = caller.call(3, "with_undo", tagged("t3")).await;
    stage.fake.wait_for("job_created", 3).await;
    stage.operations_when("the third", |rows| rows[0]["phase"] == "running").await;
    caller.cancel(pending).await;
    let rows = stage.operations_when("an orphan", |rows| rows[0]["phase"] == "orphaned").await;
    (caller, rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_fits_the_terminal_and_every_id_in_it_is_one_that_show_takes() {
    let stage = Stage::new().await;
    let (_caller, rows) = three_operations(&stage).await;
    for columns in [200, 80, 40, 20, 5] {
        let Some(lines) = on_a_terminal(&stage, columns, &["ops", "list"]).await else { return };
        let (errors, table): (Vec<&String>, Vec<&String>) =
            lines.iter().take_while(|line| !line.starts_with("3 ")).partition(|line| line.starts_with("  "));
        for line in table.iter().chain(&errors) {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        assert_eq!((table.len(), errors.len()), (4, usize::from(columns < 140)), "{columns}: {lines:#?}");
        if columns < 40 {
            continue;
        }
        assert!(lines.iter().any(|line| line.contains("answered 401")) || columns == 40, "{lines:#?}");
        assert!(lines[1].ends_with('…') || lines[2].ends_with('…'), "{lines:#?}");
        for (line, row) in table[1..].iter().zip(&rows) {
            assert!(line.contains(row["phase"].as_str().unwrap()), "{columns}: {line}");
            let short = line.split_whitespace().find(|word| word.starts_with('…')).unwrap();
            assert!(short.chars().count() > 8 && id(row).ends_with(&short['…'.len_utf8()..]), "{line}");
            let shown = stage.outcome(&["ops", "show", short]).await.exited(0);
            assert!(shown.stdout.contains(id(row)), "{}", shown.stdout);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_gets_whole_ids_and_errors_one_operation_a_line() {
    let stage = Stage::new().await;
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    let (_caller, row) = a_running_job(Door::Stdio, &stage).await;
    stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
    let row = stage.phase("orphaned").await;
    let said = stage.outcome(&["ops", "list"]).await.exited(0).stdout;
    let line = said.lines().nth(1).unwrap();
    for whole in [id(&row), row["last_error"].as_str().unwrap(), "operator", "orphaned", "job-1"] {
        assert!(line.contains(whole), "`{whole}` is missing: {line}");
    }
    let mut words = line.split_whitespace();
    assert!(words.next().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
    assert_eq!(words.next(), Some(id(&row)));
    assert_eq!(said.lines().count(), 3, "{said}");
}

/// `timeout` of coreutils presses Ctrl-C after a while: a terminal's watch has no other end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_fits_the_terminal_one_line_a_change() {
    let stage = Stage::new().await;
    stage.fake.fault(Route::CancelJob, Fault::Status(401, None), None);
    let (_caller, row) = a_running_job(Door::Stdio, &stage).await;
    stage.outcome(&["ops", "cancel", id(&row), "--no-wait"]).await.exited(0);
    stage.phase("orphaned").await;
    for columns in [200, 80, 40, 5] {
        let line = format!(
            "stty cols {columns} rows 24; timeout --preserve-status -s INT 1 {BINARY} ops watch -c config.yaml"
        );
        let Some(lines) = script(&stage, columns, &line).await else { return };
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0].chars().count() <= columns, "{columns}: {}", lines[0]);
        assert!(lines[0].contains("orphaned") || columns < 40, "{columns}: {}", lines[0]);
    }
}
