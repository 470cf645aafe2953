//! Over a pair of streams: servers that do what they should not.

use crate::support::{Fake, answer, ask, call, connecting, fake, lost, next, raw, result, soon};
use countermand_mcp::{CancelFate, Happened, Heard, Lost, PeerOptions, Revision, RpcError};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::task::TaskTracker;

#[tokio::test]
async fn what_a_server_prints_is_no_message_and_holds_up_nothing() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    let request = fake.read().await;
    for junk in [
        "Listening on stdio",
        "{\"level\":\"info\",\"id\":1}",
        "[1, 2]",
        "",
        "{\"jsonrpc\":\"2.0\"",
        "null",
        "\u{1b}[32mok\u{1b}[0m",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}",
    ] {
        fake.say(junk).await;
    }
    fake.answer(&request, "{}").await;
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn only_the_very_id_is_answered_and_only_once() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    let request = fake.read().await;
    let id = request["id"].as_u64().unwrap();
    for wrong in
        [format!("\"{id}\""), format!("{id}.0"), format!("{id}e0"), (id + 1).to_string(), "null".into()]
    {
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{wrong},"result":{{"wrong":true}}}}"#)).await;
    }
    fake.answer(&request, r#"{"nth":1}"#).await;
    fake.answer(&request, r#"{"nth":2}"#).await;
    assert_eq!(result(&mut pending).await, r#"{"nth":1}"#);
    let mut after = peer.request(call("x"));
    let request = fake.read().await;
    fake.answer(&request, "{}").await;
    assert_eq!(result(&mut after).await, "{}");
    assert!(matches!(next(&mut pending).await, Happened::Lost(Lost::Answered)));
}

#[tokio::test]
async fn an_answer_to_a_request_that_was_given_up_is_ignored() {
    let (mut fake, peer, mut heard) = Fake::connected().await;
    let pending = peer.request(call("x"));
    let request = fake.read().await;
    drop(pending);
    let cancel = fake.read().await;
    assert_eq!(cancel["params"], json!({ "requestId": request["id"] }));
    fake.answer(&request, "{}").await;
    let token = &request["params"]["_meta"]["progressToken"];
    fake.say(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    ))
    .await;
    let mut after = peer.request(call("x"));
    let request = fake.read().await;
    fake.answer(&request, "{}").await;
    assert_eq!(result(&mut after).await, "{}");
    assert!(heard.try_recv().is_err());
}

#[tokio::test]
async fn a_request_that_was_not_written_yet_is_never_written() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    // Nothing runs in between: the writer has not seen it.
    let mut pending = peer.request(call("x"));
    let fate = pending.cancel(None).fate().await;
    assert_eq!(fate, CancelFate::NeverSent);
    assert!(!fate.is_delivered());
    assert!(matches!(lost(&mut pending).await, Lost::NotSent(_)));
    drop(peer.request(call("x")));
    soon("the close", peer.close(Duration::from_millis(1))).await;
    assert!(fake.rest().await.is_empty());
}

#[tokio::test]
async fn a_cancel_of_a_server_that_does_not_read_returns_at_once_and_its_failure_is_told() {
    let (write, _server_input) = tokio::io::duplex(600);
    let (mut output, read) = tokio::io::duplex(64 * 1024);
    let target = countermand_mcp::Target::Streams { read: Box::new(read), write: Box::new(write) };
    let connecting = connecting(target, Revision::V2025_11_25, PeerOptions::default());
    let hello = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}}\n",
        crate::support::initialized("2025-11-25")
    );
    soon("room", tokio::io::AsyncWriteExt::write_all(&mut output, hello.as_bytes())).await.unwrap();
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    let mut big = ask("tools/call", &[("name", "\"x\"")]);
    big.params.push(("arguments".into(), raw(&format!("[\"{}\"]", "x".repeat(1000)))));
    let mut pending = peer.request(big);
    // The writer takes it up, and is stuck in it.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    let mut receipt = pending.cancel(None);
    drop(pending);
    soon("the close", peer.close(Duration::from_millis(200))).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(matches!(receipt.fate().await, CancelFate::Failed(_)));
}

#[tokio::test]
async fn what_a_server_asks_during_a_call_is_answered_once_or_refused() {
    let (mut fake, peer, mut heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    let request = fake.read().await;
    let mut asks = Vec::new();
    for id in ["\"a\"", "2", "3"] {
        fake.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"sampling/createMessage","params":{{"own" : 1.0}}}}"#
        ))
        .await;
        let Some(Heard::Asked(ask)) = soon("an ask", heard.recv()).await else { panic!("no ask") };
        assert_eq!(
            (ask.method.as_str(), ask.params.as_ref().unwrap().get()),
            ("sampling/createMessage", r#"{"own" : 1.0}"#)
        );
        asks.push(ask);
    }
    let third = asks.pop().unwrap();
    let second = asks.pop().unwrap();
    asks.pop().unwrap().answer(Ok(raw("{ \"r\" : 1.0 }")));
    assert_eq!(fake.line().await.unwrap().trim_end(), r#"{"jsonrpc":"2.0","id":"a","result":{ "r" : 1.0 }}"#);
    drop(second);
    let refused = fake.read().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(RpcError::INTERNAL_ERROR)));
    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).await;
    soon("the server's cancel", third.cancelled()).await;
    third.answer(Ok(raw("{}")));
    fake.answer(&request, "{}").await;
    assert_eq!(result(&mut pending).await, "{}");
    drop(pending);
    soon("the close", peer.close(Duration::from_millis(1))).await;
    assert_eq!(fake.rest().await, Vec::<Value>::new(), "nothing is said to what was withdrawn");
}

