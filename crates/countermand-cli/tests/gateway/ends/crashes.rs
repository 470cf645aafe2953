//! A gateway that is killed while the upstream is held: the next start finds what it left, and ends it.

use super::{Caller, Door, Pending, Stage, running, tagged};
use crate::{over_all, stage::Times};
use countermand_testkit::fake::{Fault, Filter, Gate, HeldGate, Route};
use serde_json::{Value, json};

fn of(route: Route) -> Filter {
    Filter { route: Some(route), ..Filter::default() }
}

/// A call of a tool whose create has come as far as this gate.
async fn created_up_to(door: Door, stage: &Stage, gate: Gate, tool: &str) -> (Caller, Pending, HeldGate) {
    let held = stage.fake.hold(gate, of(Route::CreateJob));
    let mut caller = Caller::at(door, stage).await;
    let pending = caller.call(1, tool, tagged("t")).await;
    held.reached().await;
    (caller, pending, held)
}

/// Starts the gateway again and waits until the one row is in this phase. The gateway is left running.
async fn ends_as(door: Door, stage: &Stage, phase: &str) -> (Caller, Value) {
    let next = Caller::at(door, stage).await;
    let row = stage.phase(phase).await;
    (next, row)
}

fn cause(row: &Value) -> &str {
    row["cause"].as_str().unwrap_or("none")
}

fn cancels(stage: &Stage) -> usize {
    stage.fake.events().iter().filter(|event| event.is("cancel_received")).count()
}

over_all! {
    async fn killed_while_a_call_waits_for_its_slot_nothing_is_ever_sent_for_it(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        stage.configure(|config| config.replace("connect_timeout: 2s,", "connect_timeout: 2s, concurrency: 1,"));
        let (mut caller, _first, held) = created_up_to(door, &stage, Gate::Body, "run_report").await;
        let _second = caller.call(2, "run_report", tagged("waits")).await;
        stage.operations_when("an intent", |rows| rows.iter().any(|row| row["phase"] == "intent")).await;
        caller.kill().await;
        held.release();
        let _next = Caller::at(door, &stage).await;
        let rows = stage.settled(2).await;
        assert!(rows.iter().all(|row| row["phase"] == "never_created"), "{rows:#?}");
        assert!(!stage.fake.events().iter().any(|event| event.tagged("waits")), "not one request for it");
        assert_eq!(stage.agree().await.created, 0);
    }
}

over_all! {
    async fn killed_before_the_upstream_has_committed_the_create_it_is_found_to_be_never_created(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let (mut caller, _pending, held) = created_up_to(door, &stage, Gate::Body, "run_report").await;
        caller.kill().await;
        stage.fake.wait_for("closed_early", 1).await;
        held.release();
        let (_next, row) = ends_as(door, &stage, "never_created").await;
        assert_eq!(cause(&row), "client_disconnected");
        assert_eq!(stage.agree().await.created, 0);
    }
}

over_all! {
    async fn killed_with_the_create_still_on_its_way_the_job_is_found_when_it_comes_and_cancelled(door) {
        let stage = Stage::without_grace(door, Times { horizon: "4s", ..Times::default() }).await;
        stage.fake.fault(Route::CreateJob, Fault::LateCreate, Some(1));
        let (mut caller, _pending, held) = created_up_to(door, &stage, Gate::Body, "run_report").await;
        caller.kill().await;
        stage.fake.wait_for("closed_early", 1).await;
        let _next = Caller::at(door, &stage).await;
        // The first look-up misses it, and must not be believed.
        stage.fake.wait_for("listed", 1).await;
        assert_eq!(stage.fake.books().created, 0);
        held.release();
        stage.phase("cancelled").await;
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn killed_after_the_upstream_has_committed_the_create_it_is_found_by_its_key_and_cancelled(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let (mut caller, _pending, held) = created_up_to(door, &stage, Gate::CreateCommitted, "run_report").await;
        caller.kill().await;
        held.release();
        let (_next, row) = ends_as(door, &stage, "cancelled").await;
        assert_eq!((cause(&row), &row["upstream_id"]), ("client_disconnected", &json!("job-1")));
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (1, 1));
    }
}

over_all! {
    async fn killed_after_the_commit_where_nothing_can_find_it_the_row_is_a_visible_orphan(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let (mut caller, _pending, held) = created_up_to(door, &stage, Gate::CreateCommitted, "keyless").await;
        caller.kill().await;
        held.release();
        let (_next, row) = ends_as(door, &stage, "orphaned").await;
        assert_eq!((&row["settled"], &row["desired"]), (&json!(false), &json!("cancel")));
        assert_eq!(stage.fake.books().live, 1);
    }
}

over_all! {
    async fn killed_while_a_lost_create_is_replayed_there_is_still_one_job_and_it_is_cancelled(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        stage.fake.fault(Route::CreateJob, Fault::ResetAfterCommit, Some(1));
        let (mut caller, _pending, held) = created_up_to(door, &stage, Gate::Body, "run_report").await;
        held.release_one();
        held.reached_n(2).await;
        stage.phase("unknown").await;
        caller.kill().await;
        held.release();
        let (_next, _row) = ends_as(door, &stage, "cancelled").await;
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (1, 1));
    }
}

over_all! {
    async fn killed_while_the_job_runs_it_is_cancelled_because_its_client_is_gone(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let (mut caller, _pending) = running(door, &stage, "run_report").await;
        caller.kill().await;
        assert_eq!(stage.operations().await[0]["phase"], "running");
        let (_next, row) = ends_as(door, &stage, "cancelled").await;
        assert_eq!(cause(&row), "client_disconnected");
        stage.agree().await;
    }
}

