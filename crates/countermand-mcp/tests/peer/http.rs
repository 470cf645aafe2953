//! Over HTTP: servers that do what they should not, and connections that break.

use crate::support::http::{Fake, Got, target};
use crate::support::{answer, ask, call, introduction, lost, next, raw, result, soon};
use countermand_mcp::{
    CancelFate, Happened, Heard, HttpTarget, Lost, Outgoing, Peer, PeerOptions, Pending, Revision, Target,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A request of that peer, and what arrives of it.
async fn asked(fake: &Fake, peer: &Peer, ask: Outgoing) -> (Pending, Got) {
    let pending = peer.request(ask);
    let got = fake.next().await;
    assert_eq!(got.body["id"].to_string(), pending.id().get());
    (pending, got)
}

#[tokio::test]
async fn a_session_sends_its_id_its_revision_and_the_secrets_with_every_request() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    assert!(got.head.starts_with("post /mcp?key=hush "));
    for (name, value) in [
        ("mcp-session-id", "s-1"),
        ("mcp-protocol-version", "2025-11-25"),
        ("authorization", "bearer hush"),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
    assert!(got.header("mcp-method").is_none());
    let odd = r#"{ "q" : 1.00 }"#;
    got.json(odd).await;
    assert_eq!(result(&mut pending).await, odd);
    peer.notify("notifications/odd", Some(raw("{\"v\":1.0}")));
    let got = fake.next().await;
    assert_eq!(
        (&got.body["method"], got.header("mcp-session-id")),
        (&json!("notifications/odd"), Some("s-1"))
    );
    got.status("202 Accepted").await;
    let closing = tokio_util::task::TaskTracker::new().spawn(peer.close(Duration::from_secs(10)));
    let end = fake.next().await;
    assert!(end.head.starts_with("delete "));
    assert_eq!(end.header("mcp-session-id"), Some("s-1"));
    end.status("204 No Content").await;
    soon("the close", closing).await.unwrap();
}

#[tokio::test]
async fn a_session_whose_client_is_dropped_is_ended_all_the_same() {
    let (fake, peer, _heard) = Fake::in_session().await;
    drop(peer);
    let end = fake.next().await;
    assert!(end.head.starts_with("delete "));
    end.status("405 Method Not Allowed").await;
}

#[tokio::test]
async fn a_request_that_stands_alone_says_in_its_headers_what_it_is() {
    let (fake, peer, _heard) = Fake::alone().await;
    let mut odd = call("Gr\u{fc}n");
    odd.headers = vec![("Mcp-Param-Region".into(), "eu".into()), ("Authorization".into(), "mine".into())];
    odd.meta = vec![("io.modelcontextprotocol/logLevel".into(), raw("\"debug\""))];
    let (mut pending, got) = asked(&fake, &peer, odd).await;
    assert_eq!(got.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(got.header("mcp-method"), Some("tools/call"));
    assert_eq!(got.header("mcp-name"), Some("=?base64?r3ldvg4=?="));
    assert_eq!(got.header("mcp-param-region"), Some("eu"));
    assert_eq!(got.header("authorization"), Some("bearer hush"));
    assert_eq!(got.body["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "debug");
    assert_eq!(
        got.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["x"].to_string(),
        "1.0"
    );
    got.json("{}").await;
    assert_eq!(result(&mut pending).await, "{}");
    let (mut pending, got) =
        asked(&fake, &peer, Outgoing { name: Some("t-1".into()), ..ask("tasks/get", &[]) }).await;
    assert_eq!(got.header("mcp-name"), Some("t-1"));
    got.json("{}").await;
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn events_bring_progress_notes_asks_and_the_answer_in_any_shape() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    let id = got.body["id"].clone();
    got.begin().await;
    got.write(": hello\n\nevent: ping\ndata: {}\n\nevent: message\r\nda").await;
    got.write(&format!(
        "ta: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\r\ndata: \"params\":{{\"progressToken\":{id},\"progress\":0.5}}}}\r\n\r\n"
    ))
    .await;
    got.write(
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"v\" : 1.0}}\n\n",
    )
    .await;
    got.write("data: {\"jsonrpc\":\"2.0\",\"id\":\"e\",\"method\":\"elicitation/create\",\"params\":{}}\n\n")
        .await;
    let Happened::Progress(note) = next(&mut pending).await else { panic!("no progress") };
    assert_eq!(note.progress, 0.5);
    let Happened::Noted { method, params } = next(&mut pending).await else { panic!("no note") };
    assert_eq!((method.as_str(), params.unwrap().get()), ("notifications/message", r#"{"v" : 1.0}"#));
    let Happened::Asked(ask) = next(&mut pending).await else { panic!("no ask") };
    ask.answer(Ok(raw(r#"{"action":"accept"}"#)));
    let reply = fake.next().await;
    assert_eq!(reply.body, json!({ "jsonrpc": "2.0", "id": "e", "result": { "action": "accept" } }));
    reply.status("202 Accepted").await;
    got.event(&id, "{\"last\":1.0}").await;
    assert_eq!(result(&mut pending).await, "{\"last\":1.0}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_gone_on_with_behind_its_last_event() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    let id = got.body["id"].clone();
    got.begin().await;
    got.write("id: 1-0\nretry: 1\ndata:\n\n").await;
    drop(got);
    for last in ["1-0", "1-1", "1-2"] {
        let mut resumed = fake.next().await;
        assert!(resumed.head.starts_with("get "));
        assert_eq!(resumed.header("last-event-id"), Some(last));
        assert_eq!(resumed.header("accept"), Some("text/event-stream"));
        assert_eq!((resumed.header("mcp-session-id"), resumed.header("content-type")), (Some("s-1"), None));
        resumed.begin().await;
        let nth: u32 = last[2..].parse().unwrap();
        if nth == 2 {
            resumed.event(&id, "{}").await;
        } else {
            let progress = nth + 1;
            resumed
                .write(&format!(
                    "id: 1-{progress}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{id},\"progress\":{progress}}}}}\n\nid: 9-9\ndata: half"
                ))
                .await;
            let Happened::Progress(note) = next(&mut pending).await else { panic!("no progress") };
            assert_eq!(note.progress, f64::from(progress));
        }
    }
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn a_stream_that_cannot_be_gone_on_with_is_lost() {
    // Nothing in it had an id.
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    got.begin().await;
    got.write(": hello\n\n").await;
    drop(got);
    assert_eq!(lost(&mut pending).await, Lost::Ended);
    // The server does not offer it.
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    got.begin().await;
    got.write("id: 1\nretry: 1\ndata:\n\n").await;
    drop(got);
    fake.next().await.status("405 Method Not Allowed").await;
    assert_eq!(lost(&mut pending).await, Lost::Ended);
    // It never brings anything new.
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    got.begin().await;
    got.write("id: 1\nretry: 1\ndata:\n\n").await;
    drop(got);
    for _ in 0..5 {
        let mut resumed = fake.next().await;
        resumed.begin().await;
    }
    assert_eq!(lost(&mut pending).await, Lost::Ended);
    // In 2026-07-28 there is no such thing.
    let (fake, peer, _heard) = Fake::alone().await;
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    got.begin().await;
    got.write("id: 1\nretry: 1\ndata:\n\n").await;
    drop(got);
    assert_eq!(lost(&mut pending).await, Lost::Ended);
    // And a connection that breaks before the head says so.
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    drop(got);
    assert!(matches!(lost(&mut pending).await, Lost::Broken(_)));
}

#[tokio::test]
async fn a_404_in_a_session_is_its_end_for_every_request() {
    let (fake, peer, mut heard) = Fake::in_session().await;
    let (mut other, held) = asked(&fake, &peer, call("x")).await;
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    let id = &got.body["id"];
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"no such session"}}}}"#);
    got.whole("404 Not Found", "Content-Type: application/json\r\n", &body).await;
    assert_eq!(lost(&mut pending).await, Lost::SessionGone);
    assert_eq!(lost(&mut other).await, Lost::SessionGone);
    assert_eq!(soon("the end", peer.closed()).await, Lost::SessionGone);
    assert!(soon("the end", heard.recv()).await.is_none());
    assert!(matches!(lost(&mut peer.request(call("x"))).await, Lost::NotSent(_)));
    drop(held);
    soon("the close", peer.close(Duration::from_secs(10))).await;
}

#[tokio::test]
async fn a_404_that_says_that_the_method_is_unknown_ends_nothing() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, got) = asked(&fake, &peer, ask("no/such", &[])).await;
    let id = &got.body["id"];
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"?"}}}}"#);
    got.whole("404 Not Found", "Content-Type: application/json\r\n", &body).await;
    assert_eq!(answer(&mut pending).await.unwrap_err().code, -32601);
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    got.json("{}").await;
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn a_status_in_place_of_an_answer_is_told_and_an_error_with_one_is_the_answer() {
    let (fake, peer, _heard) = Fake::alone().await;
    for (status, code) in
        [("401 Unauthorized", 401), ("403 Forbidden", 403), ("503 Service Unavailable", 503)]
    {
        let (mut pending, got) = asked(&fake, &peer, call("x")).await;
        got.whole(status, "", "nothing to see").await;
        let lost = lost(&mut pending).await;
        assert_eq!(lost, Lost::Refused { status: code });
        assert!(lost.to_string().contains(&code.to_string()) && !lost.to_string().contains("hush"));
    }
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-31029,"message":"too many"}}"#;
    got.whole("429 Too Many Requests", "Content-Type: application/json\r\n", body).await;
    assert_eq!(answer(&mut pending).await.unwrap_err().code, -31029);
    for (kind, body) in [("application/json", "{}"), ("text/html", "<html>"), ("application/json", "")] {
        let (mut pending, got) = asked(&fake, &peer, call("x")).await;
        got.whole("200 OK", &format!("Content-Type: {kind}\r\n"), body).await;
        assert!(matches!(lost(&mut pending).await, Lost::Broken(_)), "{kind} {body}");
    }
}

