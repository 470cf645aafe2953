//! What is undone after a stop, what is kept, and undo requests that fail.

use crate::{
    faults::{alarmed, error, requests, stage, success, tag, told},
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use countermand_testkit::fake::{Event, EventKind, Fault, Filter, Gate, Route};
use serde_json::json;

/// Where in the record the first event of a kind is.
fn first(events: &[Event], kind: &str) -> usize {
    events.iter().position(|event| event.is(kind)).unwrap_or_else(|| panic!("no {kind}"))
}

over_all! {
    async fn after_a_stop_the_rows_are_deleted_and_the_words_say_undone(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "with_undo", tag()).await;
        stage.phase("running").await;
        assert_eq!(stage.fake.rows("t"), 1);
        caller.cancel(pending).await;
        let row = stage.phase("compensated").await;
        assert_eq!(row["outcome"], "cancelled");
        assert_eq!(stage.fake.rows("t"), 0);
        let events = stage.fake.events();
        assert!(first(&events, "job_cancelled") < first(&events, "rows_deleted"), "never before the end");
        assert_eq!(requests(&stage, Route::DeleteRows).len(), 1);
        told(&mut caller, &stage, "undone").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn an_undo_answered_with_500_is_pending_and_sent_again(door) {
        let stage = stage().await;
        stage.fake.fault(Route::DeleteRows, Fault::Status(500, None), Some(1));
        let undo = stage.fake.hold(Gate::RequestHead, Filter { route: Some(Route::DeleteRows), ..Filter::default() });
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "with_undo", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        undo.release_one();
        undo.reached_n(2).await;
        stage.phase("compensating").await;
        told(&mut caller, &stage, "undo_pending").await;
        assert_eq!(stage.fake.rows("t"), 1);
        undo.release();
        stage.phase("compensated").await;
        assert_eq!((stage.fake.rows("t"), requests(&stage, Route::DeleteRows).len()), (0, 2));
        told(&mut caller, &stage, "undone").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn an_undo_that_is_refused_is_left_to_an_operator_visibly(door) {
        let stage = stage().await;
        stage.fake.fault(Route::DeleteRows, Fault::Status(403, None), None);
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "with_undo", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        let row = stage.phase("compensation_failed").await;
        assert_eq!((row["settled"].as_bool(), row["outcome"].as_str()), (Some(false), Some("cancelled")));
        let text = row["last_error"].as_str().unwrap();
        assert!(text.contains("undo 1 was refused") && text.contains("403"), "{text}");
        alarmed(&caller, &["could not be undone", row["id"].as_str().unwrap(), "job-1", "ops resolve"]).await;
        assert_eq!((stage.fake.rows("t"), requests(&stage, Route::DeleteRows).len()), (1, 1));
        told(&mut caller, &stage, "needs_operator").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn an_undo_that_finds_nothing_any_more_is_done(door) {
        let stage = stage().await;
        stage.fake.fault(Route::DeleteRows, Fault::StatusAfterCommit(404), None);
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "with_undo", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.phase("compensated").await;
        told(&mut caller, &stage, "undone").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_job_that_fails_is_undone_too_and_the_call_learns_why_it_failed(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "with_undo", tag()).await;
        stage.phase("running").await;
        stage.fake.fail("job-1");
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("It failed upstream"), "{text}");
        stage.phase("compensated").await;
        assert_eq!(stage.fake.rows("t"), 0);
        told(&mut caller, &stage, "undone").await;
        assert_eq!(stage.agree().await.failed, 1);
    }
}

over_all! {
    async fn a_job_that_completes_without_a_cancel_is_not_undone(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "with_undo", tag()).await;
        stage.phase("running").await;
        stage.fake.finish("job-1");
        assert_eq!(success(&mut caller, &mut pending).await["rows"], 1);
        stage.phase("completed").await;
        assert_eq!((stage.fake.rows("t"), requests(&stage, Route::DeleteRows).len()), (1, 0));
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.completed, 1);
    }
}

over_all! {
    async fn what_completed_before_its_cancel_is_undone_where_an_undo_is_given(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "with_undo", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        held.reached().await;
        stage.fake.finish("job-1");
        held.release();
        let row = stage.phase("compensated").await;
        assert_eq!((row["outcome"].as_str(), stage.fake.rows("t")), (Some("completed"), 0));
        told(&mut caller, &stage, "undone").await;
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn what_completed_before_its_cancel_is_kept_where_the_config_says_keep(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "kept", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        held.reached().await;
        stage.fake.finish("job-1");
        held.release();
        stage.phase("completed").await;
        assert_eq!((stage.fake.rows("t"), requests(&stage, Route::DeleteRows).len()), (1, 0));
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn what_is_kept_when_it_completed_is_undone_when_it_was_stopped(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "kept", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.phase("compensated").await;
        assert_eq!(stage.fake.rows("t"), 0);
        told(&mut caller, &stage, "undone").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

/// The idempotency keys of the requests of a kind, in their order.
fn keys(stage: &Stage, route: Route) -> Vec<String> {
    let events = stage.fake.events();
    let of = events.iter().filter(|event| event.route == Some(route));
    of.filter_map(|event| match &event.kind {
        EventKind::Request { key, .. } => key.clone(),
        _ => None,
    })
    .collect()
}

const TWO_UNDOS: &str = r#"
  two_undos:
    input: *input
    upstream: reports
    job: *job
    compensate:
      - { request: DELETE /rows, query: { tag: "${args.tag}" }, headers: { Idempotency-Key: "${op.undo_key}" } }
      - { request: "PUT /jobs/${op.id}/label", body: { undone: true }, headers: { Idempotency-Key: "${op.undo_key}" } }
"#;

over_all! {
    async fn each_undo_has_a_key_of_its_own_and_what_was_undone_before_one_failed_can_be_seen(door) {
        let stage = Stage::with_config(Times::default(), |config| config + TWO_UNDOS).await;
        stage.fake.fault(Route::DeleteRows, Fault::Status(503, None), Some(1));
        stage.fake.fault(Route::Label, Fault::Status(400, None), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "two_undos", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        let row = stage.phase("compensation_failed").await;
        let id = row["id"].as_str().unwrap();
        assert!(row["last_error"].as_str().unwrap().contains("undo 2 was refused"), "{row:#}");
        let shown = stage.outcome(&["ops", "show", id]).await.exited(0).stdout;
        for part in ["1. DELETE /rows?tag=${args.tag}: done", "2. PUT /jobs/${op.id}/label: failed", "undo 2 was refused"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let shown = stage.outcome(&["ops", "show", id, "--json"]).await.exited(0).stdout;
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["undo"], json!([
            { "request": "DELETE /rows?tag=${args.tag}", "state": "done" },
            { "request": "PUT /jobs/${op.id}/label", "state": "failed" },
        ]));
        stage.outcome(&["ops", "retry", id]).await.exited(0);
        stage.phase("compensated").await;
        let (first, second) = (keys(&stage, Route::DeleteRows), keys(&stage, Route::Label));
        assert!(first.len() == 2 && first[0] == first[1], "a retry keeps its key: {first:?}");
        assert!(second.len() == 2 && second[0] == second[1], "also an operator's: {second:?}");
        assert!(first[0] != second[0] && row["key"] != json!(first[0]), "each has its own");
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}
