//! Requests over lines: both eras in one process, and what is refused.

mod stdio_support;

use countermand_core::Cause;
use countermand_mcp::{Delivery, Limits, Revision, TransportKind};
use stdio_support::{Bed, Setup, call, cancel, request};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

#[tokio::test]
async fn both_eras_are_served_at_once_each_in_its_own_shape() {
    let mut bed = Bed::open().await;
    let old = bed.hold("1").await;
    bed.write(&request("2", "tools/call", &format!(r#"{{"name":"held","arguments":{{"a": 1.0}},{META}}}"#)))
        .await;
    let new = bed.next_held().await;
    assert_eq!(
        (old.call.client.revision, new.call.client.revision),
        (Revision::V2025_11_25, Revision::V2026_07_28)
    );
    assert_eq!(new.call.arguments.as_ref().unwrap().get(), r#"{"a": 1.0}"#);
    assert_eq!(
        (new.call.client.principal.as_str(), new.call.client.transport),
        ("tester", TransportKind::Stdio)
    );
    old.answer("old").await;
    assert_eq!(bed.read().await["result"].get("resultType"), None);
    new.answer("new").await;
    assert_eq!(bed.read().await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_duplicate_of_an_id_in_flight_is_refused_and_the_first_call_is_undisturbed() {
    let mut bed = Bed::open().await;
    let held = bed.hold("1").await;
    bed.write(&call("1", "held")).await;
    let refused = bed.read().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&1.into(), &(-32600).into()));
    assert_eq!(held.call.handle.cause(), None);
    bed.write(&cancel("1")).await;
    assert_eq!(held.cancelled().await.0, Cause::ClientCancelled);
}

#[tokio::test]
async fn an_id_is_free_again_once_it_is_answered() {
    let mut bed = Bed::open().await;
    for _ in 0..3 {
        bed.write(&call("1", "quick")).await;
        assert_eq!(bed.read().await["result"]["content"][0]["text"], "quick");
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_what_follows_is_served() {
    let limits = Limits { message: 1_000, ..Limits::default() };
    let mut bed = Bed::with(Setup { limits, ..Setup::default() });
    bed.initialize().await;
    let long = format!("{{\"pad\":\"{}\"}}", "x".repeat(500_000));
    for (line, code) in [
        (long.as_str(), -32600),
        ("{", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("{}", -32600),
    ] {
        bed.write(line).await;
        let refused = bed.read().await;
        assert!(refused.as_object().unwrap().contains_key("id") && refused["id"].is_null());
        assert_eq!(refused["error"]["code"], code);
        assert!(bed.until_barrier().await.is_empty());
    }
}

#[tokio::test]
async fn calls_beyond_the_limits_are_refused_at_once_and_lists_are_still_served() {
    let limits = Limits { per_principal: 2, ..Limits::default() };
    let mut bed = Bed::with(Setup { limits, ..Setup::default() });
    bed.initialize().await;
    let (first, _second) = (bed.hold("1").await, bed.hold("2").await);
    bed.write(&call("3", "held")).await;
    assert_eq!(bed.read().await["error"]["code"], -31029);
    bed.write(&request("4", "tools/list", "{}")).await;
    assert_eq!(bed.read().await["result"]["tools"][0]["name"], "held");
    first.answer("done").await;
    bed.read().await;
    // The place is given back when the handler's task ends, which nothing on the wire tells.
    while bed.calls.len() > 1 {
        tokio::task::yield_now().await;
    }
    let third = bed.hold("3").await;
    assert_eq!(third.answer("fine").await, Delivery::Sent);
}

#[tokio::test]
async fn progress_goes_to_its_token_until_the_call_is_over() {
    let mut bed = Bed::open().await;
    for token in ["7", "\"seven\""] {
        let params = format!(r#"{{"name":"held","_meta":{{"progressToken":{token}}}}}"#);
        bed.write(&request("1", "tools/call", &params)).await;
        let held = bed.next_held().await;
        let progress = held.call.progress.clone().unwrap();
        progress.send(1.0, Some(2.0), Some("half"));
        progress.send(1.0, None, None);
        let sent = bed.read().await;
        assert_eq!(sent["params"]["progressToken"].to_string(), token);
        assert_eq!(sent["params"].to_string().matches("1.0").count(), 0);
        bed.write(&cancel("1")).await;
        held.cancelled().await;
        progress.send(2.0, None, None);
        held.answer("late").await;
        progress.send(3.0, None, None);
        assert!(bed.until_barrier().await.is_empty());
    }
}

#[tokio::test]
async fn without_a_token_there_is_no_progress() {
    let mut bed = Bed::open().await;
    assert!(bed.hold("1").await.call.progress.is_none());
}

#[tokio::test]
async fn a_tool_that_panics_is_an_internal_error_and_takes_nothing_with_it() {
    let mut bed = Bed::open().await;
    let held = bed.hold("1").await;
    bed.write(&call("2", "broken")).await;
    assert_eq!(bed.read().await["error"]["code"], -32603);
    assert_eq!(held.answer("fine").await, Delivery::Sent);
    assert_eq!(bed.read().await["id"], 1);
}
