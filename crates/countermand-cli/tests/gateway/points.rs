//! Where a cancel can come: before, while and after each request of a job. The cases are those of testing.md.

use crate::{
    over_all,
    stage::{Caller, Door, Stage},
};
use countermand_testkit::{
    client::message,
    fake::{Event, Filter, Gate, Route},
};
use serde_json::{Value, json};
use std::time::Duration;

/// The arguments of most calls here.
pub fn tag() -> Value {
    json!({ "tag": "t" })
}

/// The requests of one route.
pub fn at(route: Route) -> Filter {
    Filter { route: Some(route), ..Filter::default() }
}

/// How many events of this kind there were.
pub fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| event.is(kind)).count()
}

/// Waits until the kernel says so. It has no events for it: it is asked again.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let asked = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asked)
        .await
        .unwrap_or_else(|_| panic!("it never came true: {what}"));
}

/// What became of the row of a call with this tag's job.
pub fn row_of<'a>(rows: &'a [Value], job: &str) -> &'a Value {
    rows.iter().find(|row| row["upstream_id"] == job).unwrap_or_else(|| panic!("no row of {job}: {rows:#?}"))
}

over_all! {
    /// Case 12: wherever the create is, its job is cancelled by its id once that is known, and its rows are undone.
    async fn a_cancel_while_the_create_is_in_flight_cancels_the_job_by_its_id(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let cause = caller.cause();
        let mut stays = caller.call(100, "run_report", json!({ "tag": "stays" })).await;
        stage.fake.wait_for("job_created", 1).await;
        let points = [
            Gate::RequestHead,
            Gate::Body,
            Gate::CreateCommitted,
            Gate::ResponseHead,
            Gate::ResponseLastByte,
        ];
        for (n, gate) in (1..).zip(points) {
            let held = stage.fake.hold(gate, at(Route::CreateJob));
            let pending = caller.call(n as u64, "with_undo", tag()).await;
            held.reached().await;
            caller.cancel_and_listen(pending).await;
            caller.barrier().await;
            let wanted = |rows: &[Value]| rows.len() == n + 1 && rows[0]["desired"] == "cancel";
            stage.operations_when("a wanted cancel", wanted).await;
            assert_eq!(count(&stage.fake.events(), "cancel_received"), n - 1, "not without an id");
            held.release();
            stage.fake.wait_for("job_cancelled", n).await;
            stage.operations_when("its undo", |rows| rows[0]["phase"] == "compensated").await;
            let rows = stage.operations().await;
            let row = row_of(&rows, &format!("job-{}", n + 1));
            assert_eq!((row["cause"].as_str(), row["outcome"].as_str()), (Some(cause), Some("cancelled")));
            assert_eq!(stage.fake.rows("t"), 0, "nothing is left behind");
        }
        assert!(stage.fake.finish("job-1"), "the other one runs");
        assert_eq!(caller.answer(&mut stays).await["structuredContent"]["tag"], "stays");
        caller.works().await;
        stage.settled(points.len() + 1).await;
        let books = stage.agree().await;
        assert_eq!((books.created, books.cancelled, books.completed), (6, 5, 1));
        assert_eq!(count(&stage.fake.events(), "cancel_received"), 5, "one each");
        stage.finish(caller, &[1, 2, 3, 4, 5]).await;
    }
}

