//! Sessions of 2025-06-18 and 2025-11-25: a broken connection is no cancel, a notification and the session's end are.

mod http_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, HttpOptions, Level, Limits, Move, Revision};
use http_support::client::{Peer, Post, Session};
use http_support::{Held, Server};
use serde_json::json;
use std::time::Duration;

const OLD: &str = "2025-06-18";
const NEW: &str = "2025-11-25";

async fn started() -> Server {
    Server::start(HttpOptions::default()).await
}

async fn ask(server: &Server, post: &Post) -> http_support::client::Reply {
    Peer::connect(server.address).await.ask(post).await
}

/// A call that is held, and the connection that reads its stream.
async fn called(server: &mut Server, session: &Session, id: &str) -> (Held, Peer) {
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call_in(session, id, "held")).await;
    let call = server.held().await;
    peer.until("\r\n\r\n").await;
    (call, peer)
}

/// Ends with the call's answer, which the client gets.
async fn is_answered(call: Held, peer: &mut Peer) {
    assert_eq!(call.answer("done", false).await, Delivery::Sent);
    peer.until("done").await;
}

#[tokio::test]
async fn a_session_is_opened_by_initialize_and_named_in_each_of_its_calls() {
    let mut server = started().await;
    for (date, revision) in [(OLD, Revision::V2025_06_18), (NEW, Revision::V2025_11_25)] {
        let reply = ask(&server, &Session::initialize(date)).await;
        assert!(reply.body.contains(&format!(r#""protocolVersion":"{date}""#)), "{}", reply.body);
        let session = Session::open(server.address, date).await;
        let (call, mut peer) = called(&mut server, &session, "1").await;
        assert_eq!(call.client.revision, revision);
        let name = call.client.session.clone().expect("a session's name");
        assert_ne!(name, session.id, "the id is its client's secret");
        assert_eq!(call.client.principal, format!("session:{name}"));
        is_answered(call, &mut peer).await;
    }
    let reply = ask(&server, &Session::initialize("1999-01-01")).await;
    assert!(reply.body.contains(r#""protocolVersion":"2025-11-25""#), "{}", reply.body);
}

#[tokio::test]
async fn every_revision_is_served_at_one_address_at_once() {
    let mut server = started().await;
    let session = Session::open(server.address, OLD).await;
    let (legacy, mut old) = called(&mut server, &session, "7").await;
    let mut new = Peer::connect(server.address).await;
    new.send(&Post::call("held")).await;
    let modern = server.held().await;
    new.until("\r\n\r\n").await;
    assert_eq!(
        (modern.client.revision, modern.client.principal.as_str()),
        (Revision::V2026_07_28, "anonymous")
    );
    drop(new);
    assert_eq!(modern.cancelled().await, Cause::ClientDisconnected);
    assert_eq!(legacy.handle.cause(), None, "the same id, another client");
    is_answered(legacy, &mut old).await;
}

#[tokio::test]
async fn a_session_that_nobody_knows_is_not_found_and_a_request_without_one_is_told_what_to_do() {
    let server = started().await;
    let session = Session::open(server.address, NEW).await;
    let strange = Session { headers: with(&session, "Mcp-Session-Id", "nobody"), ..session.clone() };
    for post in [Post::in_session(&strange, "1", "ping", ""), strange.get(None), strange.delete()] {
        let reply = ask(&server, &post).await;
        assert_eq!(reply.status, 404, "{}", reply.body);
        assert!(reply.body.contains("Session not found"), "{}", reply.body);
    }
    let without = Post::in_session(&session, "1", "ping", "").without("Mcp-Session-Id");
    let reply = ask(&server, &without).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("`initialize` first"), "{}", reply.body);
    let reply = ask(&server, &Post::cancel_in(&session, "1").without("Mcp-Session-Id")).await;
    assert_eq!(reply.status, 400, "a cancel without a session would be lost without a word");
    let unknown = Post::in_session(&session, "1", "ping", "").with("MCP-Protocol-Version", "1999-01-01");
    assert_eq!(ask(&server, &unknown).await.status, 400);
}

fn with(session: &Session, name: &str, value: &str) -> Vec<(&'static str, String)> {
    let mut headers = session.headers.clone();
    for (there, old) in &mut headers {
        if *there == name {
            value.clone_into(old);
        }
    }
    headers
}

#[tokio::test]
async fn simple_methods_are_answered_in_a_session_and_notifications_accepted() {
    let server = started().await;
    let session = Session::open(server.address, NEW).await;
    let pinged = ask(&server, &Post::in_session(&session, "1", "ping", "")).await;
    assert_eq!((pinged.status, pinged.body.as_str()), (200, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    let listed = ask(&server, &Post::in_session(&session, "2", "tools/list", "")).await;
    assert!(listed.body.contains("quick") && !listed.body.contains("resultType"), "{}", listed.body);
    let again = Post::in_session(&session, "3", "initialize", r#""protocolVersion":"2025-11-25""#);
    assert!(ask(&server, &again).await.body.contains("already"));
    let discover = ask(&server, &Post::in_session(&session, "4", "server/discover", "")).await;
    assert!(discover.body.contains("-32601"), "{}", discover.body);
    assert_eq!(discover.status, 200, "a 404 would mean that the session has ended");
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let reply = ask(&server, &Post::in_session(&session, "5", "ping", "").body(initialized)).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
    let answer = Post::in_session(&session, "6", "ping", "").body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(ask(&server, &answer).await.status, 202);
}

#[tokio::test]
async fn a_broken_stream_is_no_cancel_and_the_call_learns_that_its_client_left() {
    for json in [false, true] {
        let mut server = Server::start(HttpOptions { json, ..HttpOptions::default() }).await;
        for revision in [OLD, NEW] {
            let session = Session::open(server.address, revision).await;
            let (mut call, peer) = called(&mut server, &session, "1").await;
            drop(peer);
            assert_eq!(call.moved().await, Move::Left);
            assert_eq!(call.handle.cause(), None, "what that means is the handler's to decide");
            assert_eq!(call.answer("kept", false).await, Delivery::Sent);
            server.idle().await;
        }
    }
}

#[tokio::test]
async fn a_close_before_the_headers_or_behind_unread_bytes_is_seen_as_well() {
    let options = HttpOptions { early_headers: Duration::from_secs(60), ..HttpOptions::default() };
    let mut server = Server::start(options).await;
    let session = Session::open(server.address, NEW).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call_in(&session, "1", "held")).await;
    let mut call = server.held().await;
    drop(peer);
    assert_eq!(call.moved().await, Move::Left);

    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let (mut call, mut peer) = called(&mut server, &session, "1").await;
    peer.write(&"x".repeat(32 * 1024)).await;
    drop(peer);
    assert_eq!(call.moved().await, Move::Left);
}

#[tokio::test]
async fn a_client_that_resumes_gets_what_it_missed_and_nothing_twice() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let (mut call, mut peer) = called(&mut server, &session, "1").await;
    peer.until("id: 1-0\ndata: \n\n").await;
    let progress = call.progress.clone().unwrap();
    progress.send(1.0, None, Some("read"));
    assert!(peer.until("read\"}}\n\n").await.contains("id: 1-1\n"));
    drop(peer);
    assert_eq!(call.moved().await, Move::Left);
    progress.send(2.0, None, Some("missed"));

    let mut again = Peer::connect(server.address).await;
    again.send(&session.get(Some("1-1"))).await;
    assert_eq!(call.moved().await, Move::Returned);
    let missed = again.until("missed").await;
    assert!(missed.contains("200 ok") || missed.contains("200 OK"), "{missed}");
    assert!(missed.contains("id: 1-2\n") && !missed.contains("\"read\""), "{missed}");
    progress.send(3.0, None, Some("live"));
    again.until("live").await;
    is_answered(call, &mut again).await;
    assert!(again.chunked_rest().await.ends_with("0\r\n\r\n"), "the stream ends with the answer");
}

#[tokio::test]
async fn an_answer_that_was_missed_is_kept_and_replayed_as_often_as_it_is_asked_for() {
    let mut server = started().await;
    let session = Session::open(server.address, OLD).await;
    let (mut call, peer) = called(&mut server, &session, "1").await;
    drop(peer);
    assert_eq!(call.moved().await, Move::Left);
    assert_eq!(call.answer("kept", false).await, Delivery::Sent);
    for _ in 0..2 {
        let reply = ask(&server, &session.get(Some("1-0"))).await;
        assert!(reply.body.contains("id: 1-1\n") && reply.body.contains("kept"), "{}", reply.body);
    }
    let nothing = ask_bare(&server, &session.get(Some("1-1"))).await;
    assert!(nothing.starts_with("HTTP/1.1 204"), "all of it was read: {nothing}");
    for unknown in ["2-0", "x", "1", "-"] {
        assert_eq!(ask(&server, &session.get(Some(unknown))).await.status, 400, "{unknown}");
    }
    let other = Session::open(server.address, OLD).await;
    assert_eq!(ask(&server, &other.get(Some("1-0"))).await.status, 400, "another session's");
}

/// The head of a response that has no body.
async fn ask_bare(server: &Server, post: &Post) -> String {
    let mut peer = Peer::connect(server.address).await;
    peer.send(post).await;
    peer.until("\r\n\r\n").await
}

#[tokio::test]
async fn a_resumed_stream_belongs_to_the_newest_reader() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let (call, mut first) = called(&mut server, &session, "1").await;
    first.until("data: \n\n").await;
    let mut second = Peer::connect(server.address).await;
    second.send(&session.get(Some("1-0"))).await;
    second.until("\r\n\r\n").await;
    first.chunked_rest().await;
    is_answered(call, &mut second).await;
}

#[tokio::test]
async fn another_request_of_the_session_shows_that_its_client_is_there() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let other = Session::open(server.address, NEW).await;
    let (mut call, peer) = called(&mut server, &session, "1").await;
    drop(peer);
    assert_eq!(call.moved().await, Move::Left);
    ask(&server, &Post::in_session(&other, "2", "ping", "")).await;
    ask(&server, &Post::in_session(&session, "2", "ping", "")).await;
    assert_eq!(call.moved().await, Move::Returned);
}

#[tokio::test]
async fn a_client_that_comes_back_without_reading_and_falls_silent_has_left_again() {
    let options = HttpOptions { silent_after: Duration::from_millis(300), ..HttpOptions::default() };
    let mut server = Server::start(options).await;
    let session = Session::open(server.address, NEW).await;
    let (mut call, peer) = called(&mut server, &session, "1").await;
    drop(peer);
    assert_eq!(call.moved().await, Move::Left);
    ask(&server, &Post::in_session(&session, "2", "ping", "")).await;
    assert_eq!(call.moved().await, Move::Returned);
    assert_eq!(call.moved().await, Move::Left);
}

#[tokio::test]
async fn a_cancel_is_a_notification_and_ends_the_response_without_a_word() {
    let mut server = started().await;
    for revision in [OLD, NEW] {
        let session = Session::open(server.address, revision).await;
        let (call, mut peer) = called(&mut server, &session, r#""a""#).await;
        let reply = ask(&server, &Post::cancel_in(&session, r#""a""#)).await;
        assert_eq!((reply.status, reply.body.as_str()), (202, ""));
        let (cause, reason) = call.handle.cancelled().await;
        assert_eq!((cause, reason.as_deref()), (Cause::ClientCancelled, Some("stop")));
        let rest = peer.chunked_rest().await;
        assert!(!rest.contains("jsonrpc"), "{rest}");
        assert_eq!(call.answer("late", false).await, Delivery::Suppressed(Cause::ClientCancelled));
        let nothing = ask_bare(&server, &session.get(Some("1-0"))).await;
        assert!(nothing.starts_with("HTTP/1.1 204"), "{nothing}");
    }
}

#[tokio::test]
async fn a_cancel_before_the_headers_is_answered_with_nothing() {
    let options = HttpOptions { early_headers: Duration::from_secs(60), ..HttpOptions::default() };
    let mut server = Server::start(options).await;
    let session = Session::open(server.address, NEW).await;
    let mut peer = Peer::connect(server.address).await;
    peer.send(&Post::call_in(&session, "1", "held")).await;
    let call = server.held().await;
    ask(&server, &Post::cancel_in(&session, "1")).await;
    assert_eq!(call.cancelled().await, Cause::ClientCancelled);
    let reply = peer.reply().await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
}

#[tokio::test]
async fn ids_belong_to_their_session_and_keep_their_type() {
    let mut server = started().await;
    let (one, two) = (Session::open(server.address, NEW).await, Session::open(server.address, OLD).await);
    let (number, _p1) = called(&mut server, &one, "1").await;
    let (text, mut p2) = called(&mut server, &one, r#""1""#).await;
    let (next, mut p3) = called(&mut server, &one, "2").await;
    let (elsewhere, mut p4) = called(&mut server, &two, "1").await;
    ask(&server, &Post::cancel_in(&one, "1")).await;
    assert_eq!(number.cancelled().await, Cause::ClientCancelled);
    for (call, peer) in [(text, &mut p2), (next, &mut p3), (elsewhere, &mut p4)] {
        assert_eq!(call.handle.cause(), None);
        is_answered(call, peer).await;
    }
}

#[tokio::test]
async fn an_id_in_flight_is_refused_a_second_time_and_free_once_it_was_cancelled() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let (first, _peer) = called(&mut server, &session, "1").await;
    let reply = ask(&server, &Post::call_in(&session, "1", "quick")).await;
    assert_eq!(reply.status, 200, "an error of a request is its answer");
    assert!(reply.body.contains("in flight"), "{}", reply.body);
    assert_eq!(first.handle.cause(), None);
    ask(&server, &Post::cancel_in(&session, "1")).await;
    assert_eq!(first.cancelled().await, Cause::ClientCancelled);
    let reply = ask(&server, &Post::call_in(&session, "1", "quick")).await;
    assert!(reply.body.contains("content"), "{}", reply.body);
}

#[tokio::test]
async fn a_cancel_of_what_is_unknown_malformed_or_answered_is_accepted_and_means_nothing() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let (call, mut peer) = called(&mut server, &session, "1").await;
    for id in ["2", r#""1""#, "null", "[1]", "{}"] {
        assert_eq!(ask(&server, &Post::cancel_in(&session, id)).await.status, 202, "{id}");
    }
    let broken = Post::cancel_in(&session, "1")
        .body(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#);
    assert_eq!(ask(&server, &broken).await.status, 202);
    is_answered(call, &mut peer).await;
    assert_eq!(ask(&server, &Post::cancel_in(&session, "1")).await.status, 202);
}

#[tokio::test]
async fn a_delete_cancels_every_call_at_once_and_ends_every_stream() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let other = Session::open(server.address, NEW).await;
    let mut alone = Peer::connect(server.address).await;
    alone.send(&session.get(None)).await;
    alone.until(":\n\n").await;
    let (one, mut p1) = called(&mut server, &session, "1").await;
    let (two, p2) = called(&mut server, &session, "2").await;
    let (stays, mut p3) = called(&mut server, &other, "1").await;
    drop(p2);
    let reply = ask_bare(&server, &session.delete()).await;
    assert!(reply.starts_with("HTTP/1.1 204"), "{reply}");
    assert_eq!(one.cancelled().await, Cause::SessionEnded);
    assert_eq!(two.cancelled().await, Cause::SessionEnded);
    assert!(!p1.chunked_rest().await.contains("jsonrpc"));
    alone.chunked_rest().await;
    assert_eq!(one.answer("late", false).await, Delivery::Suppressed(Cause::SessionEnded));
    assert_eq!(ask(&server, &Post::in_session(&session, "3", "ping", "")).await.status, 404);
    is_answered(stays, &mut p3).await;
}

#[tokio::test]
async fn a_session_expires_when_nothing_happens_and_never_while_a_call_runs() {
    let options = HttpOptions { session_idle: Duration::from_millis(200), ..HttpOptions::default() };
    let mut server = Server::start(options).await;
    let (idle, busy) = (Session::open(server.address, NEW).await, Session::open(server.address, NEW).await);
    let (mut call, peer) = called(&mut server, &busy, "1").await;
    // Its client is away, and it runs on.
    drop(peer);
    assert_eq!(call.moved().await, Move::Left);
    gone(&server, &idle).await;
    let reply = ask(&server, &Post::in_session(&busy, "2", "ping", "")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(call.handle.cause(), None);
    assert_eq!(call.answer("kept", false).await, Delivery::Sent);
    gone(&server, &busy).await;
}

/// Looks without being a request of the session, which would keep it alive, until the session is not there.
async fn gone(server: &Server, session: &Session) {
    http_support::soon("the end of a session", async {
        // A request that is refused before the session is entered shows nothing of the client. An unknown session is.
        let probe = Post::in_session(session, "1", "ping", "").with("MCP-Protocol-Version", "1999-01-01");
        while ask(server, &probe).await.status != 404 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_open_stream_keeps_a_session() {
    let options = HttpOptions { session_idle: Duration::from_millis(200), ..HttpOptions::default() };
    let server = Server::start(options).await;
    let (idle, held) = (Session::open(server.address, NEW).await, Session::open(server.address, NEW).await);
    let mut alone = Peer::connect(server.address).await;
    alone.send(&held.get(None)).await;
    alone.until(":\n\n").await;
    gone(&server, &idle).await;
    assert_eq!(ask(&server, &Post::in_session(&held, "1", "ping", "")).await.status, 200);
    drop(alone);
    gone(&server, &held).await;
}

#[tokio::test]
async fn the_streams_of_sessions_do_not_hold_up_a_shutdown() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let mut alone = Peer::connect(server.address).await;
    alone.send(&session.get(None)).await;
    alone.until(":\n\n").await;
    let (mut away, peer) = called(&mut server, &session, "1").await;
    drop(peer);
    assert_eq!(away.moved().await, Move::Left);
    let (call, mut peer) = called(&mut server, &session, "2").await;
    server.calls.cancel_all(Cause::Shutdown);
    server.stop.cancel();
    assert_eq!(call.answer("bye", true).await, Delivery::Sent);
    peer.until("bye").await;
    alone.chunked_rest().await;
    assert_eq!(away.answer("bye", true).await, Delivery::Sent);
    server.ended().await;
}

#[tokio::test]
async fn log_messages_are_sent_from_the_level_that_the_session_asked_for() {
    let mut server = started().await;
    let session = Session::open(server.address, NEW).await;
    let (call, mut peer) = called(&mut server, &session, "1").await;
    assert!(call.log.is_none(), "nobody asked for any");
    is_answered(call, &mut peer).await;
    let set =
        |level: &str| Post::in_session(&session, "2", "logging/setLevel", &format!(r#""level":"{level}""#));
    assert_eq!(ask(&server, &set("warning")).await.body, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    assert!(ask(&server, &set("loud")).await.body.contains("-32602"));
    let (call, mut peer) = called(&mut server, &session, "3").await;
    let log = call.log.clone().unwrap();
    log.send(Level::Info, "x", &json!("quiet"));
    log.send(Level::Error, "x", &json!({ "what": "heard" }));
    let heard = peer.until("heard").await;
    assert!(heard.contains("notifications/message") && !heard.contains("quiet"), "{heard}");
    is_answered(call, &mut peer).await;
}

#[tokio::test]
async fn sessions_are_bounded_with_a_clear_error() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    let server = Server::limited(HttpOptions::default(), limits).await;
    let session = Session::open(server.address, NEW).await;
    let reply = ask(&server, &Session::initialize(NEW)).await;
    assert_eq!(reply.status, 429);
    assert!(reply.body.contains("Too many sessions (`limits.sessions` is 1)"), "{}", reply.body);
    assert!(reply.body.contains("(DELETE)"), "{}", reply.body);
    ask_bare(&server, &session.delete()).await;
    Session::open(server.address, NEW).await;
}

#[tokio::test]
async fn each_session_has_limits_of_its_own() {
    let limits = Limits { per_principal: 1, ..Limits::default() };
    let mut server = Server::limited(HttpOptions::default(), limits).await;
    let (one, two) = (Session::open(server.address, NEW).await, Session::open(server.address, NEW).await);
    let (_first, _p1) = called(&mut server, &one, "1").await;
    let refused = ask(&server, &Post::call_in(&one, "2", "quick")).await;
    assert!(refused.body.contains("Too many calls"), "{}", refused.body);
    let (second, mut p2) = called(&mut server, &two, "1").await;
    is_answered(second, &mut p2).await;
}

#[tokio::test]
async fn a_session_keeps_the_newest_answers_within_bounds() {
    let server = started().await;
    let session = Session::open(server.address, NEW).await;
    let mut peer = Peer::connect(server.address).await;
    for id in 1..=70 {
        peer.ask(&Post::call_in(&session, &id.to_string(), "quick")).await;
    }
    assert_eq!(ask(&server, &session.get(Some("1-0"))).await.status, 400, "too old");
    assert_eq!(ask(&server, &session.get(Some("70-0"))).await.status, 200);
}

/// Three answers' texts fit, and what they cost besides, but not four.
#[tokio::test]
async fn all_sessions_together_keep_a_bounded_amount_and_let_go_of_the_oldest() {
    let text = "x".repeat(100_000);
    let mut server = Server::start(HttpOptions { kept: 350_000, ..HttpOptions::default() }).await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let session = Session::open(server.address, NEW).await;
        let (call, mut peer) = called(&mut server, &session, "1").await;
        assert_eq!(call.answer(&text, false).await, Delivery::Sent);
        peer.until("false}").await;
        server.idle().await;
        sessions.push(session);
    }
    let first = |session: &Session| session.get(Some("1-0"));
    let reply = ask(&server, &first(&sessions[0])).await;
    assert_eq!(reply.status, 400, "the oldest has made room");
    assert!(reply.body.contains("too old"), "{}", reply.body);
    for session in &sessions[1..] {
        let reply = ask(&server, &first(session)).await;
        assert_eq!(reply.status, 200);
        assert!(reply.body.contains(&text), "it is whole");
    }
    // A session that ends gives its room back: nobody has to make any.
    ask_bare(&server, &sessions[1].delete()).await;
    let (call, mut peer) = called(&mut server, &sessions[0], "2").await;
    assert_eq!(call.answer(&text, false).await, Delivery::Sent);
    peer.until("false}").await;
    server.idle().await;
    for session in &sessions[2..] {
        assert_eq!(ask(&server, &first(session)).await.status, 200);
    }
    assert_eq!(ask(&server, &sessions[0].get(Some("2-0"))).await.status, 200);
}

#[tokio::test]
async fn an_answer_that_is_larger_than_all_that_is_kept_still_reaches_who_reads_it() {
    let text = "x".repeat(300_000);
    let mut server = Server::start(HttpOptions { kept: 1_000, ..HttpOptions::default() }).await;
    let session = Session::open(server.address, NEW).await;
    let (call, mut peer) = called(&mut server, &session, "1").await;
    assert_eq!(call.answer(&text, false).await, Delivery::Sent);
    assert!(peer.until("false}").await.contains(&text));
}
