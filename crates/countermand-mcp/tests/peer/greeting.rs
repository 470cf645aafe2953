//! How a server is got to know, whichever revision it speaks, and what is said of one that cannot be.

use crate::support::http::{Fake as HttpFake, connecting as connecting_http};
use crate::support::{DISCOVERED, Fake, connecting, fake, initialized, soon};
use countermand_mcp::{Lost, Peer, PeerError, PeerOptions, Revision};
use std::time::Duration;

const MODERN: Revision = Revision::V2026_07_28;
const OLD: Revision = Revision::V2025_11_25;
const NO_METHOD: &str = r#"{"code":-32601,"message":"Method not found"}"#;

/// Connects to a server on streams that answers the first request with that error.
async fn refused(
    prefer: Revision,
    error: &str,
) -> (Fake, tokio::task::JoinHandle<crate::support::Connected>) {
    let (mut fake, target) = fake();
    let connecting = connecting(target, prefer, PeerOptions::default());
    let asked = fake.read().await;
    fake.refuse(&asked, error).await;
    (fake, connecting)
}

#[tokio::test]
async fn an_error_of_an_older_server_to_the_probe_leads_to_initialize() {
    let unnamed = r#"{"code":-32022,"message":"?"}"#;
    let named = r#"{"code":-32022,"message":"?","data":{"supported":["2025-06-18"]}}"#;
    let very_old = r#"{"code":-32022,"message":"?","data":{"supported":["2024-11-05"]}}"#;
    let params = r#"{"code":-32602,"message":"Invalid request parameters"}"#;
    for (error, asked_for, version) in [
        (NO_METHOD, "2025-11-25", "2025-11-25"),
        (params, "2025-11-25", "2025-06-18"),
        (unnamed, "2025-11-25", "2025-11-25"),
        (named, "2025-06-18", "2025-06-18"),
        (very_old, "2025-11-25", "2024-11-05"),
    ] {
        let (mut fake, connecting) = refused(MODERN, error).await;
        let asked = fake.initialize(version).await;
        assert_eq!(asked["params"]["protocolVersion"], asked_for);
        assert!(asked["params"].get("_meta").is_none());
        let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
        assert_eq!(peer.hello().version, version);
        assert!(!peer.hello().revision.is_stateless());
    }
}

#[tokio::test]
async fn an_error_of_a_newer_server_to_initialize_leads_to_the_probe() {
    let named = r#"{"code":-32022,"message":"?","data":{"supported":["2026-07-28"]}}"#;
    for error in [NO_METHOD, named] {
        let (mut fake, connecting) = refused(OLD, error).await;
        let asked = fake.read().await;
        assert_eq!(asked["method"], "server/discover");
        assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "tester");
        fake.answer(&asked, DISCOVERED).await;
        let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
        assert_eq!(peer.hello().revision, MODERN);
        assert_eq!(peer.hello().server_info.as_ref().unwrap().get(), r#"{"name":"fake"}"#);
        // A stateless server is not told that it is initialized.
        drop(peer);
        assert!(fake.rest().await.is_empty());
    }
}

