//! Cancels over lines: which call they reach, and what is still said about it.

mod stdio_support;

use countermand_core::Cause;
use countermand_mcp::Delivery;
use stdio_support::{Bed, call, cancel};

#[tokio::test]
async fn a_cancel_reaches_its_call_with_its_reason_and_nothing_is_ever_sent_for_it() {
    let mut bed = Bed::open().await;
    let held = bed.hold("1").await;
    bed.write(&cancel("1")).await;
    assert_eq!(held.cancelled().await, (Cause::ClientCancelled, Some("changed my mind".to_owned())));
    assert_eq!(held.answer("late").await, Delivery::Suppressed(Cause::ClientCancelled));
    assert!(bed.until_barrier().await.is_empty());
    bed.hang_up();
    assert!(bed.rest().await.is_empty());
}

#[tokio::test]
async fn the_string_1_is_not_the_number_1() {
    let mut bed = Bed::open().await;
    let (number, text) = (bed.hold("1").await, bed.hold("\"1\"").await);
    bed.write(&cancel("\"1\"")).await;
    assert_eq!(text.cancelled().await.0, Cause::ClientCancelled);
    assert_eq!(number.call.handle.cause(), None);
    assert_eq!(number.answer("fine").await, Delivery::Sent);
    assert_eq!(bed.read().await["id"], 1);
}

#[tokio::test]
async fn a_call_and_its_cancel_in_one_write_are_both_seen() {
    let mut bed = Bed::open().await;
    bed.write(&format!("{}\n{}", call("1", "held"), cancel("1"))).await;
    let held = bed.next_held().await;
    assert_eq!(held.cancelled().await.0, Cause::ClientCancelled);
    assert_eq!(held.answer("late").await, Delivery::Suppressed(Cause::ClientCancelled));
    assert!(bed.until_barrier().await.is_empty());
}

#[tokio::test]
async fn unknown_malformed_and_late_cancels_are_ignored() {
    let mut bed = Bed::open().await;
    let held = bed.hold("1").await;
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"id":1}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":1}}"#,
    ] {
        bed.write(line).await;
    }
    for id in 2..10_002 {
        bed.write(&cancel(&id.to_string())).await;
    }
    assert!(bed.until_barrier().await.is_empty());
    assert_eq!(held.call.handle.cause(), None);
    assert_eq!(held.answer("fine").await, Delivery::Sent);
    assert_eq!(bed.read().await["id"], 1);
    bed.write(&cancel("1")).await;
    assert!(bed.until_barrier().await.is_empty());
}

#[tokio::test]
async fn an_id_that_was_cancelled_before_it_was_used_is_an_ordinary_id() {
    let mut bed = Bed::open().await;
    bed.write(&cancel("1")).await;
    let held = bed.hold("1").await;
    assert_eq!(held.answer("fine").await, Delivery::Sent);
    assert_eq!(bed.read().await["id"], 1);
}

#[tokio::test]
async fn the_id_of_a_cancelled_call_can_be_used_again_while_the_first_still_cleans_up() {
    let mut bed = Bed::open().await;
    let first = bed.hold("1").await;
    bed.write(&cancel("1")).await;
    first.cancelled().await;
    let second = bed.hold("1").await;
    assert_eq!(first.answer("late").await, Delivery::Suppressed(Cause::ClientCancelled));
    bed.write(&cancel("1")).await;
    assert_eq!(second.cancelled().await.0, Cause::ClientCancelled);
}

#[tokio::test]
async fn initialize_cannot_be_cancelled() {
    let mut bed = Bed::new();
    bed.write(&cancel("\"init\"")).await;
    bed.initialize().await;
    bed.write(&cancel("\"init\"")).await;
    assert!(bed.until_barrier().await.is_empty());
}

#[tokio::test]
async fn a_cancel_that_is_not_the_clients_is_answered() {
    for cause in [Cause::Deadline, Cause::Operator, Cause::Shutdown] {
        let mut bed = Bed::open().await;
        let held = bed.hold("1").await;
        assert!(held.call.handle.cancel(cause, None));
        assert_eq!(held.answer("ended").await, Delivery::Sent);
        assert_eq!(bed.read().await["result"]["content"][0]["text"], "ended");
    }
}

#[tokio::test]
async fn a_client_that_cancels_past_the_deadline_gets_nothing_and_the_cause_stays() {
    let mut bed = Bed::open().await;
    let held = bed.hold("1").await;
    held.call.handle.cancel(Cause::Deadline, None);
    bed.write(&cancel("1")).await;
    assert!(bed.until_barrier().await.is_empty());
    assert_eq!(held.call.handle.cause(), Some((Cause::Deadline, None)));
    assert_eq!(held.answer("late").await, Delivery::Suppressed(Cause::ClientCancelled));
    assert!(bed.until_barrier().await.is_empty());
}

#[tokio::test]
async fn calls_that_were_not_meant_go_on() {
    let mut bed = Bed::open().await;
    let mut others = Vec::new();
    for id in 0..50 {
        others.push(bed.hold(&id.to_string()).await);
    }
    bed.write(&cancel("25")).await;
    let meant = others.remove(25);
    meant.cancelled().await;
    for other in others {
        assert_eq!(other.answer("fine").await, Delivery::Sent);
        assert_eq!(bed.read().await["result"]["content"][0]["text"], "fine");
    }
}
