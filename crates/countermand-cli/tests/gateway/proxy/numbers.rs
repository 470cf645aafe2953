//! Ids belong to their client: the right request is cancelled, whatever others call theirs.

use super::{
    front::{Front, Way},
    house::House,
    tagged,
};
use crate::from_every_front;
use serde_json::{Value, json};

from_every_front! {
    async fn of_calls_with_adjacent_ids_the_right_one_is_cancelled(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let mut calls = Vec::new();
        let mut theirs = Vec::new();
        for id in 1..=5_u64 {
            // Ids of ours go down while the server's go up.
            let tag = (6 - id).to_string();
            calls.push(front.call(6 - id, "stubborn", tagged(&tag)).await);
            theirs.push(house.recorder.working(&tag).await);
        }
        let third = calls.remove(2);
        front.cancel(third).await;
        house.recorder.cancelled(&theirs[2]).await;
        for tag in ["1", "2", "4", "5"] {
            house.recorder.release(tag).await;
        }
        for call in &mut calls {
            let answer = front.response(call).await;
            assert_eq!(answer["result"]["structuredContent"], tagged(&answer["id"].to_string()), "{answer}");
        }
        assert_eq!(house.recorder.cancels().len(), 1);
        let rows = house.rows().await;
        assert_eq!((rows.len(), &rows[0]["upstream_id"]), (1, &json!(theirs[2].to_string())));
        front.finish(&house, &[]).await;
    }
}

/// Two clients that share a server, each with the same id.
async fn the_second_of_two_is_cancelled(ways: [Way; 2], ids: [Value; 2]) {
    let house = House::new();
    let mut one = Front::open(ways[0], &house, &["--isolation", "shared"], &[]).await;
    let mut two = one.another(ways[1]).await;
    let mut first = one.call(ids[0].clone(), "stubborn", tagged("one")).await;
    house.recorder.working("one").await;
    let second = two.call(ids[1].clone(), "stubborn", tagged("two")).await;
    let theirs = house.recorder.working("two").await;
    two.cancel(second).await;
    house.recorder.cancelled(&theirs).await;
    house.recorder.release("one").await;
    house.recorder.release("two").await;
    let answer = one.response(&mut first).await;
    assert_eq!(
        (&answer["id"], &answer["result"]["structuredContent"]),
        (&ids[0], &tagged("one")),
        "{answer}"
    );
    let row = house.phase("completed").await;
    assert_eq!(row["upstream_id"], json!(theirs.to_string()));
    assert_eq!(house.recorder.cancels().len(), 1);
    assert_eq!(house.recorder.processes().iter().filter(|(_, lives)| *lives).count(), 1, "they share it");
    one.finish(&house, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_of_two_sessions_is_two_requests() {
    let ways = [Way::Http("2025-11-25"); 2];
    the_second_of_two_is_cancelled(ways, [json!(1), json!(1)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_of_two_requests_that_stand_alone_is_two_requests() {
    let ways = [Way::Http("2026-07-28"); 2];
    the_second_of_two_is_cancelled(ways, [json!("x"), json!("x")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_a_text_and_one_that_is_a_number_are_two() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    let mut number = front.call(7, "stubborn", tagged("number")).await;
    house.recorder.working("number").await;
    let text = front.call("7", "stubborn", tagged("text")).await;
    let theirs = house.recorder.working("text").await;
    front.cancel(text).await;
    house.recorder.cancelled(&theirs).await;
    house.recorder.release("number").await;
    assert_eq!(front.response(&mut number).await["result"]["structuredContent"], tagged("number"));
    assert_eq!(house.recorder.cancels().len(), 1);
    front.finish(&house, &["7"]).await;
}
