//! A client whose network is lost without a word: its calls are cancelled at the server within the bound.

use super::{
    front::{Front, Way},
    house::House,
    tagged, took,
};
use crate::silence::Namespace;
use countermand_testkit::client::message;
use std::time::Duration;
use tokio::time::Instant;

/// Comments every 5 s and 10 s for their acknowledgement; and something for a busy machine.
const BOUND: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_a_client_whose_network_is_lost_are_cancelled_at_the_server_within_the_bound() {
    let lost = match Namespace::new() {
        Ok(lost) => lost,
        Err(why) => return println!("skipped: no network namespace here: {why}"),
    };
    let house = House::new();
    let wrap = house.wrap(&["--http", &format!("{}:0", lost.outside())], &[]);
    let mut front = Front::over(Way::Http("2026-07-28"), wrap).await;
    let mut stays = front.call("stays", "stubborn", tagged("stays")).await;
    house.recorder.working("stays").await;
    let client = front.http().clone();
    let request = message::call("gone", "obedient", tagged("gone"));
    let bytes = client.request_bytes(&request, &[]);
    let mut gone = client.write_on(lost.connect(client.address()), &bytes).await;
    assert_eq!(gone.head().await.status, 200);
    let id = house.recorder.working("gone").await;
    lost.take_down();
    let since = Instant::now();
    let told =
        house.recorder.wait_within(BOUND, "the cancel", |_| !house.recorder.cancels().is_empty()).await;
    drop(told);
    let (cancelled, at) = house.recorder.cancels().remove(0);
    assert_eq!(cancelled, id);
    took(BOUND, since, at, "from the loss of the network to the server's notification");
    assert_eq!(house.rows_when("a row", |rows| rows.len() == 1).await[0]["cause"], "client_disconnected");
    house.recorder.release("stays").await;
    assert_eq!(front.response(&mut stays).await["result"]["structuredContent"], tagged("stays"));
    front.finish(&house, &[]).await;
}
