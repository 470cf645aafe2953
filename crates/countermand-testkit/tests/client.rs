//! The raw client against plain streams and the fake upstream.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, missing_docs)]

use countermand_testkit::{
    client::{HttpClient, StdioClient, message},
    fake::{Close, EventKind, FakeUpstream, Filter, Gate},
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

#[tokio::test]
async fn a_response_is_found_behind_other_messages_and_those_are_kept_in_order() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (read, write) = tokio::io::split(ours);
    let mut client = StdioClient::over(read, write);
    let (server_read, mut server_write) = tokio::io::split(theirs);
    client.send_at_once(&[message::call(1, "t", json!({})), message::cancelled(1, Some("why"))]).await;
    let mut lines = BufReader::new(server_read).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("tools/call"));
    assert!(lines.next_line().await.unwrap().unwrap().contains("why"));
    for line in [r#"{"method":"notifications/progress"}"#, r#"{"id":2}"#, r#"{"id":1,"result":{}}"#] {
        server_write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
    assert_eq!(client.response(&json!(1)).await["result"], json!({}));
    server_write.shutdown().await.unwrap();
    drop((server_write, lines));
    let rest = client.read_to_end().await;
    assert_eq!(rest, [json!({ "method": "notifications/progress" }), json!({ "id": 2 })]);
}

#[tokio::test]
async fn an_http_exchange_is_read_head_first_then_its_whole_body() {
    let fake = FakeUpstream::start().await;
    let client = HttpClient::new(&format!("{}/echo/x", fake.base_url()));
    let mut exchange = client.post(&[("X-Own", "1")], b"{}").await;
    assert_eq!(exchange.head().await.status, 200);
    let echoed = exchange.message().await.expect("a body");
    assert_eq!((echoed["method"].as_str(), echoed["target"].as_str()), (Some("POST"), Some("/echo/x")));
    assert!(echoed.to_string().to_lowercase().contains("x-own"), "{echoed}");
}

#[tokio::test]
async fn a_close_and_a_reset_are_what_the_peer_sees() {
    for (reset, seen) in [(false, Close::Fin), (true, Close::Reset)] {
        let fake = FakeUpstream::start().await;
        let held = fake.hold(Gate::RequestHead, Filter::default());
        let exchange = HttpClient::new(&format!("{}/quick", fake.base_url())).post(&[], b"{}").await;
        held.reached().await;
        if reset {
            exchange.reset()
        } else {
            exchange.close()
        }
        let events = fake.wait_for("closed_early", 1).await;
        let how = events.iter().find_map(|event| match &event.kind {
            EventKind::ClosedEarly { how, .. } => Some(*how),
            _ => None,
        });
        assert_eq!(how, Some(seen));
    }
}

#[test]
fn a_stateless_request_names_its_revision_and_keeps_its_own_metadata() {
    let request = message::stateless(message::call_with_progress(1, "t", json!({}), "p"));
    let meta = &request["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["progressToken"], "p");
}
