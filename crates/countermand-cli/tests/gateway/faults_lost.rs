//! Creates that were carried out, and whose answer was lost or is of no use.

use crate::{
    faults::{SHORT, alarmed, cancel, error, keys, requests, stage, stage_with, success, tag, told},
    over_all,
    stage::{Caller, Door},
};
use countermand_testkit::fake::{Fault, Filter, Gate, Route};

/// Without a cancel it is sent again with its key, and the call gets its result.
async fn goes_on_as_one_job(door: Door, fault: Fault) {
    let stage = stage().await;
    stage.fake.fault(Route::CreateJob, fault, Some(1));
    let mut caller = Caller::at(door, &stage).await;
    let mut pending = caller.call(1, "run_report", tag()).await;
    stage.fake.wait_for("job_deduplicated", 1).await;
    stage.phase("running").await;
    told(&mut caller, &stage, "running").await;
    stage.fake.finish("job-1");
    assert_eq!(success(&mut caller, &mut pending).await["tag"], "t");
    let row = stage.phase("completed").await;
    assert_eq!(keys(&stage, Route::CreateJob), [row["key"].as_str().unwrap()]);
    told(&mut caller, &stage, "finished").await;
    assert_eq!(stage.agree().await.created, 1);
}

/// With a cancel it is looked for by its key, never sent again, and cancelled.
async fn is_found_and_cancelled(door: Door, fault: Fault) {
    let stage = stage().await;
    let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
    stage.fake.fault(Route::CreateJob, fault, Some(1));
    let mut caller = Caller::at(door, &stage).await;
    let pending = caller.call(1, "run_report", tag()).await;
    held.reached().await;
    cancel(&mut caller, pending, &stage).await;
    told(&mut caller, &stage, "cancel_pending").await;
    held.release();
    stage.phase("cancelled").await;
    assert!(!requests(&stage, Route::FindJobs).is_empty());
    assert_eq!(requests(&stage, Route::CreateJob).len(), 1, "a cancelled create is not sent again");
    assert_eq!(requests(&stage, Route::CancelJob).len(), 1);
    told(&mut caller, &stage, "stopped").await;
    let books = stage.agree().await;
    assert_eq!((books.created, books.cancelled), (1, 1));
    caller.nothing_was_sent_for(&[1]).await;
}

over_all! {
    async fn a_create_whose_answer_is_lost_after_a_cancel_is_found_by_its_key_and_cancelled(door) {
        is_found_and_cancelled(door, Fault::ResetAfterCommit).await;
    }
}

over_all! {
    async fn a_create_whose_answer_is_lost_is_sent_again_with_its_key_and_is_one_job(door) {
        goes_on_as_one_job(door, Fault::ResetAfterCommit).await;
    }
}

over_all! {
    async fn a_2xx_without_an_id_is_a_lost_create_and_the_job_is_found_and_cancelled(door) {
        is_found_and_cancelled(door, Fault::EmptyBody).await;
    }
}

over_all! {
    async fn a_2xx_without_an_id_is_a_lost_create_and_the_replay_tells_the_id(door) {
        goes_on_as_one_job(door, Fault::EmptyBody).await;
    }
}

over_all! {
    async fn a_create_answered_with_a_page_for_humans_is_found_and_cancelled(door) {
        is_found_and_cancelled(door, Fault::NotJson).await;
    }
}

over_all! {
    async fn a_create_answered_with_a_page_for_humans_goes_on_by_its_replay(door) {
        goes_on_as_one_job(door, Fault::NotJson).await;
    }
}

over_all! {
    async fn a_create_that_was_done_and_answered_with_500_is_found_and_cancelled(door) {
        is_found_and_cancelled(door, Fault::StatusAfterCommit(500)).await;
    }
}

over_all! {
    async fn a_create_that_was_done_and_answered_with_500_goes_on_as_one_job(door) {
        goes_on_as_one_job(door, Fault::StatusAfterCommit(500)).await;
    }
}

over_all! {
    async fn a_create_whose_answer_is_larger_than_max_bytes_goes_on_as_one_job(door) {
        goes_on_as_one_job(door, Fault::HugeBody(2 << 20)).await;
    }
}

over_all! {
    async fn a_create_whose_answer_trickles_past_its_shield_is_found_and_cancelled(door) {
        let stage = stage_with(SHORT).await;
        let held = stage.fake.hold(Gate::ResponseHead, Filter { route: Some(Route::CreateJob), ..Filter::default() });
        stage.fake.fault(Route::CreateJob, Fault::Trickle, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        held.release();
        stage.phase("cancelled").await;
        told(&mut caller, &stage, "stopped").await;
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (1, 1));
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_create_that_left_neither_key_nor_id_behind_is_a_visible_orphan(door) {
        let stage = stage().await;
        let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
        stage.fake.fault(Route::CreateJob, Fault::ResetAfterCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let cause = caller.cause();
        let pending = caller.call(1, "keyless", tag()).await;
        held.reached().await;
        cancel(&mut caller, pending, &stage).await;
        held.release();
        let row = stage.phase("orphaned").await;
        assert_eq!((row["settled"].as_bool(), row["cause"].as_str()), (Some(false), Some(cause)));
        alarmed(&caller, &[row["id"].as_str().unwrap(), row["key"].as_str().unwrap(), "todo"]).await;
        told(&mut caller, &stage, "orphaned").await;
        assert_eq!(requests(&stage, Route::CreateJob).len(), 1, "without a key it must not be sent again");
        assert_eq!(stage.agree().await.live, 1);
    }
}

over_all! {
    async fn a_call_whose_create_was_lost_for_good_is_told_that_it_may_run(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::ResetAfterCommit, Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "keyless", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("may still run there"), "{text}");
        stage.phase("orphaned").await;
        told(&mut caller, &stage, "orphaned").await;
        assert_eq!(stage.agree().await.live, 1);
    }
}
