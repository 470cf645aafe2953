//! Whatever is dropped wherever it waits: the server hears of the cancel, once, and nothing else goes on.

use crate::support::http::Fake as HttpFake;
use crate::support::{Fake, call, connecting, fake, initialized, next, result, soon};
use countermand_mcp::{Happened, Peer, PeerOptions, Revision};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once, and drops it if it is not ready.
fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// What the proxy of a call does: asks, and waits for the answer.
async fn proxied(peer: Peer, steps: tokio::sync::mpsc::UnboundedSender<()>) -> Value {
    let mut pending = peer.request(call("x"));
    loop {
        let _ = steps.send(());
        match pending.next().await {
            Happened::Answered(answer) => return serde_json::from_str(answer.unwrap().get()).unwrap(),
            Happened::Lost(lost) => panic!("{lost}"),
            _ => {}
        }
    }
}

fn progress(request: &Value, nth: usize) -> String {
    let token = &request["params"]["_meta"]["progressToken"];
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{nth}}}}}"#
    )
}

#[tokio::test]
async fn a_proxy_on_streams_that_is_dropped_at_any_await_cancels_its_request_once() {
    for at in 0..4 {
        let (mut fake, peer, _heard) = Fake::connected().await;
        let (steps, mut stepped) = tokio::sync::mpsc::unbounded_channel();
        let proxy = tokio_util::task::TaskTracker::new().spawn(proxied(peer.clone(), steps));
        let request = fake.read().await;
        soon("a step", stepped.recv()).await;
        for nth in 1..=at {
            fake.say(&progress(&request, nth)).await;
            soon("a step", stepped.recv()).await;
        }
        proxy.abort();
        let cancel = fake.read().await;
        assert_eq!(cancel["params"], json!({ "requestId": request["id"] }));
        fake.say(&progress(&request, 99)).await;
        fake.answer(&request, "{}").await;
        let mut after = peer.request(call("y"));
        let request = fake.read().await;
        fake.answer(&request, "{}").await;
        assert_eq!(result(&mut after).await, "{}");
        drop((peer, after));
        assert!(fake.rest().await.is_empty());
    }
}

#[tokio::test]
async fn a_proxy_over_http_that_is_dropped_at_any_await_cancels_its_request_once() {
    for (stateless, at) in [(true, 0), (true, 1), (true, 3), (false, 0), (false, 1), (false, 3)] {
        let (fake, peer, _heard) =
            if stateless { HttpFake::alone().await } else { HttpFake::in_session().await };
        let (steps, mut stepped) = tokio::sync::mpsc::unbounded_channel();
        let proxy = tokio_util::task::TaskTracker::new().spawn(proxied(peer.clone(), steps));
        let mut got = fake.next().await;
        soon("a step", stepped.recv()).await;
        if at > 0 {
            got.begin().await;
        }
        for nth in 1..=at {
            got.write(&format!("data: {}\n\n", progress(&got.body, nth))).await;
            soon("a step", stepped.recv()).await;
        }
        proxy.abort();
        if !stateless {
            let cancel = fake.next().await;
            assert_eq!(cancel.body["params"], json!({ "requestId": got.body["id"] }));
            cancel.status("202 Accepted").await;
            if at == 0 {
                // It shows only now that it has the request, so it is told again.
                got.begin().await;
                let again = fake.next().await;
                assert_eq!(again.body["params"], json!({ "requestId": got.body["id"] }));
                again.status("202 Accepted").await;
            }
        }
        got.closed().await;
        let mut after = peer.request(call("y"));
        let got = fake.next().await;
        assert_eq!(got.body["method"], "tools/call", "nothing else was said");
        got.json("{}").await;
        assert_eq!(result(&mut after).await, "{}");
    }
}

#[tokio::test]
async fn an_answer_that_has_come_is_not_cancelled() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    let request = fake.read().await;
    fake.answer(&request, "{}").await;
    assert!(matches!(next(&mut pending).await, Happened::Answered(Ok(_))));
    drop((pending, peer));
    assert!(fake.rest().await.is_empty());
}

#[tokio::test]
async fn waiting_loses_nothing_when_it_is_dropped() {
    let (mut fake, peer, _heard) = Fake::connected().await;
    let mut pending = peer.request(call("x"));
    let request = fake.read().await;
    for nth in 1..=3 {
        assert!(poll_once(pending.next()).is_none());
        assert!(poll_once(peer.closed()).is_none());
        fake.say(&progress(&request, nth)).await;
        let Happened::Progress(note) = next(&mut pending).await else { panic!("no progress") };
        assert_eq!(note.progress, nth as f64);
    }
    assert!(poll_once(pending.next()).is_none());
    fake.answer(&request, "{}").await;
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn connecting_that_is_dropped_at_any_await_closes_the_streams() {
    for at in 0..3 {
        for prefer in Revision::ALL {
            let (mut fake, target) = fake();
            let connecting = connecting(target, prefer, PeerOptions::default());
            if at > 0 {
                let first = fake.read().await;
                if at > 1 && prefer.is_stateless() {
                    fake.refuse(&first, r#"{"code":-32601,"message":"?"}"#).await;
                    assert_eq!(fake.read().await["method"], "initialize");
                }
            }
            connecting.abort();
            let rest = fake.rest().await;
            assert!(rest.iter().all(|message| message.get("id").is_some()), "{rest:?}");
        }
    }
}

#[tokio::test]
async fn a_session_that_began_while_connecting_was_dropped_is_ended() {
    let fake = HttpFake::bind().await;
    let connecting =
        crate::support::http::connecting(fake.address, Revision::V2025_11_25, PeerOptions::default());
    fake.next().await.json_with("Mcp-Session-Id: s-1\r\n", &initialized("2025-11-25")).await;
    let _initialized = fake.next().await;
    connecting.abort();
    let end = fake.next().await;
    assert!(end.head.starts_with("delete "));
    assert_eq!(end.header("mcp-session-id"), Some("s-1"));
    end.status("204 No Content").await;
}
