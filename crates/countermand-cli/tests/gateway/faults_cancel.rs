//! Cancel endpoints that fail, hang, deny, refuse or put off.

use crate::{
    faults::{alarmed, cancel, requests, stage, tag, told},
    over_all,
    stage::{Caller, Door},
};
use countermand_testkit::fake::{Event, Fault, Filter, Gate, Route};
use serde_json::json;

over_all! {
    async fn a_cancel_answered_with_503_is_sent_again_and_stops_the_job(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::Status(503, None), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        let row = stage.phase("cancelled").await;
        assert!(row["last_error"].as_str().unwrap().contains("503"), "{row:#}");
        assert_eq!(requests(&stage, Route::CancelJob).len(), 2);
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancel_whose_answer_is_lost_is_settled_by_the_status_alone(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::ResetAfterCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.phase("cancelled").await;
        assert_eq!(requests(&stage, Route::CancelJob).len(), 1);
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancel_endpoint_that_hangs_makes_an_orphan_in_time_and_nothing_else_waits_for_it(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::HangBeforeCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.fake.wait_for("fault_applied", 1).await;
        caller.barrier().await;
        told(&mut caller, &stage, "cancel_pending").await;
        let row = stage.phase("orphaned").await;
        alarmed(&caller, &[row["id"].as_str().unwrap(), "job-1", row["key"].as_str().unwrap(), "todo"]).await;
        told(&mut caller, &stage, "orphaned").await;
        caller.barrier().await;
        let mut next = caller.call(2, "quick", tag()).await;
        assert_eq!(caller.answer(&mut next).await["structuredContent"]["quick"], true);
        // The hanging attempt is given up, the next one is obeyed: the orphan's debt is paid.
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancel_answered_with_404_409_or_410_is_a_receipt_and_the_status_tells_the_rest(door) {
        let stage = stage().await;
        let codes = [404_u16, 409, 410];
        let mut caller = Caller::at(door, &stage).await;
        let mut all = Vec::new();
        for (id, code) in (1..).zip(codes) {
            let filter = Filter { route: Some(Route::CancelJob), tag: Some(code.to_string()), marker: None };
            stage.fake.fault_for(filter, Fault::Status(code, None), Some(1));
            all.push(caller.call(id, "run_report", json!({ "tag": code.to_string() })).await);
        }
        stage.operations_when("three jobs", |rows| rows.iter().filter(|row| row["phase"] == "running").count() == 3).await;
        for pending in all {
            caller.cancel(pending).await;
        }
        let rows = stage.settled(3).await;
        assert!(rows.iter().all(|row| row["phase"] == "cancelled"), "{rows:#?}");
        // It is read, it runs on, and only then it is cancelled once more, not sooner than a second later.
        for code in codes {
            let events = stage.fake.events();
            let of = |route| {
                let is = move |event: &&Event| event.route == Some(route) && event.is("request");
                events.iter().filter(is).filter(move |event| event.tagged(&code.to_string()))
            };
            let cancels: Vec<f64> = of(Route::CancelJob).map(|event| event.at).collect();
            assert!(cancels.len() == 2 && cancels[1] - cancels[0] >= 950.0, "no storm at {code}: {cancels:?}");
            let read = of(Route::JobStatus).any(|event| event.at > cancels[0] && event.at < cancels[1]);
            assert!(read, "the status is read after {code}");
        }
        assert_eq!(stage.agree().await.cancelled, 3);
        caller.nothing_was_sent_for(&[1, 2, 3]).await;
    }
}

over_all! {
    async fn a_cancel_of_a_job_that_has_just_finished_says_that_it_finished(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        held.reached().await;
        assert!(stage.fake.finish("job-1"));
        held.release();
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(requests(&stage, Route::CancelJob).len(), 1, "a 409 is enough");
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

/// A cancel that our credentials do not allow.
async fn is_alarming_and_not_tried_fast(door: Door, code: u16) {
    let stage = stage().await;
    stage.fake.fault(Route::CancelJob, Fault::Status(code, None), None);
    let mut caller = Caller::at(door, &stage).await;
    let pending = caller.call(1, "run_report", tag()).await;
    stage.phase("running").await;
    caller.cancel(pending).await;
    let row = stage.phase("orphaned").await;
    let ids = [row["id"].as_str().unwrap(), "job-1", row["key"].as_str().unwrap()];
    alarmed(&caller, &[&ids[..], &["credentials", "todo"]].concat()).await;
    alarmed(&caller, &[&ids[..], &["may still run upstream"]].concat()).await;
    let text = row["last_error"].as_str().unwrap();
    assert!(text.contains(&code.to_string()) && text.contains("check what it accepts"), "{text}");
    // Nothing is due for most of a minute.
    let rows = stage
        .operations_when("a long pause", |rows| {
            let at = |name: &str| rows[0][name].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
            at("next_at")
                .zip(at("updated_at"))
                .is_some_and(|(next, updated)| next.duration_since(updated).as_secs() >= 50)
        })
        .await;
    assert_eq!(rows[0]["phase"], "orphaned");
    assert_eq!(requests(&stage, Route::CancelJob).len(), 1);
    told(&mut caller, &stage, "orphaned").await;
    assert_eq!(stage.agree().await.live, 1);
}

over_all! {
    async fn a_cancel_answered_with_401_is_an_orphan_at_once_and_an_alarm_without_fast_retries(door) {
        is_alarming_and_not_tried_fast(door, 401).await;
    }
}

over_all! {
    async fn a_cancel_answered_with_403_is_an_orphan_at_once_and_an_alarm_without_fast_retries(door) {
        is_alarming_and_not_tried_fast(door, 403).await;
    }
}

over_all! {
    async fn a_cancel_put_off_with_429_is_sent_again_when_the_upstream_said(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::Status(429, Some(2)), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        cancel(&mut caller, pending, &stage).await;
        stage.fake.wait_for("job_cancelled", 1).await;
        let sent = requests(&stage, Route::CancelJob);
        assert!(sent.len() == 2 && sent[1] - sent[0] >= 1_950.0, "Retry-After counts: {sent:?}");
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}
