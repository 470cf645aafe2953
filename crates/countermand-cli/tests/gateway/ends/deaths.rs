//! Other signals: a second SIGTERM, a process that is stopped for a while, one that aborts.

use super::{Caller, Door, Stage, running, tagged, text, within};
use crate::{
    over_all,
    points::count,
    stage::{Times, signal},
};
use countermand_testkit::fake::{Filter, Gate};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

over_all! {
    /// A second SIGTERM does not cut the first one's work short.
    async fn sigterm_twice_is_sigterm_once(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let (mut caller, mut pending) = running(door, &stage, "run_report").await;
        signal(Some(caller.pid()), "TERM");
        held.reached().await;
        signal(Some(caller.pid()), "TERM");
        assert!(text(&caller.answer(&mut pending).await).contains("shutting down"));
        held.release();
        let said = caller.ended().await;
        assert!(!said.contains("left in the ledger"), "{said}");
        let row = stage.operations().await.remove(0);
        assert_eq!((&row["phase"], &row["cause"]), (&json!("cancelled"), &json!("shutdown")));
        assert_eq!(count(&stage.fake.events(), "cancel_received"), 1);
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn an_abort_is_like_a_kill_and_the_next_start_cancels_the_job(door) {
        let stage = Stage::without_grace(door, Times::default()).await;
        let (mut caller, _pending) = running(door, &stage, "run_report").await;
        signal(Some(caller.pid()), "ABRT");
        caller.died().await;
        let next = Caller::at(door, &stage).await;
        let row = stage.phase("cancelled").await;
        assert_eq!(row["cause"], "client_disconnected");
        stage.agree().await;
        drop(next);
    }
}

/// How long a stopped gateway stays so. There is no event in it: nothing happens.
const STOPPED: Duration = Duration::from_secs(3);

over_all! {
    async fn a_gateway_that_was_stopped_for_a_while_polls_on_without_a_storm_and_still_cancels(door) {
        let stage = Stage::new().await;
        let (mut caller, pending) = running(door, &stage, "run_report").await;
        signal(Some(caller.pid()), "STOP");
        tokio::time::sleep(STOPPED).await;
        let before = count(&stage.fake.events(), "job_polled");
        signal(Some(caller.pid()), "CONT");
        let woken = Instant::now();
        stage.fake.wait_for("job_polled", before + 3).await;
        // A poll each 100 ms and later: none of those that were missed is made up for.
        let took = woken.elapsed();
        assert!(took >= Duration::from_millis(150), "three polls within {took:?}");
        caller.cancel(pending).await;
        stage.phase("cancelled").await;
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_that_passed_while_the_gateway_was_stopped_is_there_when_it_goes_on() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut pending = caller.call(1, "quick_timeout", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    signal(Some(caller.pid()), "STOP");
    tokio::time::sleep(STOPPED).await;
    signal(Some(caller.pid()), "CONT");
    let woken = Instant::now();
    let result = caller.answer(&mut pending).await;
    within(Duration::from_millis(500), woken, "from SIGCONT to the answer of a call whose time was over");
    assert_eq!(result["isError"], true, "{result}");
    stage.phase("cancelled").await;
    assert_eq!(stage.operations().await[0]["cause"], "deadline");
    assert_eq!(stage.agree().await.cancelled, 1);
}
