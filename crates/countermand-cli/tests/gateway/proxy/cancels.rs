//! A client cancels: the server is told, once, by the id that it knows; that is recorded; and nothing is answered.

use super::{
    front::{Front, Way},
    house::House,
    tagged, took,
};
use crate::{from_every_front, from_fronts};
use countermand_testkit::server::How;
use serde_json::json;
use std::time::Duration;

/// On a machine that does other things as well.
const SOON: Duration = Duration::from_millis(500);

from_every_front! {
    async fn a_cancel_reaches_the_server_and_the_ledger_and_its_late_result_nobody(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let asked = front.call("mine", "stubborn", tagged("t")).await;
        let id = house.recorder.working("t").await;
        assert!(house.rows().await.is_empty(), "a row is made by the cancel");
        let at = front.cancel(asked).await;
        let told = house.recorder.cancelled(&id).await;
        took(SOON, at, told.at, &format!("{way:?}: from the client's cancel to the server's notification"));
        let row = house.phase("cancelling").await;
        assert_eq!(
            (&row["tool"], &row["kind"], &row["desired"], &row["cause"], &row["upstream_id"], &row["settled"]),
            (&json!("stubborn"), &json!("mcp"), &json!("cancel"), &json!(way.cause()), &json!(id.to_string()), &json!(false)),
            "{row:#}"
        );
        let reason = if way == Way::Http("2026-07-28") { json!(null) } else { json!("enough") };
        assert_eq!(row["reason"], reason);
        // It works on, and what it answers within the ten seconds shows that.
        house.recorder.release("t").await;
        let row = house.phase("completed").await;
        assert_eq!((&row["outcome"], &row["settled"]), (&json!("completed"), &json!(true)), "{row:#}");
        front.barrier().await;
        if way != Way::Http("2026-07-28") {
            let said = front.result("cancellation_status", json!({})).await;
            assert_eq!(said["structuredContent"]["operations"][0]["status"], "finished_before_cancel", "{said:#}");
        }
        assert_eq!(house.recorder.cancels().len(), 1);
        front.finish(&house, &["mine"]).await;
    }
}

from_every_front! {
    async fn a_tool_that_answers_its_cancel_is_not_heard_by_the_client_and_has_completed(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let asked = front.call("mine", "late", tagged("t")).await;
        house.recorder.working("t").await;
        front.cancel(asked).await;
        house.recorder.first("its end", |event| event.worked("t") == Some(How::Finished)).await;
        house.phase("completed").await;
        front.barrier().await;
        front.finish(&house, &["mine"]).await;
    }
}

from_fronts! {
    /// In a session the two go different ways, and a cancel that comes first is one of nothing.
    async fn a_call_that_is_cancelled_in_the_same_breath_is_never_answered_and_leaves_nothing_at_work(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let asked = front.call("mine", "obedient", tagged("t")).await;
        front.cancel(asked).await;
        front.barrier().await;
        // Whatever the server has seen of it, it has seen its cancel too.
        assert_eq!(front.result("echo", tagged("next")).await["structuredContent"]["arguments"], tagged("next"));
        let events = house.recorder.wait("an end of the work there may have been", |events| {
            !events.iter().any(|event| event.works("t"))
                || events.iter().any(|event| event.worked("t") == Some(How::Obeyed))
        }).await;
        println!("{way:?}: the server {} it", if events.iter().any(|event| event.works("t")) { "has begun" } else { "has never seen" });
        front.finish(&house, &["mine"]).await;
    }
    stdio_2025_06 = Way::Stdio("2025-06-18"), stdio_2025_11 = Way::Stdio("2025-11-25"),
    stdio_2026 = Way::Stdio("2026-07-28"), http_2026 = Way::Http("2026-07-28")
}

from_fronts! {
    /// Case 18: what it still says is for nobody.
    async fn after_its_cancel_no_progress_of_a_call_is_told(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let call = countermand_testkit::client::message::call_with_progress("mine", "stubborn", tagged("t"), "token");
        let asked = front.send(call).await;
        let id = house.recorder.working("t").await;
        let progress = |n: u32| format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":{n}}}}}"#
        );
        house.recorder.say(&progress(1)).await;
        let mut asked = asked;
        let note = front.hear(&mut asked, "notifications/progress").await;
        assert_eq!(note["params"], json!({ "progressToken": "token", "progress": 1 }));
        front.cancel(asked).await;
        house.recorder.cancelled(&id).await;
        house.recorder.say(&progress(2)).await;
        front.result("echo", tagged("next")).await;
        front.close_input();
        let rest = front.rest().await;
        assert!(rest.iter().all(|message| message["method"] != "notifications/progress"), "{rest:?}");
        front.finish(&house, &["mine"]).await;
    }
    stdio_2025_11 = Way::Stdio("2025-11-25"), stdio_2026 = Way::Stdio("2026-07-28"),
    http_2025_11 = Way::Http("2025-11-25")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_session_a_broken_connection_is_no_cancel_and_the_end_of_the_session_is() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2025-11-25"), &house, &[], &[]).await;
    let asked = front.call("mine", "obedient", tagged("t")).await;
    let id = house.recorder.working("t").await;
    front.lose(asked);
    for _ in 0..3 {
        front.result("echo", tagged("next")).await;
    }
    assert!(house.recorder.cancels().is_empty() && house.rows().await.is_empty());
    front.delete().await;
    house.recorder.cancelled(&id).await;
    assert_eq!(house.phase("cancelled").await["cause"], "session_ended");
    front.finish(&house, &["mine"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_cancel_is_not_forwarded_and_one_of_what_is_not_in_flight_never_is() {
    let house = House::new();
    let mut front = Front::open(Way::Stdio("2025-11-25"), &house, &[], &[]).await;
    front.cancel_by_id(&json!("later")).await;
    front.cancel_by_id(&json!(1)).await;
    let mut later = front.call("later", "stubborn", tagged("later")).await;
    let id = house.recorder.working("later").await;
    // Of another type; and malformed.
    front.cancel_by_id(&json!(2)).await;
    front.cancel_by_id(&id).await;
    front.cancel_by_id(&json!({ "no": "id" })).await;
    let asked = front.call("mine", "stubborn", tagged("t")).await;
    let mine = house.recorder.working("t").await;
    for _ in 0..3 {
        front.cancel_by_id(&asked.id).await;
    }
    house.recorder.cancelled(&mine).await;
    house.recorder.release("later").await;
    let answer = front.response(&mut later).await;
    assert_eq!(answer["result"]["structuredContent"], tagged("later"), "{answer}");
    // Once it was answered there is nothing to cancel.
    front.cancel_by_id(&later.id).await;
    front.result("echo", tagged("next")).await;
    let cancels = house.recorder.cancels();
    assert_eq!(cancels.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&mine]);
    house.recorder.release("t").await;
    house.phase("completed").await;
    front.finish(&house, &["mine"]).await;
}
