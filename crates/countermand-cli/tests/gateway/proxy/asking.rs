//! What a server asks its client: by requests of its own, by results that require input, and from one to the other.

use super::{
    front::{Asked, Front, Way},
    house::House,
    tagged,
};
use crate::from_fronts;
use countermand_testkit::client::message;
use serde_json::{Value, json};

/// What servers ask, and what a client answers.
fn questions() -> [(&'static str, Value, Value); 3] {
    [
        (
            "elicitation/create",
            json!({ "message": "Which?", "requestedSchema": { "type": "object" }, "x-hint": 1.0 }),
            json!({ "action": "accept", "content": { "which": "this" }, "x-sure": 1.0 }),
        ),
        (
            "sampling/createMessage",
            json!({ "messages": [], "maxTokens": 10 }),
            json!({ "role": "assistant", "content": { "type": "text", "text": "Yes" }, "model": "m" }),
        ),
        ("roots/list", json!({}), json!({ "roots": [{ "uri": "file:///x", "x-kind": 1.0 }] })),
    ]
}

pub fn asks(tag: &str, method: &str, params: &Value) -> Value {
    json!({ "tag": tag, "method": method, "params": params })
}

/// The next round of a call whose result has required input.
pub async fn next_round(
    front: &mut Front,
    id: &str,
    arguments: Value,
    required: &Value,
    answer: Value,
) -> Asked {
    let mut call = message::call(id, "asks", arguments);
    let key = required["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    call["params"]["requestState"] = required["requestState"].clone();
    call["params"]["inputResponses"] = json!({ key: answer });
    front.send(call).await
}

from_fronts! {
    /// Whether the server asks by requests or by results.
    async fn a_client_of_2025_is_asked_by_requests_and_its_answers_reach_the_server(way) {
        for revision in ["2025-06-18", "2026-07-28"] {
            let house = House::new();
            let mut front = Front::open(way, &house, &[], &["--revision", revision]).await;
            for (method, params, answer) in questions() {
                let mut asked = front.call(method, "asks", asks(method, method, &params)).await;
                let question = front.hear(&mut asked, method).await;
                assert_eq!(question["params"], params, "{question}");
                front.reply(&question, answer.clone()).await;
                let result = front.response(&mut asked).await;
                assert_eq!(result["result"]["structuredContent"]["client"], answer, "{result}");
            }
            front.finish(&house, &[]).await;
        }
    }
    stdio_2025_06 = Way::Stdio("2025-06-18"), stdio_2025_11 = Way::Stdio("2025-11-25"),
    http_2025_06 = Way::Http("2025-06-18"), http_2025_11 = Way::Http("2025-11-25")
}

from_fronts! {
    async fn a_client_of_2026_is_asked_by_results_and_its_next_round_reaches_the_server(way) {
        for revision in ["2025-11-25", "2026-07-28"] {
            let house = House::new();
            let mut front = Front::open(way, &house, &[], &["--revision", revision]).await;
            for (method, params, answer) in questions() {
                let arguments = asks(method, method, &params);
                let mut asked = front.call(method, "asks", arguments.clone()).await;
                let required = front.response(&mut asked).await["result"].clone();
                assert_eq!(required["resultType"], "input_required", "{required}");
                let requests = required["inputRequests"].as_object().unwrap();
                assert_eq!(requests.values().collect::<Vec<_>>(), [&json!({ "method": method, "params": params })]);
                let mut asked = next_round(&mut front, "again", arguments, &required, answer.clone()).await;
                let result = front.response(&mut asked).await;
                assert_eq!(result["result"]["resultType"], "complete", "{result}");
                assert_eq!(result["result"]["structuredContent"]["client"], answer, "{result}");
            }
            assert!(house.recorder.cancels().is_empty());
            front.finish(&house, &[]).await;
        }
    }
    stdio_2026 = Way::Stdio("2026-07-28"), http_2026 = Way::Http("2026-07-28")
}

from_fronts! {
    async fn what_the_client_refuses_is_refused_to_the_server(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let mut asked = front.call("q", "asks", asks("t", "elicitation/create", &json!({ "message": "?" }))).await;
        let question = front.hear(&mut asked, "elicitation/create").await;
        let error = json!({ "code": -1, "message": "not now", "data": { "x": 1.5 } });
        front.respond(json!({ "jsonrpc": "2.0", "id": question["id"], "error": error })).await;
        let result = front.response(&mut asked).await;
        assert_eq!(result["result"]["structuredContent"]["client"], error, "{result}");
        front.finish(&house, &[]).await;
    }
    stdio_2025_11 = Way::Stdio("2025-11-25"), http_2025_11 = Way::Http("2025-11-25")
}

from_fronts! {
    async fn a_call_that_is_cancelled_while_its_client_is_asked_is_cancelled_at_the_server(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let mut asked = front.call("q", "asks", asks("t", "elicitation/create", &json!({ "message": "?" }))).await;
        front.hear(&mut asked, "elicitation/create").await;
        let id = house.recorder.working("t").await;
        front.cancel(asked).await;
        house.recorder.cancelled(&id).await;
        assert_eq!(front.result("echo", tagged("next")).await["structuredContent"]["arguments"], tagged("next"));
        front.finish(&house, &["q"]).await;
    }
    stdio_2025_11 = Way::Stdio("2025-11-25"), http_2025_11 = Way::Http("2025-11-25")
}

from_fronts! {
    async fn a_question_that_the_server_takes_back_is_taken_back_from_the_client(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let mut asked = front.call("q", "asks", asks("t", "elicitation/create", &json!({ "message": "?" }))).await;
        let question = front.hear(&mut asked, "elicitation/create").await;
        house.recorder.say(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"question-1"}}"#,
        ).await;
        let note = front.hear(&mut asked, "notifications/cancelled").await;
        assert_eq!(note["params"]["requestId"], question["id"], "{note}");
        front.cancel(asked).await;
        front.finish(&house, &["q"]).await;
    }
    stdio_2025_11 = Way::Stdio("2025-11-25"), http_2025_11 = Way::Http("2025-11-25")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_shared_by_two_callers_asks_neither_of_them_in_the_others_name() {
    let house = House::new();
    let mut front = Front::open(Way::Http("2026-07-28"), &house, &[], &[]).await;
    let one = front.call("one", "stubborn", tagged("one")).await;
    house.recorder.working("one").await;
    let mut two =
        front.call("two", "asks", asks("two", "elicitation/create", &json!({ "message": "?" }))).await;
    let answer = front.response(&mut two).await;
    let client = &answer["result"]["structuredContent"]["client"];
    assert_eq!(client["code"], -32601, "{answer}");
    house.recorder.release("one").await;
    let mut one = one;
    assert_eq!(front.response(&mut one).await["result"]["structuredContent"], tagged("one"));
    front.finish(&house, &[]).await;
}