#[tokio::test]
async fn an_answer_above_the_limit_is_lost_in_either_shape() {
    let fake = Fake::bind().await;
    let options = PeerOptions { message: 1000, ..PeerOptions::default() };
    let connecting = crate::support::http::connecting(fake.address, Revision::V2026_07_28, options);
    fake.next().await.json(crate::support::DISCOVERED).await;
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    let big = format!("{{\"text\":\"{}\"}}", "x".repeat(2000));
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    got.json(&big).await;
    assert_eq!(lost(&mut pending).await, Lost::TooLarge(1000));
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    let id = got.body["id"].clone();
    got.begin().await;
    got.event(&id, &big).await;
    assert_eq!(lost(&mut pending).await, Lost::TooLarge(1000));
}

#[tokio::test]
async fn what_belongs_to_no_request_is_heard_and_listened_to_again() {
    let fake = Fake::bind().await;
    let connecting =
        crate::support::http::connecting(fake.address, Revision::V2025_06_18, PeerOptions::default());
    fake.next().await.json_with("Mcp-Session-Id: s-1\r\n", &crate::support::initialized("2025-06-18")).await;
    fake.next().await.status("202 Accepted").await;
    let (peer, mut heard) = soon("a connection", connecting).await.unwrap().unwrap();
    for last in [None, Some("g-1")] {
        let mut listening = fake.next().await;
        assert!(listening.head.starts_with("get "));
        assert_eq!(listening.header("last-event-id"), last);
        listening.begin().await;
        listening
            .write("retry: 1\nid: g-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
            .await;
        let Some(Heard::Noted { method, params: None }) = soon("a note", heard.recv()).await else {
            panic!("not noted")
        };
        assert_eq!(method, "notifications/tools/list_changed");
    }
    // The end of the session is learnt here as well, and made sure of.
    fake.next().await.status("404 Not Found").await;
    let ping = fake.next().await;
    assert_eq!(ping.body["method"], "ping");
    ping.status("404 Not Found").await;
    assert_eq!(soon("the end", peer.closed()).await, Lost::SessionGone);
}

#[tokio::test]
async fn a_404_to_a_get_is_no_end_of_a_session_that_answers_pings() {
    let fake = Fake::bind().await;
    let connecting =
        crate::support::http::connecting(fake.address, Revision::V2025_11_25, PeerOptions::default());
    fake.next().await.json_with("Mcp-Session-Id: s-1\r\n", &crate::support::initialized("2025-11-25")).await;
    fake.next().await.status("202 Accepted").await;
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    fake.next().await.status("404 Not Found").await;
    fake.next().await.json("{}").await;
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    got.begin().await;
    got.write("id: 1\nretry: 1\ndata:\n\n").await;
    drop(got);
    fake.next().await.status("404 Not Found").await;
    fake.next().await.json("{}").await;
    assert_eq!(lost(&mut pending).await, Lost::Ended);
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    got.json("{}").await;
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn nothing_new_is_sent_while_a_session_is_being_ended() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let other = peer.clone();
    let closing = tokio_util::task::TaskTracker::new().spawn(peer.close(Duration::from_secs(10)));
    let end = fake.next().await;
    assert!(end.head.starts_with("delete "));
    assert!(matches!(lost(&mut other.request(call("x"))).await, Lost::NotSent(_)));
    other.notify("notifications/odd", None);
    end.status("204 No Content").await;
    // It ends with every task of the connection: whatever would be sent has been.
    soon("the close", closing).await.unwrap();
    assert_eq!(other.closed().await, Lost::Closed);
    let (_barrier, arrived) = tokio::join!(tokio::net::TcpStream::connect(fake.address), fake.arrived());
    assert_eq!(arrived, 1, "only the barrier arrives");
}

#[tokio::test]
async fn a_cancel_in_a_session_does_not_overtake_its_request() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    // The server is silent: it has not shown that it has the request.
    let mut receipt = pending.cancel(Some("enough"));
    let cancel = fake.next().await;
    assert_eq!(cancel.body["method"], "notifications/cancelled");
    assert_eq!(cancel.body["params"], json!({ "requestId": got.body["id"], "reason": "enough" }));
    cancel.status("202 Accepted").await;
    assert_eq!(soon("a fate", receipt.fate()).await, CancelFate::Acknowledged);
    // Now it has: so the cancel may have come first, and is told again.
    got.begin().await;
    let again = fake.next().await;
    assert_eq!(again.body["params"]["requestId"], got.body["id"]);
    again.status("202 Accepted").await;
    // A late answer is there for who still waits.
    let id = got.body["id"].clone();
    got.event(&id, "{}").await;
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn a_cancel_behind_a_response_that_has_begun_is_told_once() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    let id = got.body["id"].clone();
    got.begin().await;
    got.write(&format!(
        "id: 1\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{id},\"progress\":1}}}}\n\n"
    ))
    .await;
    next(&mut pending).await;
    pending.cancel(None);
    let mut receipt = pending.cancel(None);
    let cancel = fake.next().await;
    cancel.status("202 Accepted").await;
    assert_eq!(soon("a fate", receipt.fate()).await, CancelFate::Acknowledged);
    // A stream that ends then has nothing more to say, and is not asked for again.
    drop(got);
    assert_eq!(lost(&mut pending).await, Lost::Ended);
    let (mut pending, got) = asked(&fake, &peer, call("x")).await;
    got.json("{}").await;
    assert_eq!(result(&mut pending).await, "{}");
}