over_all! {
    /// Case 11: what a client wants, and wants again, and then an operator too, is sent once.
    async fn more_cancels_while_the_upstream_cancel_is_held_send_no_second_one(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("job_polled", 1).await;
        let mut other = caller.call(2, "run_report", json!({ "tag": "other" })).await;
        stage.fake.wait_for("job_created", 2).await;
        let held =
            stage.fake.hold(Gate::CancelReceived, Filter { tag: Some("t".into()), ..Filter::default() });
        caller.cancel_and_listen(pending).await;
        held.reached().await;
        if let Caller::Stdio(client) = &mut caller {
            let again = message::cancelled(1, Some("again"));
            client.send_at_once(&[again.clone(), again]).await;
        }
        // Requests of operators are taken in order: once the second one is done, the first was heard.
        let rows = stage.operations().await;
        for job in ["job-1", "job-2"] {
            let id = row_of(&rows, job)["id"].as_str().unwrap();
            let (said, taken) = stage.run(&["ops", "cancel", "--no-wait", id]).await;
            assert!(taken, "{said}");
        }
        let answer = caller.answer(&mut other).await;
        assert_eq!(answer["isError"], true, "an operator's cancel is told: {answer}");
        stage.operations_when("the other one settled", |rows| row_of(rows, "job-2")["settled"] == true).await;
        caller.barrier().await;
        caller.works().await;
        held.release();
        let rows = stage.settled(2).await;
        let row = row_of(&rows, "job-1");
        assert_eq!((&row["phase"], row["cause"].as_str()), (&json!("cancelled"), Some(caller.cause())));
        assert_ne!(row["reason"], "again", "what came first stands");
        for tag in ["t", "other"] {
            let cancels = stage
                .fake
                .events()
                .iter()
                .filter(|event| event.is("cancel_received") && event.tagged(tag))
                .count();
            assert_eq!(cancels, 1, "of {tag}");
        }
        stage.finish(caller, &[1]).await;
    }
}

/// Case 11, in one write.
#[tokio::test]
async fn a_double_cancel_sends_one_upstream_cancel_and_keeps_the_first_reason() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    client.send(&message::call(1, "run_report", tag())).await;
    stage.fake.wait_for("job_polled", 1).await;
    client.send_at_once(&[message::cancelled(1, Some("first")), message::cancelled(1, Some("second"))]).await;
    client.barrier().await;
    let row = stage.settled(1).await.remove(0);
    assert_eq!((row["phase"].as_str(), row["reason"].as_str()), (Some("cancelled"), Some("first")));
    assert_eq!(count(&stage.fake.events(), "cancel_received"), 1);
    stage.finish(Caller::Stdio(Box::new(client)), &[1]).await;
}

over_all! {
    async fn a_cancel_between_two_polls_stops_the_job_and_only_confirming_reads_follow(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("job_polled", 2).await;
        caller.cancel(pending).await;
        stage.settled(1).await;
        let events = stage.fake.events();
        let cancel = events.iter().position(|event| event.is("cancel_received")).unwrap();
        let after: Vec<_> = events[cancel..].iter().filter(|event| event.is("job_polled")).collect();
        assert!(after.len() <= 3, "no more than the confirming reads: {after:?}");
        assert_eq!(events.iter().filter(|event| event.is("cancel_received")).count(), 1);
        stage.agree().await;
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    /// Case 14: a poll that hangs does not keep the cancel waiting.
    async fn a_cancel_while_a_poll_is_in_flight_does_not_wait_for_it(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::PollN(2), at(Route::JobStatus));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        held.reached().await;
        caller.cancel_and_listen(pending).await;
        let events = stage.fake.wait_for("cancel_received", 1).await;
        assert_eq!(count(&events, "job_polled"), 1, "the second poll is still held");
        stage.fake.wait_for("job_cancelled", 1).await;
        held.release();
        let row = stage.settled(1).await.remove(0);
        assert_eq!((row["phase"].as_str(), row["cause"].as_str()), (Some("cancelled"), Some(caller.cause())));
        let events = stage.fake.events();
        let cancel = events.iter().position(|event| event.is("cancel_received")).unwrap();
        let reads = events[cancel..].iter().filter(|event| event.is("job_polled")).count();
        assert!((2..=3).contains(&reads), "the confirming reads, and at most the held one: {reads}");
        assert_eq!(count(&events, "cancel_received"), 1);
        caller.works().await;
        stage.finish(caller, &[1]).await;
    }
}
