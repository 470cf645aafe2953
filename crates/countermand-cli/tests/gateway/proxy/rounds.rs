//! A request that waits for its client's next round: it is that client's, and it does not wait for ever.

use super::{
    asking::{asks, next_round},
    front::{Asked, Front, Way},
    house::House,
    tagged, took,
};
use crate::from_fronts;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

fn arguments() -> Value {
    asks("t", "elicitation/create", &json!({ "message": "?" }))
}

/// A call whose result has required input.
async fn waiting(front: &mut Front, house: &House) -> (Value, Value) {
    let mut asked = front.call("first", "asks", arguments()).await;
    let id = house.recorder.working("t").await;
    let required = front.response(&mut asked).await["result"].clone();
    assert_eq!(required["resultType"], "input_required", "{required}");
    (id, required)
}

from_fronts! {
    async fn a_round_that_never_comes_is_a_cancel_when_the_time_of_its_call_is_over(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &["--timeout", "2s"], &[]).await;
        let since = Instant::now();
        let (id, required) = waiting(&mut front, &house).await;
        let told = house.recorder.cancelled(&id).await;
        took(Duration::from_secs(4), since, told.at, "an abandoned round, of 2 s");
        let row = house.rows_when("a row", |rows| rows.len() == 1).await.remove(0);
        assert_eq!((&row["cause"], &row["upstream_id"]), (&json!("deadline"), &json!(id.to_string())), "{row:#}");
        let mut late = next_round(&mut front, "late", arguments(), &required, json!({ "action": "accept" })).await;
        let answer = front.response(&mut late).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        front.finish(&house, &[]).await;
    }
    stdio_2026 = Way::Stdio("2026-07-28"), http_2026 = Way::Http("2026-07-28")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_goes_on_with_a_round() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &[], &[]).await;
    let (_, required) = waiting(&mut front, &house).await;
    let mut other = front.another(Way::Http("2025-11-25")).await;
    let stolen = json!({ "action": "accept", "content": { "by": "somebody else" } });
    let mut theirs = next_round(&mut other, "theirs", arguments(), &required, stolen).await;
    let answer = other.response(&mut theirs).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let mine = json!({ "action": "accept", "content": { "by": "me" } });
    let mut asked = next_round(&mut front, "again", arguments(), &required, mine.clone()).await;
    let answer = front.response(&mut asked).await;
    assert_eq!(answer["result"]["structuredContent"]["client"], mine, "{answer}");
    // Once it was gone on with it does not wait any more.
    let mut again = next_round(&mut front, "twice", arguments(), &required, mine).await;
    assert_eq!(front.response(&mut again).await["error"]["code"], -32602);
    front.finish(&house, &[]).await;
}

from_fronts! {
    async fn a_round_that_is_cancelled_is_the_cancel_of_the_servers_one_request(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let (id, required) = waiting(&mut front, &house).await;
        // The server has its answer, and says nothing: it is stopped, so that the round is open.
        let server = house.recorder.processes()[0].0;
        crate::stage::signal(Some(server), "STOP");
        let asked = next_round(&mut front, "again", arguments(), &required, json!({ "action": "accept" })).await;
        front.barrier_of_ours().await;
        front.cancel(asked).await;
        let row = house.rows_when("the cancel", |rows| rows.len() == 1).await.remove(0);
        assert_eq!((&row["cause"], &row["upstream_id"]), (&json!(way.cause()), &json!(id.to_string())), "{row:#}");
        crate::stage::signal(Some(server), "CONT");
        house.recorder.cancelled(&id).await;
        house.phase("completed").await;
        front.finish(&house, &["again"]).await;
    }
    stdio_2026 = Way::Stdio("2026-07-28"), http_2026 = Way::Http("2026-07-28")
}

from_fronts! {
    async fn a_shutdown_cancels_what_waits_for_a_round_and_says_so_in_the_ledger(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let (id, _) = waiting(&mut front, &house).await;
        front.terminate();
        house.recorder.cancelled(&id).await;
        front.ended().await;
        house.recorder.gone().await;
        let row = house.phase("cancelled").await;
        assert_eq!((&row["cause"], &row["upstream_id"]), (&json!("shutdown"), &json!(id.to_string())), "{row:#}");
    }
    stdio_2026 = Way::Stdio("2026-07-28"), http_2026 = Way::Http("2026-07-28")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_while_a_round_is_waited_for_is_told_of_in_the_next_one() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &[], &[]).await;
    let (_, required) = waiting(&mut front, &house).await;
    house.recorder.exit(9).await;
    house.recorder.gone().await;
    let mut asked: Asked =
        next_round(&mut front, "again", arguments(), &required, json!({ "action": "accept" })).await;
    let answer = front.response(&mut asked).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(front.result("echo", tagged("next")).await["structuredContent"]["arguments"], tagged("next"));
    front.finish(&house, &[]).await;
}