#[tokio::test]
async fn a_cancel_that_the_server_does_not_take_has_failed_and_may_be_sent_again() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, _got) = asked(&fake, &peer, call("x")).await;
    let mut receipt = pending.cancel(None);
    fake.next().await.status("500 Internal Server Error").await;
    let fate = soon("a fate", receipt.fate()).await;
    assert!(matches!(&fate, CancelFate::Failed(why) if why.contains("500")), "{fate:?}");
    let mut receipt = pending.cancel(None);
    fake.next().await.status("202 Accepted").await;
    assert_eq!(soon("a fate", receipt.fate()).await, CancelFate::Acknowledged);
}

#[tokio::test]
async fn a_request_that_was_not_sent_yet_is_never_sent() {
    for fake in [Fake::alone().await, Fake::in_session().await] {
        let (fake, peer, _heard) = fake;
        let mut pending = peer.request(call("x"));
        assert_eq!(pending.cancel(None).fate().await, CancelFate::NeverSent);
        assert!(matches!(lost(&mut pending).await, Lost::NotSent(_)));
        drop(peer.request(call("x")));
        let (mut pending, got) = asked(&fake, &peer, call("y")).await;
        assert_eq!(got.body["params"]["name"], "y");
        got.json("{}").await;
        assert_eq!(result(&mut pending).await, "{}");
    }
}