#[tokio::test]
async fn a_server_that_asks_without_end_is_refused() {
    let (mut fake, _peer, heard) = Fake::connected().await;
    for id in 0..300 {
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#)).await;
    }
    for id in 256..300 {
        let refused = fake.read().await;
        assert_eq!(refused["id"], id);
        assert!(refused["error"]["message"].as_str().unwrap().contains("limit 256"), "{refused}");
    }
    // The rest is refused when nobody wants to hear it any more.
    drop(heard);
    for _ in 0..256 {
        assert!(fake.read().await["error"].is_object());
    }
}

#[tokio::test]
async fn a_message_above_the_limit_is_skipped_and_the_next_one_heard() {
    let (mut fake, target) = fake();
    let options = PeerOptions { message: 1000, ..PeerOptions::default() };
    let connecting = connecting(target, Revision::V2025_11_25, options);
    fake.initialize("2025-11-25").await;
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    let (mut one, mut other) = (peer.request(call("x")), peer.request(call("x")));
    let (first, second) = (fake.read().await, fake.read().await);
    fake.answer(&first, &format!("{{\"text\":\"{}\"}}", "x".repeat(2000))).await;
    fake.answer(&second, "{}").await;
    assert_eq!(result(&mut other).await, "{}");
    assert_eq!(lost(&mut one).await, Lost::TooLarge(1000));
}

#[tokio::test]
async fn requests_beyond_what_may_wait_are_not_sent_and_say_so() {
    let (mut fake, target) = fake();
    let options = PeerOptions { outgoing: 1000, ..PeerOptions::default() };
    let connecting = connecting(target, Revision::V2025_11_25, options);
    fake.initialize("2025-11-25").await;
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    let mut pendings: Vec<_> = (0..20).map(|_| peer.request(call("x"))).collect();
    let mut unsent = pendings.pop().unwrap();
    let Lost::NotSent(why) = lost(&mut unsent).await else { panic!("it was sent") };
    assert!(why.contains("1000 bytes"), "{why}");
    let request = fake.read().await;
    fake.answer(&request, "{}").await;
    assert_eq!(result(&mut pendings[0]).await, "{}");
}

#[tokio::test]
async fn a_reader_that_is_slow_misses_old_progress_and_nothing_else() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let (mut slow, mut quick) = (peer.request(call("slow")), peer.request(call("quick")));
    let (first, second) = (fake.read().await, fake.read().await);
    for progress in 1..=1000 {
        fake.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":{progress}}}}}"#,
            first["id"]
        ))
        .await;
    }
    fake.answer(&first, "{}").await;
    fake.answer(&second, "{}").await;
    assert_eq!(result(&mut quick).await, "{}");
    let mut seen = Vec::new();
    loop {
        match next(&mut slow).await {
            Happened::Progress(note) => seen.push(note.progress as u64),
            Happened::Answered(answer) => break assert!(answer.is_ok()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, (937..=1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_subscription_gets_what_is_its_own_and_its_end() {
    let (mut fake, peer, mut heard) = Fake::discovered().await;
    let mut listening =
        peer.request(ask("subscriptions/listen", &[("notifications", r#"{"toolsListChanged":true}"#)]));
    let mut call = peer.request(call("x"));
    let (request, called) = (fake.read().await, fake.read().await);
    assert_eq!(request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, request["id"]);
    for method in ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"] {
        fake.say(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{meta}}}}}"#)).await;
        let Happened::Noted { method: noted, .. } = next(&mut listening).await else { panic!("not noted") };
        assert_eq!(noted, method);
    }
    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#).await;
    assert!(matches!(soon("a note", heard.recv()).await, Some(Heard::Noted { .. })));
    fake.say(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#,
        request["id"]
    ))
    .await;
    assert_eq!(lost(&mut listening).await, Lost::Ended);
    fake.answer(&called, "{}").await;
    assert!(answer(&mut call).await.is_ok());
}

#[tokio::test]
async fn a_close_cancels_what_is_in_flight_closes_the_input_and_waits_for_the_server() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    let request = fake.read().await;
    let (closing, other) = (TaskTracker::new().spawn(peer.clone().close(Duration::from_secs(20))), peer);
    let said = fake.rest().await;
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["params"]["requestId"], request["id"]);
    // It has not hung up yet, and may still answer.
    fake.answer(&request, "{}").await;
    assert_eq!(result(&mut pending).await, "{}");
    fake.output = None;
    soon("the close", closing).await.unwrap();
    assert_eq!(soon("the end", other.closed()).await, Lost::Ended);
}

#[tokio::test]
async fn a_server_that_does_not_hang_up_bounds_no_close() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    fake.read().await;
    soon("the close", peer.close(Duration::from_millis(50))).await;
    assert_eq!(lost(&mut pending).await, Lost::Closed);
    drop(fake);
}
