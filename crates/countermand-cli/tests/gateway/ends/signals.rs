//! SIGTERM and SIGINT: plain calls are cancelled and told so, detached jobs stay, the process ends with 0.

use super::{Caller, Door, Stage, running, tagged, text, within};
use crate::{over_all, stage::signal};
use countermand_testkit::{
    client::{H2Client, message},
    fake::{Filter, Gate},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

over_all! {
    async fn sigterm_cancels_a_plain_call_and_answers_it_before_the_upstream_has(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
        let (mut caller, mut pending) = running(door, &stage, "run_report").await;
        let sent = Instant::now();
        signal(Some(caller.pid()), "TERM");
        held.reached().await;
        within(Duration::from_millis(500), sent, "from SIGTERM to the upstream's cancel");
        // The cancel is still held: the answer does not wait for it.
        let result = caller.answer(&mut pending).await;
        within(Duration::from_secs(1), sent, "from SIGTERM to the answer");
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).contains("the gateway is shutting down"), "{result}");
        assert!(text(&result).contains("The cancel is pending"), "no word of `stopped` before it is: {result}");
        let id = result["_meta"]["dev.countermand/operations"][0]["id"].clone();
        held.release();
        let said = caller.ended().await;
        assert!(said.contains("SIGTERM") && !said.contains("left in the ledger"), "{said}");
        let row = stage.operations().await.remove(0);
        assert_eq!((&row["id"], &row["phase"], &row["cause"]), (&id, &json!("cancelled"), &json!("shutdown")));
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn sigterm_leaves_a_detached_job_alone_and_names_it_on_stderr(door) {
        let stage = Stage::new().await;
        let (mut caller, mut pending) = running(door, &stage, "detached").await;
        signal(Some(caller.pid()), "TERM");
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).contains("shutting down") && text(&result).contains("runs on upstream without its client"), "{result}");
        let said = caller.ended().await;
        let row = stage.operations().await.remove(0);
        assert_eq!((&row["phase"], &row["desired"], &row["cause"]), (&json!("running"), &json!("run"), &json!(null)));
        for named in [row["id"].as_str().unwrap(), "job-1", "detached", "left in the ledger"] {
            assert!(said.contains(named), "{named} is missing: {said}");
        }
        // A graceful restart goes on with it.
        let next = Caller::at(door, &stage).await;
        stage.fake.finish("job-1");
        stage.phase("completed").await;
        assert!(!stage.fake.events().iter().any(|event| event.is("cancel_received")));
        drop(next);
    }
}

over_all! {
    async fn sigint_ends_it_like_sigterm(door) {
        let stage = Stage::new().await;
        let (mut caller, mut pending) = running(door, &stage, "run_report").await;
        signal(Some(caller.pid()), "INT");
        assert!(text(&caller.answer(&mut pending).await).contains("shutting down"));
        assert!(caller.ended().await.contains("SIGINT"));
        assert_eq!(stage.operations().await[0]["cause"], "shutdown");
        assert_eq!(stage.agree().await.cancelled, 1);
    }
}

over_all! {
    async fn sigterm_with_nothing_to_do_ends_it_at_once(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        caller.barrier().await;
        let sent = Instant::now();
        signal(Some(caller.pid()), "TERM");
        caller.ended().await;
        within(Duration::from_secs(2), sent, "from SIGTERM to the exit of an idle gateway");
    }
}

over_all! {
    async fn sigterm_answers_a_read_only_call_and_aborts_its_request(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "search", tagged("t")).await;
        stage.fake.wait_for("slow_started", 1).await;
        signal(Some(caller.pid()), "TERM");
        let result = caller.answer(&mut pending).await;
        assert!(text(&result).contains("shutting down"), "{result}");
        stage.fake.wait_for("closed_early", 1).await;
        caller.ended().await;
    }
}

over_all! {
    async fn sigterm_while_a_create_is_held_waits_for_the_id_and_cancels_by_it(door) {
        let stage = Stage::new().await;
        let held = stage.fake.hold(Gate::CreateCommitted, Filter::default());
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tagged("t")).await;
        held.reached().await;
        signal(Some(caller.pid()), "TERM");
        assert_eq!(caller.answer(&mut pending).await["isError"], true);
        held.release();
        caller.ended().await;
        assert_eq!(stage.agree().await.cancelled, 1);
        assert_eq!(stage.operations().await[0]["cause"], "shutdown");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_comes_after_sigterm_is_refused_and_starts_nothing() {
    let stage = Stage::new().await;
    let held = stage.fake.hold(Gate::CancelReceived, Filter::default());
    let (mut caller, mut pending) = running(Door::Stdio, &stage, "run_report").await;
    signal(Some(caller.pid()), "TERM");
    held.reached().await;
    let Caller::Stdio(client) = &mut caller else { unreachable!("it is on stdio") };
    client.send(&message::call(2, "run_report", tagged("late"))).await;
    held.release();
    assert_eq!(caller.answer(&mut pending).await["isError"], true);
    let Caller::Stdio(client) = &mut caller else { unreachable!("it is on stdio") };
    for message in client.read_to_end().await {
        assert_ne!(message["id"], 1, "one answer a call");
        assert!(message.get("result").is_none(), "{message}");
    }
    caller.ended().await;
    assert_eq!(stage.fake.books().created, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_waits_for_no_connection_that_has_nothing_to_be_answered() {
    let stage = Stage::new().await;
    let mut gateway = stage.http().await;
    let list = message::request(1, "tools/list", json!({}));
    let mut idle = gateway.client.request(&list).await;
    idle.response().await;
    let silent = gateway.client.write(b"").await;
    let bytes = gateway.client.request_bytes(&list, &[]);
    let half_sent = gateway.client.write(&bytes[..bytes.len() / 2]).await;
    let mut multiplexed = H2Client::connect(&gateway.url).await;
    assert_eq!(multiplexed.request(&list).await.status().await, 200);
    let sent = Instant::now();
    gateway.terminate();
    let (status, said) = gateway.exit().await;
    assert_eq!(status.code(), Some(0), "{said}");
    within(Duration::from_secs(4), sent, "from SIGTERM to the exit with four idle connections");
    drop((idle, silent, half_sent));
}
