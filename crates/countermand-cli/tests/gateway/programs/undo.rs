//! What a program has done is undone by another, and so is what a job has done.

use super::{Caller, Door, Programs, settled};
use crate::over_all;
use serde_json::json;

/// Tools that write a file, and undo that; `DIR` is where.
fn tools(dir: &std::path::Path) -> String {
    let tools = r#"
  writes:
    input: { type: object, properties: { name: { type: string } }, required: [name] }
    command: { run: SH 'echo half > "$1"; WITNESS & wait', sh, "DIR/${args.name}"], stop: { grace: 300ms } }
    compensate:
      - { run: [cp, "DIR/${args.name}", "DIR/was"] }
      - { run: [rm, --, "DIR/${args.name}"] }
  fails_undone:
    command: { run: SH 'echo half > DIR/f; exit 1'] }
    compensate: [ { run: [rm, DIR/f] } ]
  undo_fails_at_first:
    command: { run: SH 'WITNESS & wait'], stop: { grace: 300ms } }
    compensate: [ { run: SH 'test -e DIR/tried && exit 0; touch DIR/tried; echo not yet >&2; exit 1'] } ]
  no_undo_program:
    command: { run: SH 'WITNESS & wait'], stop: { grace: 300ms } }
    compensate: [ { run: [no-such-program-anywhere] } ]
  job_with_program:
    input: *input
    upstream: reports
    job: *job
    compensate: [ { run: SH 'echo "$1 $2" > DIR/undone', sh, "${args.tag}", "${op.undo_key}"] } ]
"#;
    tools.replace("DIR", &dir.display().to_string())
}

over_all! {
    async fn what_it_did_is_undone_in_order_once_nothing_of_it_lives(door) {
        let place = tempfile::tempdir().unwrap();
        let programs = Programs::with(&tools(place.path())).await;
        let mut caller = Caller::at(door, &programs.stage).await;
        let pending = caller.call(1, "writes", json!({ "name": "a b; c" })).await;
        programs.arrived(1).await;
        assert!(place.path().join("a b; c").exists());
        caller.cancel(pending).await;
        programs.gone().await;
        let row = settled(&programs.stage).await;
        assert_eq!(row["phase"], "compensated", "{row:#}");
        assert!(!place.path().join("a b; c").exists());
        assert_eq!(std::fs::read_to_string(place.path().join("was")).unwrap(), "half\n");
        let mut failing = caller.call(2, "fails_undone", json!({})).await;
        assert_eq!(caller.answer(&mut failing).await["isError"], true);
        programs.stage.settled(2).await;
        assert!(!place.path().join("f").exists());
        programs.stage.finish(caller, &[1]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_that_fails_is_tried_again_and_one_that_cannot_be_is_left_to_an_operator() {
    let place = tempfile::tempdir().unwrap();
    let programs = Programs::with(&tools(place.path())).await;
    let mut caller = Caller::at(Door::Stdio, &programs.stage).await;
    for (id, tool) in [(1, "undo_fails_at_first"), (2, "no_undo_program")] {
        let pending = caller.call(id, tool, json!({})).await;
        programs.arrived(id as usize).await;
        caller.cancel(pending).await;
        programs.gone().await;
    }
    let rows = programs
        .stage
        .operations_when("both as far as they come", |rows| {
            rows.len() == 2 && rows[0]["phase"] == "compensation_failed" && rows[1]["phase"] == "compensated"
        })
        .await;
    let error = rows[0]["last_error"].as_str().unwrap();
    assert!(error.contains("there is no such program on the PATH"), "{error}");
    let shown = programs.stage.outcome(&["ops", "show", rows[0]["id"].as_str().unwrap()]).await.exited(0);
    assert!(shown.stdout.contains("no-such-program-anywhere"), "{}", shown.stdout);
    programs.stage.finish(caller, &[1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_job_can_be_undone_by_a_program_of_ours() {
    let place = tempfile::tempdir().unwrap();
    let programs = Programs::with(&tools(place.path())).await;
    let mut caller = Caller::at(Door::Stdio, &programs.stage).await;
    let pending = caller.call_of(1, "job_with_program", json!({ "tag": "t u" })).await;
    caller.cancel(pending).await;
    let row = settled(&programs.stage).await;
    assert_eq!(row["phase"], "compensated", "{row:#}");
    let said = std::fs::read_to_string(place.path().join("undone")).unwrap();
    let (tag, key) = said.trim().rsplit_once(' ').unwrap();
    assert!(tag == "t u" && key.len() == 36, "{said}");
    programs.stage.finish(caller, &[1]).await;
}
