//! Upstreams whose word does not hold: cancelled and running on, cancelled and then completed, gone.

use crate::{
    faults::{alarmed, requests, stage, tag, told},
    over_all,
    stage::{Caller, Door},
};
use countermand_testkit::fake::{Fault, Filter, Gate, Route};

over_all! {
    async fn a_cancelled_that_runs_on_is_found_by_reading_again_and_the_job_is_cancelled_anew(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::CancelledThenRunning, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        let second = stage.fake.hold(Gate::CancelReceived, Filter::default());
        caller.cancel(pending).await;
        second.reached().await;
        second.release_one();
        second.reached_n(2).await;
        // It has said `cancelled`, and nobody was told so.
        let row = stage.phase("cancelling").await;
        told(&mut caller, &stage, "cancel_pending").await;
        alarmed(&caller, &["took back", row["id"].as_str().unwrap(), "job-1", row["key"].as_str().unwrap()]).await;
        second.release();
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(requests(&stage, Route::CancelJob).len(), 2);
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancelled_that_completes_is_reported_as_finished_and_not_as_stopped(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::CancelledThenDone, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        let row = stage.phase("completed").await;
        alarmed(&caller, &["took back", row["id"].as_str().unwrap(), "job-1", row["key"].as_str().unwrap()]).await;
        assert!(row["last_error"].as_str().unwrap().contains("said cancelled, then completed"), "{row:#}");
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancel_that_is_ignored_is_repeated_without_a_storm_and_becomes_an_orphan(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::CancelIgnored, None);
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        let row = stage.phase("orphaned").await;
        let sent = requests(&stage, Route::CancelJob);
        assert!(sent.len() >= 2 && sent.windows(2).all(|pair| pair[1] - pair[0] >= 950.0), "no storm: {sent:?}");
        alarmed(&caller, &["may still run upstream", row["id"].as_str().unwrap(), "job-1"]).await;
        told(&mut caller, &stage, "orphaned").await;
        assert_eq!(stage.agree().await.live, 1);
        // What is owed goes on: the day the upstream obeys, the orphan is settled.
        stage.fake.clear_faults();
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_cancel_that_is_ignored_is_followed_by_the_forced_one(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CancelJob, Fault::CancelIgnored, None);
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "forced", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.phase("cancelled").await;
        assert_eq!((requests(&stage, Route::CancelJob).len(), requests(&stage, Route::ForceJob).len()), (1, 1));
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_job_that_takes_its_time_to_stop_is_pending_until_it_has(door) {
        let stage = stage().await;
        stage.fake.set_cancel_delay(std::time::Duration::from_secs(2));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.fake.wait_for("job_cancelling", 1).await;
        stage.phase("cancelling").await;
        told(&mut caller, &stage, "cancel_pending").await;
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_job_that_vanishes_after_its_cancel_is_gone_only_when_that_has_lasted(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        held.reached().await;
        stage.fake.fault(Route::JobStatus, Fault::Vanish, None);
        held.release();
        stage.phase("cancelling").await;
        told(&mut caller, &stage, "cancel_pending").await;
        let row = stage.phase("cancelled").await;
        assert_eq!(row["outcome"], "gone");
        let events = stage.fake.events();
        let missing: Vec<f64> = events.iter().filter(|event| event.is("fault_applied")).map(|event| event.at).collect();
        assert!(missing[missing.len() - 1] - missing[0] >= 9_500.0, "ten seconds of 404: {missing:?}");
        told(&mut caller, &stage, "gone").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_404_right_after_a_cancelled_confirms_it(door) {
        let stage = stage().await;
        let confirming = stage.fake.hold(Gate::Poll, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        confirming.reached().await;
        caller.cancel(pending).await;
        // The read after the cancel says `cancelled`; the job is removed before it is read again.
        stage.fake.wait_for("job_cancelled", 1).await;
        confirming.reached_n(2).await;
        stage.fake.fault(Route::JobStatus, Fault::Vanish, None);
        confirming.release();
        stage.fake.wait_for("fault_applied", 1).await;
        let row = stage.phase("cancelled").await;
        assert_eq!(row["outcome"], "cancelled");
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}