#[tokio::test]
async fn an_error_that_only_a_stateless_server_has_ends_the_attempt() {
    let (_fake, connecting) = refused(MODERN, r#"{"code":-32021,"message":"needs sampling"}"#).await;
    let error = soon("an end", connecting).await.unwrap().unwrap_err();
    assert!(matches!(error, PeerError::Refused { method: "server/discover", .. }), "{error}");
    assert!(error.to_string().contains("needs sampling"));
}

#[tokio::test]
async fn a_server_of_another_time_is_named_with_what_it_speaks() {
    let newer = r#"{"code":-32022,"message":"?","data":{"supported":["2031-01-01"]}}"#;
    let (_fake, newest) = refused(MODERN, newer).await;
    let error = soon("an end", newest).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("it speaks 2031-01-01"), "{error}");

    let (mut fake, target) = fake();
    let connecting = connecting(target, OLD, PeerOptions::default());
    let asked = fake.read().await;
    fake.answer(&asked, &initialized("2031-01-01")).await;
    let asked = fake.read().await;
    fake.refuse(&asked, NO_METHOD).await;
    let error = soon("an end", connecting).await.unwrap().unwrap_err();
    assert!(matches!(&error, PeerError::NoCommonRevision { theirs } if theirs == "2031-01-01"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn silence_at_the_probe_leads_to_initialize() {
    let (mut fake, target) = fake();
    let connecting = connecting(target, MODERN, PeerOptions::default());
    assert_eq!(fake.read().await["method"], "server/discover");
    fake.initialize("2025-06-18").await;
    let (peer, _heard) = connecting.await.unwrap().unwrap();
    assert_eq!(peer.hello().revision, Revision::V2025_06_18);
}

#[tokio::test(start_paused = true)]
async fn a_stateless_server_that_is_slow_to_start_is_still_known_as_one() {
    let (mut fake, target) = fake();
    let connecting = connecting(target, MODERN, PeerOptions::default());
    let (probe, second) = (fake.read().await, fake.read().await);
    assert_eq!(second["method"], "initialize");
    fake.answer(&probe, DISCOVERED).await;
    fake.refuse(&second, NO_METHOD).await;
    let (peer, _heard) = connecting.await.unwrap().unwrap();
    assert_eq!(peer.hello().revision, MODERN);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    for (prefer, method) in [(MODERN, "initialize"), (OLD, "initialize")] {
        let (mut fake, target) = fake();
        let begun = tokio::time::Instant::now();
        let connecting = connecting(target, prefer, PeerOptions::default());
        let error = connecting.await.unwrap().unwrap_err();
        assert!(matches!(error, PeerError::Silent { method: at, .. } if at == method), "{error}");
        assert_eq!(begun.elapsed().as_secs(), 30);
        // Nothing but the requests was said: `initialize` is never cancelled.
        let said = fake.rest().await;
        assert!(said.iter().all(|message| message.get("id").is_some()), "{said:?}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_in_initialize_holds_up_nobody_who_gives_up() {
    let (mut fake, target) = fake();
    let connecting = connecting(target, OLD, PeerOptions::default());
    assert_eq!(fake.read().await["method"], "initialize");
    let begun = tokio::time::Instant::now();
    connecting.abort();
    assert!(fake.rest().await.is_empty(), "the streams are closed without a cancel");
    assert!(begun.elapsed() < Duration::from_secs(1));

    for prefer in Revision::ALL {
        let fake = HttpFake::bind().await;
        let connecting = connecting_http(fake.address, prefer, PeerOptions::default());
        let mut opening = fake.next().await;
        let begun = tokio::time::Instant::now();
        connecting.abort();
        opening.closed().await;
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_server_that_ends_before_it_has_answered_is_said_to_have() {
    let (mut fake, target) = fake();
    let connecting = connecting(target, MODERN, PeerOptions::default());
    fake.read().await;
    fake.output = None;
    let error = soon("an end", connecting).await.unwrap().unwrap_err();
    assert!(matches!(error, PeerError::Lost { method: "server/discover", lost: Lost::Ended }), "{error}");
    assert!(error.is_end_at_probe());
}

#[tokio::test]
async fn a_ping_before_the_server_is_known_is_answered() {
    let (mut fake, target) = fake();
    let connecting = connecting(target, OLD, PeerOptions::default());
    let asked = fake.read().await;
    fake.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    let pong = fake.read().await;
    assert_eq!((&pong["id"], &pong["result"]), (&"p".into(), &serde_json::json!({})));
    fake.answer(&asked, &initialized("2025-11-25")).await;
    soon("a connection", connecting).await.unwrap().unwrap();
}

/// Connects to a server over HTTP that answers the first request like that.
async fn over_http(
    prefer: Revision,
    status: &str,
    body: &str,
) -> (HttpFake, tokio::task::JoinHandle<crate::support::Connected>) {
    let fake = HttpFake::bind().await;
    let connecting = connecting_http(fake.address, prefer, PeerOptions::default());
    fake.next().await.whole(status, "Content-Type: application/json\r\n", body).await;
    (fake, connecting)
}

async fn connected_over_http(
    fake: &HttpFake,
    connecting: tokio::task::JoinHandle<crate::support::Connected>,
    version: &str,
) -> Peer {
    let opening = fake.next().await;
    assert_eq!(opening.body["method"], "initialize");
    assert_eq!((opening.header("mcp-protocol-version"), opening.header("mcp-method")), (None, None));
    opening.json(&initialized(version)).await;
    let done = fake.next().await;
    assert_eq!(done.header("mcp-protocol-version"), Some(version));
    done.status("202 Accepted").await;
    soon("a connection", connecting).await.unwrap().unwrap().0
}

#[tokio::test]
async fn an_older_server_over_http_refuses_the_probe_in_many_ways() {
    let answered = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}"#;
    let nameless = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#;
    for (status, body) in [
        ("400 Bad Request", ""),
        ("400 Bad Request", nameless),
        ("404 Not Found", "no"),
        ("404 Not Found", answered),
        ("405 Method Not Allowed", ""),
        ("500 Internal Server Error", "oh"),
        ("200 OK", answered),
        ("202 Accepted", ""),
    ] {
        let (fake, connecting) = over_http(MODERN, status, body).await;
        let peer = connected_over_http(&fake, connecting, "2025-03-26").await;
        assert_eq!(
            (peer.hello().revision, peer.hello().version.as_str()),
            (Revision::V2025_06_18, "2025-03-26")
        );
    }
}

#[tokio::test]
async fn a_newer_server_over_http_refuses_initialize() {
    let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"?","data":{"supported":["2026-07-28"]}}}"#;
    for (status, body) in [("400 Bad Request", body), ("400 Bad Request", ""), ("404 Not Found", "")] {
        let (fake, connecting) = over_http(OLD, status, body).await;
        let probe = fake.next().await;
        assert_eq!(probe.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(probe.header("mcp-method"), Some("server/discover"));
        assert_eq!(probe.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(probe.header("authorization"), Some("bearer hush"));
        probe.json(DISCOVERED).await;
        let (peer, _heard) = soon("a connection", connecting).await.unwrap().unwrap();
        assert_eq!(peer.hello().revision, MODERN);
    }
}

#[tokio::test]
async fn bad_credentials_are_said_to_be_bad_and_not_told() {
    for (prefer, status, code) in
        [(MODERN, "401 Unauthorized", 401), (OLD, "401 Unauthorized", 401), (OLD, "403 Forbidden", 403)]
    {
        let (_fake, connecting) = over_http(prefer, status, "").await;
        let error = soon("an end", connecting).await.unwrap().unwrap_err();
        assert!(matches!(error, PeerError::Unauthorized { status } if status == code), "{error}");
        assert!(!format!("{error} {error:?}").contains("hush"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_tried_twice_and_its_url_is_not_told() {
    for prefer in Revision::ALL {
        let address = HttpFake::bind().await.address;
        let connecting = connecting_http(address, prefer, PeerOptions::default());
        let error = soon("an end", connecting).await.unwrap().unwrap_err();
        assert!(matches!(&error, PeerError::Lost { lost: Lost::NotSent(_), .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    }
}