over_all! {
    async fn killed_while_a_detached_job_runs_it_is_followed_to_its_end_and_not_cancelled(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let (mut caller, _pending) = running(door, &stage, "detached").await;
        caller.kill().await;
        let polls = stage.fake.events().iter().filter(|event| event.is("job_polled")).count();
        let _next = Caller::at(door, &stage).await;
        stage.fake.wait_for("job_polled", polls + 1).await;
        stage.fake.finish("job-1");
        let row = stage.phase("completed").await;
        assert_eq!((cause(&row), cancels(&stage)), ("none", 0));
    }
}

over_all! {
    async fn killed_with_the_cancel_on_its_way_it_is_sent_again_and_keeps_its_cause(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        let wanted = caller.cause();
        caller.cancel(pending).await;
        held.reached().await;
        caller.kill().await;
        held.release();
        let (_next, row) = ends_as(door, &stage, "cancelled").await;
        assert_eq!((cause(&row), cancels(&stage)), (wanted, 2));
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn killed_before_the_cancels_receipt_came_a_conflict_is_read_and_not_a_storm(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let held = stage.fake.hold(Gate::CancelResponse, Filter::default());
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        caller.cancel(pending).await;
        held.reached().await;
        caller.kill().await;
        held.release();
        let (_next, _row) = ends_as(door, &stage, "cancelled").await;
        assert_eq!(cancels(&stage), 2, "one a life");
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn killed_while_the_accepted_cancel_is_confirmed_it_is_confirmed_by_the_next(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let cancel = stage.fake.hold(Gate::CancelResponse, Filter::default());
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        caller.cancel(pending).await;
        cancel.reached().await;
        let reads = stage.fake.hold(Gate::Poll, Filter::default());
        cancel.release();
        reads.reached().await;
        stage.phase("cancelling").await;
        caller.kill().await;
        reads.release();
        let (_next, _row) = ends_as(door, &stage, "cancelled").await;
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn killed_between_the_two_reads_that_confirm_the_second_is_made_up_for(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let cancel = stage.fake.hold(Gate::CancelResponse, Filter::default());
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        caller.cancel(pending).await;
        cancel.reached().await;
        let reads = stage.fake.hold(Gate::Poll, Filter::default());
        cancel.release();
        reads.reached().await;
        reads.release_one();
        reads.reached_n(2).await;
        let row = stage.phase("ended").await;
        assert_eq!((&row["outcome"], &row["settled"]), (&json!("cancelled"), &json!(false)));
        caller.kill().await;
        reads.release();
        let (_next, _row) = ends_as(door, &stage, "cancelled").await;
        assert_eq!(cancels(&stage), 1, "no cancel is owed to what has ended");
    }
}

over_all! {
    async fn killed_while_the_result_is_fetched_nothing_is_cancelled_and_it_counts_as_completed(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let held = stage.fake.hold(Gate::Result, Filter::default());
        let (mut caller, _pending) = running(door, &stage, "with_undo").await;
        stage.fake.finish("job-1");
        held.reached().await;
        caller.kill().await;
        held.release();
        let (_next, row) = ends_as(door, &stage, "completed").await;
        assert_eq!((&row["desired"], cancels(&stage)), (&json!("run"), 0));
        assert!(stage.fake.rows("t") > 0, "nothing is undone that nobody cancelled");
    }
}

over_all! {
    async fn killed_in_the_middle_of_the_undo_it_is_done_by_the_next(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let held = stage.fake.hold(Gate::RequestHead, of(Route::DeleteRows));
        let (mut caller, pending) = running(door, &stage, "with_undo").await;
        caller.cancel(pending).await;
        held.reached().await;
        stage.phase("compensating").await;
        caller.kill().await;
        assert!(stage.fake.rows("t") > 0);
        held.release();
        let (_next, _row) = ends_as(door, &stage, "compensated").await;
        assert_eq!(stage.fake.rows("t"), 0);
        stage.agree().await;
    }
}

over_all! {
    async fn killed_while_a_job_that_cannot_be_stopped_is_marked_the_next_marks_and_watches_it(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        stage.configure(|config| config.replace("lifetime: 4s", "lifetime: 1h"));
        let held = stage.fake.hold(Gate::RequestHead, of(Route::Label));
        let (mut caller, pending) = running(door, &stage, "no_cancel").await;
        caller.cancel(pending).await;
        held.reached().await;
        stage.phase("draining").await;
        caller.kill().await;
        held.release();
        let _next = Caller::at(door, &stage).await;
        stage.fake.wait_for("marked", 1).await;
        stage.fake.finish("job-1");
        let row = stage.phase("completed").await;
        assert_eq!((&row["desired"], cancels(&stage)), (&json!("cancel"), 0));
    }
}

over_all! {
    async fn killed_after_a_write_has_committed_the_next_learns_of_it_by_its_key_and_writes_no_second(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let held = stage.fake.hold(Gate::OrderCommitted, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let _pending = caller.call(1, "order", tagged("t")).await;
        held.reached().await;
        caller.kill().await;
        held.release();
        let (_next, _row) = ends_as(door, &stage, "completed").await;
        assert_eq!(stage.fake.events().iter().filter(|event| event.is("order_committed")).count(), 1);
    }
}
