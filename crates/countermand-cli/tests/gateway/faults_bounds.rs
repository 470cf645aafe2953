//! What ends a call that nobody ends, and what is said of work that cannot be stopped.

use crate::{
    faults::{alarmed, cancel, error, requests, stage, tag, text, told},
    over_all,
    stage::{Caller, Door},
};
use countermand_testkit::fake::{EventKind, Fault, Filter, Gate, Route};

over_all! {
    async fn a_call_that_outlives_its_timeout_is_answered_at_once_and_its_job_cancelled(door) {
        let stage = stage().await;
        // The answer does not wait for the cancel.
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "quick_timeout", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        for words in ["it took longer than its timeout of 1s", "The cancel is pending", "job-1", "`cancellation_status`"] {
            assert!(text.contains(words), "`{words}` is missing: {text}");
        }
        held.reached().await;
        told(&mut caller, &stage, "cancel_pending").await;
        held.release();
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], "deadline");
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn a_call_that_times_out_while_its_create_hangs_is_answered_and_its_job_cancelled_once_it_exists(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::Body, Filter { route: Some(Route::CreateJob), ..Filter::default() });
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "quick_timeout", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("timeout of 1s") && text.contains("The cancel is pending"), "{text}");
        assert_eq!(stage.fake.books().created, 0);
        held.release();
        let row = stage.phase("cancelled").await;
        assert_eq!((row["cause"].as_str(), row["upstream_id"].as_str()), (Some("deadline"), Some("job-1")));
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn a_timeout_and_a_lifetime_do_not_wait_for_a_status_read_that_hangs(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        for (id, tool, said) in [(1, "quick_timeout", "timeout of 1s"), (2, "short_life", "its lifetime of 1s is over")] {
            // One read hangs for as long as `read_timeout` lets it: 20 s.
            stage.fake.fault(Route::JobStatus, Fault::HangBeforeCommit, Some(1));
            let called = tokio::time::Instant::now();
            let mut pending = caller.call(id, tool, tag()).await;
            let text = error(&mut caller, &mut pending).await;
            assert!(text.contains(said), "{text}");
            println!("{door:?}, {tool}: answered after {:.1} s", called.elapsed().as_secs_f64());
            assert!(called.elapsed() <= std::time::Duration::from_secs(5), "{:?}", called.elapsed());
            stage.fake.wait_for("job_cancelled", usize::try_from(id).unwrap()).await;
        }
        assert!(stage.settled(2).await.iter().all(|row| row["phase"] == "cancelled" && row["cause"] == "deadline"));
        assert_eq!(stage.agree().await.cancelled, 2);
    }
}

over_all! {
    async fn a_job_that_nobody_stops_is_stopped_by_its_lifetime(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "short_life", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("its lifetime of 1s is over"), "{text}");
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], "deadline");
        told(&mut caller, &stage, "stopped").await;
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn a_read_that_nobody_stops_is_aborted_by_its_timeout_and_leaves_no_connection(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "quick_search", tag()).await;
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], true);
        assert!(text(&result).contains("timeout of 1s. Nothing runs upstream"), "{result:#}");
        let events = stage.fake.wait_for("closed_early", 1).await;
        let aborted = |kind: &EventKind| matches!(kind, EventKind::ClosedEarly { target, .. } if target.starts_with("/slow"));
        assert!(events.iter().any(|event| aborted(&event.kind)), "{events:#?}");
        assert_eq!(stage.fake.connections_open(), 0);
        let mut next = caller.call(2, "quick", tag()).await;
        assert_eq!(caller.answer(&mut next).await["structuredContent"]["quick"], true);
    }
}

over_all! {
    async fn what_cannot_be_stopped_is_marked_and_the_words_say_until_when_it_runs(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "no_cancel", tag()).await;
        stage.phase("running").await;
        cancel(&mut caller, pending, &stage).await;
        let row = stage.phase("draining").await;
        let said = told(&mut caller, &stage, "cannot_be_stopped").await;
        let until = row["hard_deadline"].as_str().unwrap();
        assert_eq!(said["sentence"], format!("The upstream cannot stop it; it is watched until {until} at the latest."));
        let marked = |kind: &EventKind| {
            let EventKind::Marked { target, body } = kind else { return false };
            target == "/exports/job-1/label" && body == r#"{"orphaned":true}"#
        };
        stage.fake.wait(|events| events.iter().any(|event| marked(&event.kind))).await;
        // Its lifetime is over, and it runs on.
        let row = stage.phase("orphaned").await;
        alarmed(&caller, &["may still run upstream", row["id"].as_str().unwrap(), "job-1"]).await;
        told(&mut caller, &stage, "orphaned").await;
        assert_eq!(stage.agree().await.live, 1);
        stage.fake.finish("job-1");
        stage.phase("completed").await;
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!((requests(&stage, Route::CancelJob).len(), requests(&stage, Route::Label).len()), (0, 1));
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn what_cannot_be_stopped_and_ends_in_time_has_finished_before_the_cancel(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "no_cancel", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.fake.wait_for("marked", 1).await;
        stage.fake.finish("job-1");
        let row = stage.phase("completed").await;
        assert_eq!((row["desired"].as_str(), row["outcome"].as_str()), (Some("cancel"), Some("completed")));
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_mark_that_fails_once_is_sent_again(door) {
        let stage = stage().await;
        stage.fake.fault(Route::Label, Fault::Status(503, None), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "no_cancel", tag()).await;
        stage.phase("running").await;
        caller.cancel(pending).await;
        stage.fake.wait_for("marked", 1).await;
        stage.fake.finish("job-1");
        stage.phase("completed").await;
        assert_eq!(requests(&stage, Route::Label).len(), 2);
        told(&mut caller, &stage, "finished_before_cancel").await;
        assert_eq!(stage.agree().await.completed, 1);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_call_of_what_cannot_be_stopped_is_told_so_when_its_lifetime_is_over(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "no_cancel", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("its lifetime of 4s is over"), "{text}");
        assert!(text.contains("cannot stop it") || text.contains("may still run"), "{text}");
        let row = stage.phase("orphaned").await;
        assert_eq!(row["cause"], "deadline");
        stage.fake.wait_for("marked", 1).await;
        told(&mut caller, &stage, "orphaned").await;
        assert_eq!(stage.agree().await.live, 1);
    }
}
