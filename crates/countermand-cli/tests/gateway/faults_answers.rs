//! Results and failures, as the call and its words tell them; and what the upstream must not make us tell.

use crate::{
    faults::{error, stage, success, tag, text, told},
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use countermand_testkit::fake::{FakeUpstream, Fault, Filter, Gate, Route};

/// A job that has done its work, and whose result cannot be had.
async fn has_no_result(door: Door, fault: Fault, words: &[&str]) {
    let stage = stage().await;
    stage.fake.fault(Route::JobResult, fault, None);
    let mut caller = Caller::at(door, &stage).await;
    let mut pending = caller.call(1, "run_report", tag()).await;
    stage.phase("running").await;
    stage.fake.finish("job-1");
    let text = error(&mut caller, &mut pending).await;
    for words in
        [&["It finished upstream, but its result could not be read", "GET /jobs/job-1/result"], words]
            .concat()
    {
        assert!(text.contains(words), "`{words}` is missing: {text}");
    }
    stage.phase("completed").await;
    told(&mut caller, &stage, "finished").await;
    assert_eq!(stage.agree().await.completed, 1);
}

over_all! {
    async fn a_result_larger_than_max_bytes_is_an_error_that_says_so_and_never_cut(door) {
        has_no_result(door, Fault::HugeBody(2 << 20), &["larger than 1048576 bytes", "`max_bytes`"]).await;
    }
}

over_all! {
    async fn a_result_answered_with_500_is_an_error_that_says_so(door) {
        has_no_result(door, Fault::Status(500, None), &["500 Internal Server Error"]).await;
    }
}

over_all! {
    async fn a_result_that_is_not_there_is_an_error_that_says_so(door) {
        has_no_result(door, Fault::Vanish, &["404 Not Found"]).await;
    }
}

over_all! {
    async fn a_result_at_another_origin_is_not_fetched(door) {
        let elsewhere = FakeUpstream::start().await;
        let target = format!("{}/jobs/job-1/result", elsewhere.base_url());
        has_no_result(door, Fault::Redirect(target), &["is not followed: check `base_url`"]).await;
        assert!(elsewhere.events().is_empty(), "{:#?}", elsewhere.events());
    }
}

over_all! {
    async fn a_result_that_trickles_is_waited_for(door) {
        let stage = stage().await;
        stage.fake.fault(Route::JobResult, Fault::Trickle, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.finish("job-1");
        assert_eq!(success(&mut caller, &mut pending).await["tag"], "t");
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.completed, 1);
    }
}

over_all! {
    async fn a_cancel_while_the_result_trickles_sends_nothing_and_says_that_it_finished(door) {
        let stage = stage().await;
        stage.fake.fault(Route::JobResult, Fault::Trickle, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.finish("job-1");
        stage.fake.wait_for("fault_applied", 1).await;
        caller.cancel(pending).await;
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_read_that_is_too_large_or_leads_elsewhere_is_an_error_that_says_so(door) {
        let elsewhere = FakeUpstream::start().await;
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let redirect = Fault::Redirect(format!("{}/quick", elsewhere.base_url()));
        for (id, fault, words) in [
            (1, Fault::HugeBody(2 << 20), "larger than 1048576 bytes"),
            (2, redirect, "is not followed: check `base_url`"),
            (3, Fault::Status(500, None), "500 Internal Server Error"),
            (4, Fault::ResetBeforeCommit, "broke before an answer"),
        ] {
            stage.fake.fault(Route::Quick, fault, Some(1));
            let mut pending = caller.call(id, "quick", tag()).await;
            let result = caller.answer(&mut pending).await;
            assert!(result["isError"] == true && text(&result).contains(words), "`{words}` is missing: {result:#}");
        }
        assert!(elsewhere.events().is_empty(), "{:#?}", elsewhere.events());
        assert!(stage.operations().await.is_empty(), "what only reads has no row");
    }
}

over_all! {
    async fn a_job_that_fails_upstream_fails_the_call_with_the_upstreams_message(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.fail("job-1");
        let text = error(&mut caller, &mut pending).await;
        for words in ["It failed upstream", "rows written", "job-1"] {
            assert!(text.contains(words), "{text}");
        }
        let row = stage.phase("failed").await;
        assert_eq!((row["outcome"].as_str(), row["cause"].as_str()), (Some("failed"), None));
        told(&mut caller, &stage, "failed").await;
        assert_eq!(stage.agree().await.failed, 1);
    }
}

over_all! {
    async fn a_job_that_fails_while_its_cancel_is_held_is_said_to_have_failed(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        held.reached().await;
        stage.fake.fail("job-1");
        held.release();
        stage.phase("failed").await;
        told(&mut caller, &stage, "failed").await;
        assert_eq!(stage.agree().await.failed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

/// An upstream that says back what it was sent, the secret with it: as the message of a failure, as a state that
/// nobody listed, and in place of a create's answer.
const PARROT: &str = r#"
  parrot:
    input: *input
    upstream: parrot
    job:
      create: { request: POST /echo/jobs, headers: { Idempotency-Key: "${op.key}" }, id: $.method }
      status: { request: "GET /echo/jobs/${op.id}", every: 100ms, state: $.method, failed: [GET], succeeded: [done], error: $.headers }
      cancel: { request: "DELETE /echo/jobs/${op.id}" }
      key_window: 24h
      lifetime: 1h
  muttering:
    input: *input
    upstream: parrot
    job:
      create: { request: POST /echo/jobs, headers: { Idempotency-Key: "${op.key}" }, id: $.method }
      status: { request: "GET /echo/jobs/${op.id}", every: 100ms, state: $.headers, succeeded: [done] }
      cancel: { request: "DELETE /echo/jobs/${op.id}" }
      key_window: 24h
      lifetime: 1s
  deaf:
    input: *input
    upstream: parrot
    job:
      create: { request: POST /echo/jobs, id: $.nothing }
      status: { request: "GET /echo/jobs/${op.id}", state: $.method, succeeded: [done] }
      cancel: { request: "DELETE /echo/jobs/${op.id}" }
      lost_id: accept
      lifetime: 1h
"#;

over_all! {
    async fn a_secret_that_the_upstream_says_back_is_in_no_answer_no_log_and_no_ledger(door) {
        let edit = |config: String| {
            let base = config.lines().find(|line| line.contains("base_url")).unwrap().split('"').nth(1).unwrap().to_owned();
            let parrot = format!(
                "upstreams:\n  parrot: {{ http: {{ base_url: \"{base}\", headers: {{ authorization: {{ file: token, prefix: \"Bearer \" }} }} }} }}"
            );
            config.replacen("upstreams:", &parrot, 1) + PARROT
        };
        let stage = Stage::with_config(Times::default(), edit).await;
        std::fs::write(stage.dir.path().join("token"), "hush-hush-4711").unwrap();
        let mut caller = Caller::at(door, &stage).await;

        let mut said = String::new();
        for (id, tool) in [(1, "parrot"), (2, "muttering"), (3, "deaf")] {
            let mut pending = caller.call(id, tool, tag()).await;
            let result = caller.answer(&mut pending).await;
            assert_eq!(result["isError"], true, "{result:#}");
            said += &result.to_string();
        }
        said += &caller.status().await.to_string();
        let rows = stage.operations().await;
        assert_eq!(rows.len(), 3);
        for row in rows {
            said += &row.to_string();
            said += &stage.run(&["ops", "show", row["id"].as_str().unwrap()]).await.0;
        }
        said += &caller.logs();
        let asked: Vec<_> = stage.fake.events().into_iter().filter(|event| event.is("request")).collect();
        assert!(asked.len() >= 4, "{asked:#?}");
        assert!(said.contains("authorization"), "the upstream's words do come through: {said}");
        assert!(!said.contains("hush-hush"), "{said}");
        for file in std::fs::read_dir(stage.dir.path()).unwrap().flatten().filter(|file| file.file_name() != "token") {
            let bytes = std::fs::read(file.path()).unwrap();
            assert!(!bytes.windows(9).any(|window| window == b"hush-hush"), "in {:?}", file.file_name());
        }
    }
}
