//! Silence after a cancel proves nothing: what is said then, and what is done.

use super::{
    front::{Front, Way},
    house::House,
    tagged, took,
};
use countermand_testkit::server::How;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Ten seconds, and something for a busy machine.
const CONFIRMED: Duration = Duration::from_secs(14);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_ten_seconds_of_silence_a_cancel_is_delivered_and_cannot_be_verified_whatever_the_tool_did() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    let tools = ["stubborn", "obedient", "pretends"];
    let mut calls = Vec::new();
    for tool in tools {
        calls.push(front.call(tool, tool, tagged(tool)).await);
        house.recorder.working(tool).await;
    }
    let since = Instant::now();
    for call in calls {
        front.cancel(call).await;
    }
    let unsettled = house.rows_when("three rows", |rows| rows.len() == 3).await;
    assert!(unsettled.iter().all(|row| row["settled"] == false), "{unsettled:#?}");
    let rows =
        house.rows_when("three settled rows", |rows| rows.iter().all(|row| row["settled"] == true)).await;
    took(CONFIRMED, since, Instant::now(), "until a cancel without an answer was settled");
    assert!(since.elapsed() >= Duration::from_secs(9), "{:?}", since.elapsed());
    assert!(rows.iter().all(|row| row["phase"] == "unverified" && row["outcome"].is_null()), "{rows:#?}");
    let said = front.result("cancellation_status", json!({})).await;
    for operation in said["structuredContent"]["operations"].as_array().unwrap() {
        assert_eq!(operation["status"], "unverifiable");
    }
    let text = said["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("The cancel was delivered; whether it stopped cannot be verified."), "{text}");
    // What is said later is only history.
    house.recorder.release("stubborn").await;
    house.recorder.first("its end", |event| event.worked("stubborn") == Some(How::Finished)).await;
    front.result("echo", tagged("next")).await;
    assert!(house.rows().await.iter().all(|row| row["phase"] == "unverified"));
    front.finish(&house, &tools).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_to_be_restarted_is_so_only_when_no_other_call_is_in_flight_there() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &["--unconfirmed", "restart"], &[]).await;
    let mut other = front.call("other", "stubborn", tagged("other")).await;
    house.recorder.working("other").await;
    let mine = front.call("mine", "has_children", tagged("mine")).await;
    house.recorder.working("mine").await;
    let since = Instant::now();
    front.cancel(mine).await;
    // The end of ten seconds is seen by what the row says then; the other call goes on.
    let refused = |rows: &[serde_json::Value]| {
        rows.len() == 1
            && rows[0]["last_error"]
                .as_str()
                .is_some_and(|error| error.contains("1 other calls are in flight"))
    };
    house.rows_when("why there is no restart yet", refused).await;
    assert!(since.elapsed() >= Duration::from_secs(9), "{:?}", since.elapsed());
    assert!(house.recorder.processes().iter().all(|(_, lives)| *lives));
    house.recorder.release("other").await;
    assert_eq!(front.response(&mut other).await["result"]["structuredContent"], tagged("other"));
    let row = house.phase("cancelled").await;
    assert_eq!(row["outcome"], "cancelled", "{row:#}");
    // With what it had started.
    house.recorder.gone().await;
    assert_eq!(house.recorder.processes().len(), 2);
    assert_eq!(front.result("echo", tagged("next")).await["structuredContent"]["arguments"], tagged("next"));
    front.finish(&house, &["mine"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_process_of_its_own_is_killed_with_all_that_it_has_started() {
    let house = House::new();
    let flags = ["--isolation", "call", "--unconfirmed", "kill_call"];
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &flags, &[]).await;
    let mut other = front.call("other", "stubborn", tagged("other")).await;
    house.recorder.working("other").await;
    let mine = front.call("mine", "has_children", tagged("mine")).await;
    house.recorder.working("mine").await;
    let since = Instant::now();
    front.cancel(mine).await;
    let row = house.phase("cancelled").await;
    took(CONFIRMED, since, Instant::now(), "until a call without an answer was killed");
    assert_eq!(
        (&row["outcome"], &row["cause"]),
        (&json!("cancelled"), &json!("client_disconnected")),
        "{row:#}"
    );
    house.recorder.wait("the end of both", |_| house.called() == 1).await;
    house.recorder.release("other").await;
    assert_eq!(front.response(&mut other).await["result"]["structuredContent"], tagged("other"));
    front.finish(&house, &["mine"]).await;
}
