//! Two gateways, one behind the other: a cancel at the front reaches the far upstream.

use super::{
    front::{Front, Way},
    house::House,
    tagged, took,
};
use crate::{
    from_every_front,
    stage::{BINARY, Stage, command},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const SOON: Duration = Duration::from_millis(1000);

async fn the_far_job_is_cancelled(
    way: Way,
    house: &House,
    stage: &Stage,
    mut front: Front,
    how: &str,
    cause: &str,
) {
    let listed = front.request("tools/list", json!({})).await;
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("run_report")), "{names:?}");
    let asked = front.call("mine", "run_report", tagged("t")).await;
    let mut other = front.call("other", "run_report", tagged("other")).await;
    stage
        .fake
        .wait(|events| {
            ["t", "other"]
                .iter()
                .all(|tag| events.iter().any(|event| event.is("job_polled") && event.tagged(tag)))
        })
        .await;
    let at = front.cancel(asked).await;
    stage.fake.wait_for("cancel_received", 1).await;
    took(
        SOON,
        at,
        Instant::now(),
        &format!("{way:?}, {how}: from the client's cancel to the far upstream's"),
    );
    stage.fake.wait_for("job_cancelled", 1).await;
    for job in stage.fake.live_jobs() {
        assert_eq!(job.tag.as_deref(), Some("other"), "the right one");
        stage.fake.finish(&job.id);
    }
    let answer = front.response(&mut other).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let row = house.rows_when("the near row", |rows| rows.len() == 1).await.remove(0);
    assert_eq!((&row["tool"], &row["cause"]), (&json!("run_report"), &json!(way.cause())), "{row:#}");
    let far = stage
        .operations_when("the far rows", |rows| {
            rows.len() == 2 && rows.iter().all(|row| row["settled"] == true)
        })
        .await;
    let cancelled = far.iter().find(|row| row["phase"] == "cancelled").unwrap();
    assert_eq!(cancelled["cause"], cause, "{cancelled:#}");
    front.finish(house, &["mine"]).await;
    stage.agree().await;
}

from_every_front! {
    async fn a_cancel_reaches_the_far_upstream_over_http(way) {
        let stage = Stage::new().await;
        let far = stage.http().await;
        let house = House::new();
        let flags: &[&str] = if way.is_http() { &["--http", "127.0.0.1:0"] } else { &[] };
        let front = Front::over(way, house.wrap_url(flags, &far.url)).await;
        // Towards a server of 2026-07-28 the cancel is the close of its response.
            let cause = if way.is_stateless() { "client_disconnected" } else { "client_cancelled" };
            the_far_job_is_cancelled(way, &house, &stage, front, "over HTTP", cause).await;
    }
}

from_every_front! {
    async fn a_cancel_reaches_the_far_upstream_over_stdio(way) {
        let stage = Stage::new().await;
        let house = House::new();
        let mut wrap = command(house.dir.path(), &["wrap", "--ledger", &house.ledger()]);
        if way.is_http() {
            wrap.args(["--http", "127.0.0.1:0"]);
        }
        wrap.args(["--", BINARY, "serve", "--stdio", "-c"]).arg(stage.config());
        let front = Front::over(way, wrap).await;
        the_far_job_is_cancelled(way, &house, &stage, front, "over stdio", "client_cancelled").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_near_gateway_cancels_the_far_job_and_leaves_its_row_to_the_next_start() {
    let stage = Stage::new().await;
    let far = stage.http().await;
    let house = House::new();
    let way = Way::Stdio("2025-11-25");
    let mut front = Front::over(way, house.wrap_url(&["--grace", "2s"], &far.url)).await;
    let _asked = front.call("mine", "run_report", tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    let since = Instant::now();
    front.close_input();
    stage.fake.wait_for("cancel_received", 1).await;
    took(SOON, since, Instant::now(), "from the end of the near input to the far upstream's cancel");
    front.rest().await;
    front.ended().await;
    took(
        Duration::from_secs(6),
        since,
        Instant::now(),
        "from the end of the near input to the end of the near gateway",
    );
    assert_eq!(stage.settled(1).await[0]["phase"], "cancelled");
    assert_eq!(house.rows().await.len(), 1);
    let mut next = Front::over(way, house.wrap_url(&[], &far.url)).await;
    let rows = house.rows_when("a settled row", |rows| rows[0]["settled"] == true).await;
    assert_eq!((&rows[0]["phase"], &rows[0]["cause"]), (&json!("unverified"), &json!("client_disconnected")));
    next.result("quick", tagged("next")).await;
    next.finish(&house, &[]).await;
    stage.agree().await;
}
