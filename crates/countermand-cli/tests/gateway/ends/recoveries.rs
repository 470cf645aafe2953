//! What a start does with what others left: again after a second crash, past orphans, and all of it at once.

use super::{Caller, Door, Stage, running, tagged, within};
use crate::{over_all, stage::Times};
use countermand_testkit::fake::{Fault, Filter, Gate, Route};
use std::time::Duration;
use tokio::time::Instant;

over_all! {
    async fn a_gateway_that_is_killed_again_and_again_while_it_recovers_still_ends_the_one_job(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let created = stage.fake.hold(Gate::CreateCommitted, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let _pending = caller.call(1, "run_report", tagged("t")).await;
        created.reached().await;
        caller.kill().await;
        created.release();

        let look_up = stage.fake.hold(Gate::Find, Filter::default());
        let mut second = Caller::at(door, &stage).await;
        look_up.reached().await;
        second.kill().await;
        look_up.release();

        let cancel = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let mut third = Caller::at(door, &stage).await;
        cancel.reached().await;
        third.kill().await;
        cancel.release();

        let read = stage.fake.hold(Gate::Poll, Filter::default());
        let mut fourth = Caller::at(door, &stage).await;
        read.reached().await;
        fourth.kill().await;
        read.release();

        let _last = Caller::at(door, &stage).await;
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], "client_disconnected");
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (1, 1));
    }
}

over_all! {
    async fn an_orphan_of_the_life_before_is_retried_at_once_by_the_next(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        stage.fake.fault(Route::CancelJob, Fault::Status(503, None), None);
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        caller.cancel(pending).await;
        stage.phase("orphaned").await;
        caller.kill().await;
        stage.fake.clear_faults();
        let started = Instant::now();
        let _next = Caller::at(door, &stage).await;
        stage.fake.wait_for("job_cancelled", 1).await;
        within(Duration::from_secs(3), started, "from the start to the cancel of an orphan");
        stage.phase("cancelled").await;
        stage.agree().await;
    }
}

over_all! {
    async fn a_hundred_jobs_of_a_killed_gateway_are_all_cancelled_by_the_next(door) {
        const N: u64 = 100;
        let stage = Stage::without_grace(door, Times::default()).await;
        let mut caller = Caller::at(door, &stage).await;
        let mut calls = Vec::new();
        for id in 1..=N {
            calls.push(caller.call(id, "run_report", tagged(&format!("t{id}"))).await);
        }
        stage.fake.wait_for("job_created", 100).await;
        caller.kill().await;
        let started = Instant::now();
        let _next = Caller::at(door, &stage).await;
        stage.fake.wait_for("cancel_received", 1).await;
        within(Duration::from_secs(3), started, "from the start to the first cancel of a hundred");
        stage.fake.wait_for("job_cancelled", 100).await;
        within(Duration::from_secs(15), started, "from the start to the last cancel of a hundred");
        stage.settled(100).await;
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled), (N, N));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_finishes_what_was_left_by_the_definition_of_then_not_by_todays_config() {
    let stage = Stage::new().await;
    let (mut caller, _pending) = running(Door::Stdio, &stage, "run_report").await;
    caller.kill().await;
    // The tool is gone from the config; its operation is not.
    let base = stage.fake.base_url();
    let ledger = stage.ledger_file().display().to_string();
    stage.configure(|_| {
        format!(
            "ledger: sqlite:{ledger}\nupstreams: {{ reports: {{ http: {base} }} }}\ntools:\n  quick:\n    \
             input: {{ type: object, properties: {{ tag: {{ type: string }} }}, required: [tag] }}\n    \
             upstream: reports\n    http: {{ request: GET /quick }}\n"
        )
    });
    let _next = stage.stdio().await;
    stage.phase("cancelled").await;
    stage.agree().await;
}
