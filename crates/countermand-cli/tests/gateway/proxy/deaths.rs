//! Servers that die, cannot be started, or never introduce themselves.

use super::{
    front::{Front, Way},
    house::House,
    tagged, took,
};
use crate::{from_fronts, stage::signal};
use countermand_testkit::client::message;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

from_fronts! {
    async fn a_server_that_dies_in_a_call_fails_its_calls_clearly_and_the_next_one_finds_another(way) {
        for (how, exit) in [("exit", "exit code 7"), ("kill", "SIGKILL")] {
            let house = House::new();
            let mut front = Front::open(way, &house, &[], &[]).await;
            let mut other = front.call("other", "stubborn", tagged("other")).await;
            house.recorder.working("other").await;
            let mut asked = front.call("mine", "dies", json!({ "tag": "t", "how": how })).await;
            for call in [&mut asked, &mut other] {
                let answer = front.response(call).await;
                assert_eq!(answer["result"]["isError"], true, "{answer}");
                let text = answer["result"]["content"][0]["text"].as_str().unwrap();
                println!("{text}");
                assert!(text.contains("did not answer the call") && text.contains("is not known"), "{text}");
                assert!(text.contains(exit), "how it ended is not in: {text}");
            }
            assert_eq!(front.result("echo", tagged("next")).await["structuredContent"]["arguments"], tagged("next"));
            assert_eq!(house.recorder.processes().len(), 2);
            front.finish(&house, &[]).await;
        }
    }
    stdio_2025_11 = Way::Stdio("2025-11-25"), stdio_2026 = Way::Stdio("2026-07-28"),
    http_2025_11 = Way::Http("2025-11-25"), http_2026 = Way::Http("2026-07-28")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_between_two_calls_is_not_missed() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    for _ in 0..3 {
        front.result("echo", tagged("one")).await;
        house.recorder.exit(0).await;
        house.recorder.gone().await;
        front.result("echo", tagged("two")).await;
    }
    front.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_after_a_cancel_has_been_stopped_by_the_kernels_word() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    let asked = front.call("mine", "has_children", tagged("t")).await;
    let id = house.recorder.working("t").await;
    front.cancel(asked).await;
    house.recorder.cancelled(&id).await;
    house.recorder.exit(0).await;
    let row = house.phase("cancelled").await;
    assert_eq!(row["outcome"], "cancelled", "{row:#}");
    house.recorder.gone().await;
    front.finish(&house, &["mine"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_started_is_told_of_and_not_started_again_at_once() {
    let house = House::new();
    let command = house.wrap(&["--http", "127.0.0.1:0"], &["--fail"]);
    let mut front = Front::silent(Way::Http("2026-07-28"), command).await;
    let mut texts = Vec::new();
    for _ in 0..20 {
        let result = front.result("echo", tagged("t")).await;
        assert_eq!(result["isError"], true, "{result}");
        texts.push(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    assert!(texts[0].contains("could not be reached") && texts[0].contains("exit code 3"), "{texts:?}");
    assert!(texts[1].contains("It is tried again in"), "{texts:?}");
    let starts = house.recorder.processes().len();
    assert!(starts <= 3, "{starts} starts for 20 calls");
    front.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_does_not_exist_is_named() {
    let house = House::new();
    let mut command = crate::stage::command(house.dir.path(), &["wrap", "--ledger", &house.ledger()]);
    command.args(["--http", "127.0.0.1:0", "--", "/no/such/program"]);
    let mut front = Front::silent(Way::Http("2026-07-28"), command).await;
    let result = front.result("echo", tagged("t")).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("/no/such/program"), "{text}");
    front.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_caller_leaves_while_it_hangs_is_ended_whatever_it_ignores() {
    let house = House::new();
    let command = house.wrap(&["--http", "127.0.0.1:0"], &["--hang", "--stay"]);
    let mut front = Front::silent(Way::Http("2026-07-28"), command).await;
    let asked = front.call("mine", "echo", tagged("t")).await;
    house.recorder.first("a start", |event| event.message().is_some()).await;
    let since = Instant::now();
    front.cancel(asked).await;
    house.recorder.gone().await;
    took(
        Duration::from_secs(8),
        since,
        Instant::now(),
        "from the client's leave to the end of a server that hangs and stays",
    );
    front.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_secret_in_a_url_is_in_no_answer_and_no_log() {
    let house = House::new();
    // Nothing listens there any more.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp?key=s3cret", held.local_addr().unwrap());
    drop(held);
    let mut front =
        Front::silent(Way::Http("2026-07-28"), house.wrap_url(&["--http", "127.0.0.1:0"], &url)).await;
    let result = front.result("echo", tagged("t")).await;
    assert_eq!(result["isError"], true, "{result}");
    let text = result.to_string();
    println!("{text}");
    front.terminate();
    let said = front.ended().await;
    assert!(!text.contains("s3cret") && !said.contains("s3cret"), "{text}\n{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_while_a_server_hangs_in_its_introduction_is_not_held_up() {
    let house = House::new();
    let mut front = Front::silent(Way::Stdio("2025-11-25"), house.wrap(&[], &["--hang"])).await;
    front.send(message::initialize("initialize", "2025-11-25")).await;
    house.recorder.first("initialize", |event| event.heard("initialize").is_some()).await;
    let closed = Instant::now();
    front.close_input();
    assert!(front.rest().await.is_empty());
    front.ended().await;
    took(
        Duration::from_secs(1),
        closed,
        Instant::now(),
        "from the end of input to the end of all, with a server that hangs",
    );
    house.recorder.gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_a_server_that_hangs_can_be_cancelled_and_a_shutdown_ends_it() {
    let house = House::new();
    let command = house.wrap(&["--http", "127.0.0.1:0"], &["--hang"]);
    let mut front = Front::silent(Way::Http("2026-07-28"), command).await;
    let asked = front.call("mine", "echo", tagged("t")).await;
    house.recorder.first("a start", |event| event.message().is_some()).await;
    let mut other = front.call("other", "echo", tagged("other")).await;
    front.cancel(asked).await;
    let since = Instant::now();
    front.terminate();
    let answer = front.response(&mut other).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    front.ended().await;
    took(
        Duration::from_secs(3),
        since,
        Instant::now(),
        "from SIGTERM to the end of all, with a server that hangs",
    );
    house.recorder.gone().await;
    assert!(house.rows().await.is_empty(), "nothing was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_from_outside_while_it_is_idle_is_started_again() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &[], &[]).await;
    signal(Some(house.recorder.processes()[0].0), "KILL");
    house.recorder.gone().await;
    front.result("echo", tagged("next")).await;
    front.finish(&house, &[]).await;
}
