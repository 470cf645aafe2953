//! What a handler serves beside tools, and what it says and asks by itself, over lines.

mod stdio_support;

use serde_json::json;
use stdio_support::{Bed, request};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

#[tokio::test]
async fn another_method_is_served_by_the_handler_with_its_params_as_they_were_written() {
    let mut bed = Bed::open().await;
    bed.write(&request("1", "resources/read", r#"{"uri":"a://b","n": 1.0,"_meta":{"k":2}}"#)).await;
    let line = bed.read_line().await;
    let result = r#"{"jsonrpc":"2.0","id":1,"result":{"method":"resources/read","uri":"a://b","n":1.0}}"#;
    assert_eq!(line, result);
    bed.write(&request("2", "resources/list", "{}")).await;
    assert_eq!(bed.read().await["error"]["code"], -32601);
    bed.close_and_end().await;
}

#[tokio::test]
async fn a_client_is_asked_on_its_connection_and_its_answer_comes_back_word_for_word() {
    let mut bed = Bed::open().await;
    bed.write(&request("\"p\"", "prompts/get", "{}")).await;
    assert_eq!(bed.read().await["method"], "notifications/prompts/list_changed");
    let asked = bed.read_line().await;
    let question =
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","x":1.0}}"#;
    assert_eq!(asked, question);
    // Another id, and the same one as text: answers to nothing.
    bed.write(r#"{"jsonrpc":"2.0","id":"1","result":{"no":1}}"#).await;
    bed.write(r#"{"jsonrpc":"2.0","id":9,"result":{"no":1}}"#).await;
    bed.write(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","y":2.0}}"#).await;
    let answer = r#"{"jsonrpc":"2.0","id":"p","result":{"told":{"action":"accept","y":2.0}}}"#;
    assert_eq!(bed.read_line().await, answer);
    bed.write(&request("2", "prompts/get", "{}")).await;
    assert_eq!(
        (bed.read().await["method"].clone(), bed.read().await["id"].clone()),
        (json!("notifications/prompts/list_changed"), json!(2))
    );
    bed.write(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"declined","data":[1.0]}}"#).await;
    let answer = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"declined","data":[1.0]}}"#;
    assert_eq!(bed.read_line().await, answer);
    bed.close_and_end().await;
}

#[tokio::test]
async fn a_client_that_goes_ends_the_waiting_for_its_answer() {
    let mut bed = Bed::open().await;
    bed.write(&request("1", "prompts/get", "{}")).await;
    bed.read().await;
    bed.read().await;
    bed.close_and_end().await;
}

#[tokio::test]
async fn a_stateless_request_cannot_be_asked_and_says_nothing_beside() {
    let mut bed = Bed::new();
    bed.write(&request("1", "prompts/get", &format!("{{{META}}}"))).await;
    assert_eq!(bed.read().await["error"]["code"], -32603);
    bed.close_and_end().await;
}

#[tokio::test]
async fn notifications_reach_the_handler_once_the_client_is_known() {
    let mut bed = Bed::new();
    bed.write(r#"{"jsonrpc":"2.0","method":"notifications/too_early"}"#).await;
    bed.initialize().await;
    bed.write(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"a":1.0}}"#).await;
    assert_eq!(bed.heard().await, r#"true notifications/roots/list_changed {"a":1.0}"#);
    bed.close_and_end().await;
}

#[tokio::test]
async fn a_handler_may_greet_by_its_own_words_take_its_time_or_refuse() {
    let introduce = |name: &str| {
        let params = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"NAME","version":"1"}}"#;
        request("0", "initialize", &params.replace("NAME", name))
    };
    let mut bed = Bed::new();
    bed.write(&introduce("unwelcome")).await;
    assert_eq!(bed.read().await["error"]["message"], "not you");
    // A refusal leaves it as it was.
    bed.write(&introduce("proxied")).await;
    let greeting = bed.read_line().await;
    for part in [
        r#""protocolVersion":"2025-06-18""#,
        r#""serverInfo":{"name":"behind","version":"7","icons":[ ]}"#,
        r#""capabilities":{"tools":{"listChanged":true},"x":1.0}"#,
        r#""_meta":{"a":1.0}"#,
    ] {
        assert!(greeting.contains(part), "{part} in {greeting}");
    }
    bed.write(&introduce("proxied")).await;
    assert!(bed.read_line().await.contains("initialized already"));
    bed.close_and_end().await;
}
