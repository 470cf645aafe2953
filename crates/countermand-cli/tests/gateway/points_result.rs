//! Cancels at the end of a job, around its answer: cases 9, 10, 15 and 18, and what is told of it afterwards.

use crate::{
    over_all,
    points::{at, count, row_of, tag},
    stage::{Caller, Door, Stage},
};
use countermand_testkit::{
    client::message,
    fake::{Gate, Route},
};
use serde_json::{Value, json};
use std::time::Duration;

over_all! {
    /// Case 15: the job is done, so there is nothing to cancel, and its result is not read to the end.
    async fn a_cancel_while_the_result_is_fetched_sends_no_cancel_and_no_answer(door) {
        let stage = Stage::new().await;
        let points = [Gate::Result, Gate::ResponseHead, Gate::ResponseLastByte];
        let mut caller = Caller::at(door, &stage).await;
        for (n, gate) in (1..).zip(points) {
            let held = stage.fake.hold(gate, at(Route::JobResult));
            let pending = caller.call(n as u64, "run_report", tag()).await;
            stage.fake.wait_for("job_created", n).await;
            assert!(stage.fake.finish(&format!("job-{n}")));
            held.reached().await;
            caller.cancel_and_listen(pending).await;
            stage.fake.wait_for("closed_early", n).await;
            held.release();
            let row = stage.settled(n).await.remove(0);
            assert_eq!(
                (row["phase"].as_str(), row["cause"].as_str()),
                (Some("completed"), Some(caller.cause()))
            );
        }
        assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
        assert_eq!(stage.agree().await.completed, 3);
        caller.barrier().await;
        caller.works().await;
        stage.finish(caller, &[1, 2, 3]).await;
    }
}

over_all! {
    /// Case 15, with something to undo: finished before the cancel, and undone because of it.
    async fn a_cancel_while_the_result_is_fetched_undoes_what_the_job_has_done(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::Result, at(Route::JobResult));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "with_undo", tag()).await;
        stage.fake.wait_for("job_created", 1).await;
        assert!(stage.fake.finish("job-1"));
        held.reached().await;
        assert_ne!(stage.fake.rows("t"), 0);
        caller.cancel_and_listen(pending).await;
        let row = stage.phase("compensated").await;
        assert_eq!((row["outcome"].as_str(), stage.fake.rows("t")), (Some("completed"), 0));
        held.release();
        assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
        stage.finish(caller, &[1]).await;
    }
}

over_all! {
    /// Case 9 of a job: the result's last byte and the cancel.
    async fn a_cancel_together_with_the_last_byte_of_the_result_leaves_one_answer_or_none(door) {
        const ROUNDS: usize = 8;
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        for n in 1..=ROUNDS {
            let held = stage.fake.hold(Gate::ResponseLastByte, at(Route::JobResult));
            let pending = caller.call(n as u64, "run_report", tag()).await;
            stage.fake.wait_for("job_created", n).await;
            assert!(stage.fake.finish(&format!("job-{n}")));
            held.reached().await;
            if n % 2 == 0 {
                held.release();
                caller.cancel(pending).await;
            } else {
                let released = async { held.release() };
                tokio::join!(caller.cancel(pending), released);
            }
        }
        let rows = stage.settled(ROUNDS).await;
        assert!(rows.iter().all(|row| row["phase"] == "completed"), "{rows:#?}");
        assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
        caller.barrier().await;
        let rest = stage.finish(caller, &[]).await;
        for n in 1..=ROUNDS {
            let answers = rest.iter().filter(|message| message["id"] == json!(n)).count();
            let row = row_of(&rows, &format!("job-{n}"));
            assert!(answers <= 1);
            if door == Door::Stdio {
                assert_eq!(answers == 0, row["cause"] == "client_cancelled", "told or cancelled: {row:#}");
            }
        }
    }
}

over_all! {
    /// Case 10.
    async fn a_cancel_after_a_job_was_answered_is_ignored(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "with_undo", tag()).await;
        stage.fake.wait_for("job_created", 1).await;
        assert!(stage.fake.finish("job-1"));
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], false);
        caller.cancel(pending).await;
        caller.barrier().await;
        caller.works().await;
        let row = stage.settled(1).await.remove(0);
        assert_eq!(
            (&row["phase"], &row["cause"], &row["desired"]),
            (&json!("completed"), &Value::Null, &json!("run"))
        );
        assert_ne!(stage.fake.rows("t"), 0, "nothing is undone");
        assert_eq!(count(&stage.fake.events(), "cancel_received"), 0);
        stage.finish(caller, &[1]).await;
    }
}

/// Case 18: the upstream goes on counting while it cancels, and nobody is told.
#[tokio::test]
async fn progress_of_the_upstream_after_the_cancel_is_not_forwarded() {
    let stage = Stage::new().await;
    stage.fake.set_cancel_delay(Duration::from_secs(1));
    let mut client = stage.stdio().await;
    let arguments = json!({ "tag": "t", "secs": 5 });
    client.send(&message::call_with_progress(1, "run_report", arguments, "p")).await;
    let first = client.progress().await;
    assert_eq!(first["params"]["progressToken"], "p");
    client.send_at_once(&[message::cancelled(1, None), message::request(2, "ping", json!({}))]).await;
    // What came before the answer to the ping may have been on its way; what comes after it may not.
    loop {
        let message = client.next().await.expect("the gateway lives");
        if message["id"] == 2 {
            break;
        }
    }
    stage.settled(1).await;
    let events = stage.fake.events();
    let cancel = events.iter().position(|event| event.is("cancel_received")).unwrap();
    let told = events[cancel..].iter().filter(|event| event.is("job_polled")).count();
    assert!(told >= 2, "the upstream was read after the cancel: {told}");
    assert!(stage.finish(Caller::Stdio(Box::new(client)), &[1]).await.is_empty());
}

/// Case 18 over HTTP: behind the close of the sending side nothing comes at all.
#[tokio::test]
async fn nothing_is_written_to_a_stream_that_its_client_has_left() {
    let stage = Stage::new().await;
    stage.fake.set_cancel_delay(Duration::from_secs(1));
    // No poll is answered before the cancel, so that no progress can be on its way then.
    let held = stage.fake.hold(Gate::Poll, at(Route::JobStatus));
    let gateway = stage.http().await;
    let arguments = json!({ "tag": "t", "secs": 5 });
    let mut exchange =
        gateway.client.request(&message::call_with_progress(1, "run_report", arguments, "p")).await;
    exchange.progress().await;
    held.reached().await;
    exchange.half_close().await;
    stage.fake.wait_for("cancel_received", 1).await;
    held.release();
    stage.settled(1).await;
    let rest = String::from_utf8_lossy(&exchange.read_to_end().await).into_owned();
    assert!(!rest.contains("jsonrpc"), "{rest}");
    stage.finish(Caller::Http(Box::new(gateway)), &[1]).await;
}

over_all! {
    /// What a client is told of a call that it has left: the truth, in its own words.
    async fn a_cancelled_call_is_told_by_cancellation_status(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::CancelReceived, at(Route::CancelJob));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("job_polled", 1).await;
        caller.cancel(pending).await;
        held.reached().await;
        let told = caller.status().await;
        assert_eq!(
            (&told["operations"][0]["status"], &told["operations"][0]["upstream_id"]),
            (&json!("cancel_pending"), &json!("job-1"))
        );
        held.release();
        stage.settled(1).await;
        let told = caller.status().await;
        assert_eq!(
            (&told["operations"][0]["status"], &told["operations"][0]["settled"]),
            (&json!("stopped"), &json!(true))
        );
        stage.finish(caller, &[1]).await;
    }
}
