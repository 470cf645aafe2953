//! Status reads that fail, lie low, trickle or lead elsewhere while a job runs.

use crate::{
    faults::{alarmed, error, requests, stage, success, tag, told},
    over_all,
    stage::{Caller, Door},
};
use countermand_testkit::fake::{EventKind, FakeUpstream, Fault, Filter, Gate, Route};

over_all! {
    async fn a_running_job_whose_id_vanishes_for_ten_seconds_is_an_orphan_and_the_call_fails_saying_so(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.fault(Route::JobStatus, Fault::Vanish, None);
        let row = stage.phase("orphaned").await;
        let events = stage.fake.events();
        let missing: Vec<f64> = events.iter().filter(|event| event.is("fault_applied")).map(|event| event.at).collect();
        assert!(missing[missing.len() - 1] - missing[0] >= 9_500.0, "ten seconds of 404: {missing:?}");
        let text = error(&mut caller, &mut pending).await;
        for words in ["may still run there", "has not known the id for 10 s", "job-1"] {
            assert!(text.contains(words), "{text}");
        }
        alarmed(&caller, &["may still run upstream", row["id"].as_str().unwrap(), "job-1"]).await;
        told(&mut caller, &stage, "orphaned").await;
        assert_eq!(stage.agree().await.live, 1);
        // The day the upstream knows it again, it is followed to its end.
        stage.fake.clear_faults();
        stage.phase("running").await;
        told(&mut caller, &stage, "running").await;
        stage.fake.finish("job-1");
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.completed, 1);
    }
}

over_all! {
    async fn a_job_that_is_unknown_for_a_moment_is_not_lost(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.fault(Route::JobStatus, Fault::Vanish, Some(2));
        stage.fake.wait_for("fault_applied", 2).await;
        stage.fake.finish("job-1");
        success(&mut caller, &mut pending).await;
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.completed, 1);
    }
}

over_all! {
    async fn status_reads_that_fail_are_repeated_and_the_call_gets_its_result(door) {
        let stage = stage().await;
        for fault in [Fault::Status(500, None), Fault::NotJson, Fault::HugeBody(2 << 20), Fault::ResetBeforeCommit] {
            stage.fake.fault(Route::JobStatus, fault, Some(1));
        }
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("fault_applied", 4).await;
        stage.fake.wait_for("job_polled", 3).await;
        stage.fake.finish("job-1");
        success(&mut caller, &mut pending).await;
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.completed, 1);
    }
}

over_all! {
    async fn a_cancel_does_not_wait_for_a_status_read_that_trickles(door) {
        let stage = stage().await;
        let polled = stage.fake.hold(Gate::ResponseHead, Filter { route: Some(Route::JobStatus), ..Filter::default() });
        stage.fake.fault(Route::JobStatus, Fault::Trickle, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        polled.reached().await;
        polled.release();
        caller.cancel(pending).await;
        stage.phase("cancelled").await;
        let events = stage.fake.events();
        let aborted = |kind: &EventKind| matches!(kind, EventKind::ClosedEarly { target, .. } if target == "/jobs/job-1");
        assert!(events.iter().any(|event| aborted(&event.kind)), "the read is given up, its connection closed");
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancel_does_not_wait_for_a_status_read_that_hangs(door) {
        let stage = stage().await;
        stage.fake.fault(Route::JobStatus, Fault::HangBeforeCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("fault_applied", 1).await;
        caller.cancel(pending).await;
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_status_or_a_cancel_that_leads_to_another_origin_is_not_followed(door) {
        let elsewhere = FakeUpstream::start().await;
        let stage = stage().await;
        let target = format!("{}/jobs/job-1?token=hush", elsewhere.base_url());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.fault(Route::JobStatus, Fault::Redirect(target.clone()), Some(2));
        stage.fake.wait_for("fault_applied", 2).await;
        let row = stage.operations_when("the redirect", |rows| !rows[0]["last_error"].is_null()).await.remove(0);
        let text = row["last_error"].as_str().unwrap();
        assert!(text.contains("is not followed: check `base_url`") && !text.contains("hush"), "{text}");
        stage.fake.fault(Route::CancelJob, Fault::Redirect(target), Some(1));
        caller.cancel(pending).await;
        stage.phase("cancelled").await;
        assert_eq!(requests(&stage, Route::CancelJob).len(), 2);
        assert!(elsewhere.events().is_empty(), "{:#?}", elsewhere.events());
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_job_cancelled_by_somebody_else_is_told_to_the_call_and_confirmed_first(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        let reply = delete(&stage.fake, "/jobs/job-1").await;
        assert!(reply.starts_with("HTTP/1.1 202"), "{reply}");
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("cancelled upstream, not by this call"), "{text}");
        let row = stage.phase("cancelled").await;
        assert_eq!((row["desired"].as_str(), row["cause"].as_str()), (Some("run"), None));
        assert_eq!(requests(&stage, Route::CancelJob).len(), 1, "ours was not needed");
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

/// Somebody else's request to the upstream: the head of its answer.
async fn delete(fake: &FakeUpstream, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(fake.addr()).await.unwrap();
    let request = format!("DELETE {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}
