//! How a connection over lines ends, and what becomes of its calls.

mod stdio_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, Why};
use std::time::Duration;
use stdio_support::{Bed, Setup, call, cancel, request, soon};

#[tokio::test]
async fn the_end_of_the_input_cancels_every_call_at_once_and_waits_for_their_handlers() {
    let mut bed = Bed::open().await;
    let mut held = Vec::new();
    for id in 0..20 {
        held.push(bed.hold(&id.to_string()).await);
    }
    bed.hang_up();
    for call in &held {
        // No handler has returned yet: the cancels waited for nothing.
        assert_eq!(call.cancelled().await, (Cause::ClientDisconnected, None));
    }
    for call in held {
        assert_eq!(call.answer("late").await, Delivery::Suppressed(Cause::ClientDisconnected));
    }
    assert!(bed.rest().await.is_empty());
    assert!(bed.calls.is_empty());
    let end = bed.end().await;
    assert_eq!((end.why, end.unfinished), (Why::EndOfInput, 0));
}

#[tokio::test]
async fn a_call_and_the_end_in_one_write_are_a_cancelled_call() {
    let mut bed = Bed::open().await;
    bed.write(&call("1", "held")).await;
    bed.hang_up();
    let held = bed.next_held().await;
    assert_eq!(held.cancelled().await.0, Cause::ClientDisconnected);
    held.answer("late").await;
    assert!(bed.rest().await.is_empty());
}

#[tokio::test]
async fn what_was_answered_before_the_end_is_still_written() {
    let mut bed = Bed::open().await;
    for id in 0..100 {
        bed.write(&request(&id.to_string(), "tools/list", "{}")).await;
    }
    bed.hang_up();
    let said = bed.rest().await;
    assert_eq!(said.len(), 100);
    assert_eq!(bed.end().await.why, Why::EndOfInput);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_outlives_the_drain_is_counted_and_runs_on() {
    let mut bed = Bed::with(Setup { drain: Duration::from_secs(3), ..Setup::default() });
    bed.initialize().await;
    let held = bed.hold("1").await;
    bed.hang_up();
    held.cancelled().await;
    let calls = bed.calls.clone();
    let end = bed.end().await;
    assert_eq!((end.why, end.unfinished), (Why::EndOfInput, 1));
    assert_eq!(calls.len(), 1);
    let mut late = held.release("late");
    soon("the handler's return", calls.idle()).await;
    assert_eq!(late.try_recv(), Ok(Delivery::Suppressed(Cause::ClientDisconnected)));
}

#[tokio::test]
async fn an_output_that_is_closed_is_a_client_that_has_gone() {
    let mut bed = Bed::open().await;
    let held = bed.hold("1").await;
    let (_, gone) = tokio::io::duplex(1);
    bed.output = tokio::io::BufReader::new(gone);
    bed.write(&request("2", "ping", "{}")).await;
    assert_eq!(held.cancelled().await.0, Cause::ClientDisconnected);
    held.answer("late").await;
    assert_eq!(bed.end().await.why, Why::OutputClosed);
}

#[tokio::test]
async fn a_stop_lets_the_answers_of_cancelled_calls_out() {
    let mut bed = Bed::open().await;
    let held = bed.hold("1").await;
    assert_eq!(bed.calls.cancel_all(Cause::Shutdown), 1);
    bed.stop.cancel();
    assert_eq!(held.cancelled().await.0, Cause::Shutdown);
    assert_eq!(held.answer("shut down").await, Delivery::Sent);
    let said = bed.rest().await;
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["result"]["content"][0]["text"], "shut down");
    assert_eq!(bed.end().await.why, Why::Stopped);
}

#[tokio::test]
async fn after_a_shutdown_new_calls_are_refused() {
    let mut bed = Bed::open().await;
    bed.calls.cancel_all(Cause::Shutdown);
    bed.write(&call("1", "held")).await;
    assert_eq!(bed.read().await["error"]["code"], -31003);
}

#[tokio::test]
async fn a_client_that_does_not_read_has_its_cancels_and_its_end_read() {
    let mut bed = Bed::with(Setup { pipe: 512, ..Setup::default() });
    bed.initialize().await;
    let held = bed.hold("\"held\"").await;
    // Far more answers and replies than the way out holds, none of them read.
    for id in 0..2_000 {
        bed.write(&call(&id.to_string(), "quick")).await;
        bed.write(&request(&format!("\"ping {id}\""), "ping", "{}")).await;
    }
    bed.write(&cancel("\"held\"")).await;
    assert_eq!(held.cancelled().await.0, Cause::ClientCancelled);
    held.answer("late").await;
    let calls = bed.calls.clone();
    bed.hang_up();
    // Nobody reads: the answers that wait for room are given up.
    soon("the end of all calls", calls.idle()).await;
    assert_eq!(bed.end().await.why, Why::EndOfInput);
}

#[tokio::test]
async fn a_client_that_reads_late_gets_every_answer() {
    let mut bed = Bed::with(Setup { pipe: 512, ..Setup::default() });
    bed.initialize().await;
    for id in 0..900 {
        bed.write(&call(&id.to_string(), "quick")).await;
    }
    let mut ids: Vec<u64> = Vec::new();
    for _ in 0..900 {
        ids.push(bed.read().await["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..900).collect::<Vec<_>>());
}
