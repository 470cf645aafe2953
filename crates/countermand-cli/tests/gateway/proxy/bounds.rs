//! What bounds a call whose client says nothing, and a server that says nothing.

use super::{
    front::{Front, Way},
    house::House,
    tagged, took,
};
use crate::{from_every_front, stage::signal};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

from_every_front! {
    async fn a_call_that_takes_longer_than_its_timeout_is_cancelled_at_the_server_and_answered_truthfully(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &["--timeout", "1s"], &[]).await;
        let since = Instant::now();
        let mut asked = front.call("mine", "stubborn", tagged("t")).await;
        let id = house.recorder.working("t").await;
        let told = house.recorder.cancelled(&id).await;
        let answer = front.response(&mut asked).await;
        took(Duration::from_secs(2), since, told.at, "a timeout of 1 s");
        took(Duration::from_secs(2), told.at, Instant::now(), "from the server's notification to the client's answer");
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("it took longer than its timeout of 1s"), "{text}");
        assert!(text.contains("The cancel is pending"), "nothing is known to have stopped: {text}");
        assert!(answer["result"]["_meta"]["dev.countermand/operations"][0]["id"].is_string());
        let row = house.phase("cancelling").await;
        assert_eq!((&row["cause"], &row["upstream_id"]), (&json!("deadline"), &json!(id.to_string())), "{row:#}");
        front.finish(&house, &[]).await;
    }
}

from_every_front! {
    async fn a_request_that_is_no_tool_call_is_cancelled_as_one_is(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let asked = front.ask("x-demo/hang", tagged("t")).await;
        let id = house.recorder.working("t").await;
        front.cancel(asked).await;
        house.recorder.cancelled(&id).await;
        let row = house.phase("cancelling").await;
        assert_eq!((&row["tool"], &row["cause"]), (&json!("x-demo/hang"), &json!(way.cause())), "{row:#}");
        front.finish(&house, &["x-demo/hang 2", "x-demo/hang 3"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_read_holds_up_no_caller_and_is_told_when_it_reads_again() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &["--timeout", "2s"], &[]).await;
    let mine = front.call("mine", "stubborn", tagged("t")).await;
    let id = house.recorder.working("t").await;
    let server = house.recorder.processes()[0].0;
    signal(Some(server), "STOP");
    let since = Instant::now();
    front.cancel(mine).await;
    let mut unread = front.call("unread", "stubborn", tagged("unread")).await;
    let answer = front.response(&mut unread).await;
    took(
        Duration::from_secs(5),
        since,
        Instant::now(),
        "the answer of a call (timeout 2 s) to a server that does not read",
    );
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    signal(Some(server), "CONT");
    house.recorder.cancelled(&id).await;
    let rows = house.rows_when("two rows", |rows| rows.len() == 2).await;
    assert!(rows.iter().any(|row| row["cause"] == "client_cancelled"), "{rows:#?}");
    assert!(rows.iter().any(|row| row["cause"] == "deadline"), "{rows:#?}");
    front.finish(&house, &["mine"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_what_was_cancelled_and_has_nothing_to_cancel_before() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    let mut asked = front.call("mine", "stubborn", tagged("t")).await;
    house.recorder.working("t").await;
    assert!(house.rows().await.is_empty(), "a call in flight is no operation");
    house.recorder.release("t").await;
    front.response(&mut asked).await;
    assert!(house.rows().await.is_empty(), "nor is one that was answered");
    let asked = front.call("again", "stubborn", tagged("u")).await;
    house.recorder.working("u").await;
    front.cancel(asked).await;
    let row = house.phase("cancelling").await;
    let shown = house.ops(&["show", row["id"].as_str().unwrap()]).await.exited(0).stdout;
    assert!(shown.contains("notifications/cancelled was written to the server"), "{shown}");
    front.finish(&house, &["again"]).await;
}
