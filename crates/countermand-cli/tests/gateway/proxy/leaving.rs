//! How it ends: SIGTERM, the end of input, SIGKILL. No server, nor what it has started, is left behind.

use super::{
    front::{Asked, Front, Way},
    house::House,
    tagged, took,
};
use crate::{from_every_front, from_fronts};
use countermand_testkit::server::{Event, EventKind};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Calls in flight: what the server calls them.
async fn calls(front: &mut Front, house: &House) -> (Vec<Asked>, Vec<Value>) {
    let (mut calls, mut ids) = (Vec::new(), Vec::new());
    for (n, tool) in ["obedient", "stubborn", "has_children", "pretends", "late"].into_iter().enumerate() {
        calls.push(front.call(format!("call-{n}"), tool, tagged(tool)).await);
        ids.push(house.recorder.working(tool).await);
    }
    (calls, ids)
}

/// Every one of them is in the ledger, and settled; `cancelled` but where its result came late.
async fn settled(house: &House, cause: &str, ids: &[Value]) {
    let rows = house.rows().await;
    assert_eq!(rows.len(), ids.len(), "{rows:#?}");
    for row in &rows {
        assert!(ids.iter().any(|id| row["upstream_id"] == json!(id.to_string())), "{row:#}");
        assert_eq!((&row["cause"], &row["settled"]), (&json!(cause), &json!(true)), "{row:#}");
        let phase = if row["tool"] == "late" { "completed" } else { "cancelled" };
        assert_eq!(row["phase"], phase, "{row:#}");
    }
}

from_every_front! {
    async fn a_shutdown_tells_every_server_and_ends_it_with_all_that_it_has_started(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let (mut calls, ids) = calls(&mut front, &house).await;
        let since = Instant::now();
        front.terminate();
        for id in &ids {
            let told = house.recorder.cancelled(id).await;
            took(Duration::from_secs(1), since, told.at, "from SIGTERM to a server's notification");
        }
        for call in &mut calls {
            let answer = front.response(call).await;
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("the gateway is shutting down"), "{answer}");
        }
        front.ended().await;
        took(Duration::from_secs(10), since, Instant::now(), "from SIGTERM to the end of the gateway");
        house.recorder.gone().await;
        settled(&house, "shutdown", &ids).await;
    }
}

from_fronts! {
    async fn the_end_of_input_cancels_every_call_and_ends_the_server(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let (_calls, ids) = calls(&mut front, &house).await;
        let since = Instant::now();
        front.close_input();
        for id in &ids {
            let told = house.recorder.cancelled(id).await;
            took(Duration::from_millis(500), since, told.at, "from the end of input to a server's notification");
        }
        let rest = front.rest().await;
        assert!(rest.iter().all(|message| !message["id"].as_str().unwrap_or("").starts_with("call-")), "{rest:?}");
        front.ended().await;
        took(Duration::from_secs(10), since, Instant::now(), "from the end of input to the end of the gateway");
        house.recorder.gone().await;
        settled(&house, "client_disconnected", &ids).await;
    }
    stdio_2025_06 = Way::Stdio("2025-06-18"), stdio_2025_11 = Way::Stdio("2025-11-25"),
    stdio_2026 = Way::Stdio("2026-07-28")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ignores_the_end_of_its_input_and_sigterm_is_ended_within_the_grace() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &["--stay"]).await;
    let (_calls, ids) = calls(&mut front, &house).await;
    let since = Instant::now();
    front.close_input();
    front.rest().await;
    front.ended().await;
    took(
        Duration::from_secs(10),
        since,
        Instant::now(),
        "from the end of input to the end of a server that stays",
    );
    house.recorder.gone().await;
    settled(&house, "client_disconnected", &ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_leaves_no_server_and_the_next_one_settles_its_rows() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &["--stay"]).await;
    let asked = front.call("mine", "stubborn", tagged("t")).await;
    let id = house.recorder.working("t").await;
    let _in_flight = front.call("other", "stubborn", tagged("other")).await;
    house.recorder.working("other").await;
    front.cancel(asked).await;
    house.recorder.cancelled(&id).await;
    house.phase("cancelling").await;
    let killed = Instant::now();
    front.kill().await;
    house.recorder.gone().await;
    took(
        Duration::from_secs(2),
        killed,
        Instant::now(),
        "from the gateway's SIGKILL to the end of its server",
    );
    let mut next = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    let row = house
        .rows_when("a settled row", |rows| rows.len() == 1 && rows[0]["settled"] == true)
        .await
        .remove(0);
    println!("{row:#}");
    assert_eq!(row["phase"], "unverified", "{row:#}");
    assert_eq!(house.recorder.cancels().len(), 1, "it is not forwarded again");
    next.result("echo", tagged("next")).await;
    next.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_of_a_killed_gateway_had_started_is_ended_at_the_next_start_and_nothing_else_is() {
    let (house, neighbour) = (House::new(), House::new());
    let mut other = Front::open(Way::Stdio("2025-11-25"), &neighbour, &[], &[]).await;
    let theirs = other.call("theirs", "has_children", tagged("theirs")).await;
    neighbour.recorder.working("theirs").await;
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    let _in_flight = front.call("mine", "has_children", tagged("mine")).await;
    house.recorder.working("mine").await;
    let child = |event: &Event| matches!(event.kind, EventKind::Started { of: Some(_), .. });
    let child = house.recorder.first("a process in a session of its own", child).await.pid;
    front.kill().await;
    // The kernel ends the server; what that had started does not notice.
    let one_lives = |_: &[Event]| house.recorder.processes().iter().filter(|(_, lives)| *lives).count() == 1;
    house.recorder.wait("the end of the server", one_lives).await;
    assert!(house.recorder.processes().contains(&(child, true)));
    let since = Instant::now();
    let mut next = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    let ended =
        |events: &[Event]| events.iter().any(|event| event.pid == child && event.kind == EventKind::Ended);
    house.recorder.wait("the end of what was left", ended).await;
    took(Duration::from_secs(10), since, Instant::now(), "from the next start to the end of what was left");
    assert!(neighbour.recorder.processes().iter().all(|(_, lives)| *lives), "another gateway's are its own");
    next.result("echo", tagged("next")).await;
    next.finish(&house, &[]).await;
    other.cancel(theirs).await;
    other.finish(&neighbour, &["theirs"]).await;
}
