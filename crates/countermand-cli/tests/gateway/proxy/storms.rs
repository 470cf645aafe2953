//! Many calls, all cancelled at once.

use super::{
    front::{Front, Way},
    house::House,
    tagged, took,
};
use crate::from_fronts;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

const CALLS: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_calls_whose_streams_are_closed_at_once_are_all_cancelled_by_their_ids() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &[], &[]).await;
    let mut calls = Vec::new();
    for n in 0..CALLS {
        calls.push(front.call("x", "obedient", tagged(&n.to_string())).await);
    }
    let mut other = front.call("x", "stubborn", tagged("other")).await;
    house
        .recorder
        .wait("all at work", |events| {
            let works = |event: &&countermand_testkit::server::Event| {
                matches!(event.kind, countermand_testkit::server::EventKind::Working { .. })
            };
            events.iter().filter(works).count() == CALLS + 1
        })
        .await;
    let since = Instant::now();
    drop(calls);
    let events = house
        .recorder
        .wait("all cancels", |events| {
            let is = |event: &&countermand_testkit::server::Event| {
                matches!(event.kind, countermand_testkit::server::EventKind::Worked { .. })
            };
            events.iter().filter(is).count() == CALLS
        })
        .await;
    let cancels = house.recorder.cancels();
    let last = cancels.iter().map(|(_, at)| *at).max().unwrap();
    took(Duration::from_secs(10), since, last, &format!("the last of {CALLS} notifications"));
    let mut took_each: Vec<_> = cancels.iter().map(|(_, at)| at.duration_since(since)).collect();
    took_each.sort();
    println!("the median of them: {:?}", took_each[took_each.len() / 2]);
    // Each once, each the right one.
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for (id, _) in &cancels {
        *counted.entry(id.to_string()).or_default() += 1;
    }
    assert_eq!((counted.len(), cancels.len()), (CALLS, CALLS));
    for event in &events {
        if let countermand_testkit::server::EventKind::Working { tag, id } = &event.kind {
            assert_eq!(counted.contains_key(&id.to_string()), tag != "other", "{tag}");
        }
    }
    house.recorder.release("other").await;
    assert_eq!(front.response(&mut other).await["result"]["structuredContent"], tagged("other"));
    let rows = house.rows_when("a row for each", |rows| rows.len() == CALLS).await;
    assert!(
        rows.iter().all(|row: &Value| row["desired"] == "cancel" && row["cause"] == "client_disconnected")
    );
    assert_eq!(front.result("echo", tagged("next")).await["structuredContent"]["arguments"], tagged("next"));
    let ending = Instant::now();
    front.finish(&house, &[]).await;
    took(Duration::from_secs(20), ending, Instant::now(), "the end after the storm");
    let rows = house.rows().await;
    assert!(
        rows.iter().all(|row| row["settled"] == true),
        "{:#?}",
        rows.iter().find(|row| row["settled"] != true)
    );
}

from_fronts! {
    async fn a_hundred_cancels_one_after_the_other_reach_the_server_soon(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let mut took = Vec::new();
        for n in 0..100 {
            let asked = front.call(format!("call-{n}"), "late", tagged(&n.to_string())).await;
            let id = house.recorder.working(&n.to_string()).await;
            let at = front.cancel(asked).await;
            took.push(house.recorder.cancelled(&id).await.at.duration_since(at));
        }
        took.sort();
        println!("{way:?}: from a client's cancel to the server's notification: median {:?}, worst {:?}", took[50], took[99]);
        assert!(took[50] <= Duration::from_millis(50), "{took:?}");
        house.rows_when("all completed", |rows| {
            rows.len() == 100 && rows.iter().all(|row| row["phase"] == "completed")
        }).await;
        front.finish(&house, &[]).await;
    }
    stdio_2025_11 = Way::Stdio("2025-11-25"), stdio_2026 = Way::Stdio("2026-07-28"),
    http_2025_11 = Way::Http("2025-11-25"), http_2026 = Way::Http("2026-07-28")
}