#[tokio::test]
async fn a_request_that_is_half_sent_is_broken_off_by_a_cancel_and_never_whole() {
    const LENGTH: usize = 16 * 1024 * 1024;
    for fake in [Fake::alone().await, Fake::in_session().await] {
        let (fake, peer, _heard) = fake;
        let text = format!("\"{}\"", "x".repeat(LENGTH));
        let mut pending = peer.request(ask("tools/call", &[("name", "\"x\""), ("arguments", &text)]));
        // The rest of it is not read: it fills the buffers on the way, and waits.
        let mut half = fake.accept().await;
        half.some().await;
        assert_eq!(pending.cancel(None).fate().await, CancelFate::NeverSent);
        assert!(matches!(lost(&mut pending).await, Lost::NotSent(_)));
        assert!(half.rest().await < LENGTH);
        let (mut pending, got) = asked(&fake, &peer, call("y")).await;
        assert_eq!(got.body["method"], "tools/call", "no cancel is said of what was never whole");
        got.json("{}").await;
        assert_eq!(result(&mut pending).await, "{}");
    }
}

#[tokio::test]
async fn a_cancel_of_what_stands_alone_closes_its_response_and_no_other() {
    let (fake, peer, _heard) = Fake::alone().await;
    let (mut one, mut first) = asked(&fake, &peer, call("x")).await;
    let (mut other, mut second) = asked(&fake, &peer, call("x")).await;
    first.begin().await;
    let mut receipt = one.cancel(Some("enough"));
    first.closed().await;
    assert_eq!(soon("a fate", receipt.fate()).await, CancelFate::StreamClosed);
    assert_eq!(lost(&mut one).await, Lost::Cancelled);
    let id = second.body["id"].clone();
    second.begin().await;
    second.event(&id, "{}").await;
    assert_eq!(result(&mut other).await, "{}");
    // Silent, without a head: the same.
    let (mut silent, mut third) = asked(&fake, &peer, call("x")).await;
    let begun = tokio::time::Instant::now();
    silent.cancel(None);
    third.closed().await;
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_request_whose_secrets_are_not_to_be_had_is_not_sent() {
    let (fake, peer, _heard) = Fake::alone().await;
    drop(peer);
    let secretless =
        HttpTarget { headers: Arc::new(|| Err("TOKEN is not set".into())), ..target(fake.address) };
    let connecting =
        Peer::connect(Target::Http(secretless), introduction(Revision::V2025_11_25), PeerOptions::default());
    let error = soon("an end", connecting).await.unwrap_err();
    assert!(error.to_string().contains("TOKEN is not set"), "{error}");
}

#[tokio::test]
async fn a_response_that_is_silent_for_longer_than_it_may_be_is_lost() {
    let fake = Fake::bind().await;
    let mut target = target(fake.address);
    target.idle = Some(Duration::from_millis(500));
    let connecting = tokio_util::task::TaskTracker::new().spawn(Peer::connect(
        Target::Http(target),
        introduction(Revision::V2026_07_28),
        PeerOptions::default(),
    ));
    fake.next().await.json(crate::support::DISCOVERED).await;
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    let (mut pending, mut got) = asked(&fake, &peer, call("x")).await;
    got.begin().await;
    let Lost::Broken(why) = lost(&mut pending).await else { panic!("not broken") };
    assert!(why.contains("500ms"), "{why}");
    got.closed().await;
}

#[tokio::test]
async fn a_cancel_of_a_server_that_acknowledges_nothing_returns_at_once_and_fails_in_time() {
    let fake = Fake::bind().await;
    let mut target = target(fake.address);
    target.patience = Duration::from_secs(1);
    let connecting = tokio_util::task::TaskTracker::new().spawn(Peer::connect(
        Target::Http(target),
        introduction(Revision::V2025_11_25),
        PeerOptions::default(),
    ));
    fake.next().await.json_with("Mcp-Session-Id: s-1\r\n", &crate::support::initialized("2025-11-25")).await;
    fake.next().await.status("202 Accepted").await;
    let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
    fake.next().await.status("405 Method Not Allowed").await;
    let (mut pending, _silent) = asked(&fake, &peer, call("x")).await;
    let begun = tokio::time::Instant::now();
    let mut receipt = pending.cancel(None);
    drop(pending);
    assert!(begun.elapsed() < Duration::from_millis(100));
    let _silent_too = fake.next().await;
    let fate = soon("a fate", receipt.fate()).await;
    assert!(matches!(&fate, CancelFate::Failed(why) if why.contains("within 1s")), "{fate:?}");
}

#[tokio::test]
async fn a_close_is_bounded_whatever_the_server_does() {
    let (fake, peer, _heard) = Fake::in_session().await;
    let (mut pending, _got) = asked(&fake, &peer, call("x")).await;
    let begun = tokio::time::Instant::now();
    soon("the close", peer.close(Duration::from_millis(300))).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(lost(&mut pending).await, Lost::Closed);
}
