//! What passes both ways: it is as it was written.

use super::{
    front::{Front, Way},
    house::House,
    tagged,
};
use crate::{from_every_front, from_fronts};
use serde_json::json;

/// What the server's `odd` answers with.
const ODD: &str = r#""content":[{"type":"text","text":"odd","x-unknown":[1.0,2e3]},{"type":"hologram","frames":[{}]}],"structuredContent":{"z":1.10,"a":null},"isError":false,"x-cost":{"amount":1.00},"_meta":{"vendor/x":"\u00e9"}"#;

from_every_front! {
    /// Byte for byte, whatever it is.
    async fn what_a_server_answers_and_what_it_is_asked_pass_as_they_were_written(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let arguments = r#"{"tag":"\u00e9","n":1.50,"deep":[ 1.0, {"x":null} ]}"#;
        let params = format!(r#""name":"odd","arguments":{arguments},"x-extra":{{"v":1.0}}"#);
        let answer = front.raw("tools/call", Some("odd"), &params).await;
        assert!(answer.contains(ODD), "{answer}");
        let is_call = |event: &countermand_testkit::server::Event| event.heard("tools/call").is_some();
        let call = house.recorder.first("the call", is_call).await;
        let countermand_testkit::server::EventKind::Received { line } = call.kind else { unreachable!() };
        for part in [format!(r#""arguments":{arguments}"#).as_str(), r#""x-extra":{"v":1.0}"#, r#""vendor/y":[1.0]"#] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!line.contains("io.modelcontextprotocol/"), "what only 2026-07-28 has: {line}");
        front.finish(&house, &[]).await;
    }
}

from_every_front! {
    async fn the_tools_are_the_servers_as_it_wrote_them_and_ours_is_added(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let listed = front.raw("tools/list", None, "").await;
        for name in ["stubborn", "obedient", "odd"] {
            let start = format!(r#"{{"name":"{name}","description":""#);
            assert!(listed.contains(&start), "{listed}");
        }
        for part in [
            r#""inputSchema":{"type":"object","properties":{"tag":{"type":"string"},"secs":{"type":"number"}},"x-order":["tag","secs"]},"x-weight":1.0,"execution":{"taskSupport":"forbidden"}"#,
            r#""x-list":{"n":1.50}"#,
            r#""name":"cancellation_status""#,
        ] {
            assert!(listed.contains(part), "{part} is not in {listed}");
        }
        let mut names: Vec<_> = front.request("tools/list", json!({})).await["result"]["tools"]
            .as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!((names.len(), all), (13, 13));
        let status = front.result("cancellation_status", json!({})).await;
        assert_eq!(status["structuredContent"]["operations"], json!([]), "{status}");
        front.finish(&house, &[]).await;
    }
}

from_every_front! {
    async fn resources_prompts_completions_and_methods_that_nobody_knows_pass(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let asked = [
            ("resources/list", None, "", r#""resources":[{"uri":"demo://one","name":"one","x-size":1.0}],"x-more":[]"#),
            ("resources/templates/list", None, "", r#"{"uriTemplate":"demo://{name}","name":"any"}"#),
            ("resources/read", Some("demo://one"), r#""uri":"demo://one""#, r#"{"uri":"demo://one","text":"one","x-etag":1.0}"#),
            ("prompts/list", None, "", r#"{"name":"hello","x-lang":"en"}"#),
            ("prompts/get", Some("hello"), r#""name":"hello""#, r#"{"type":"text","text":"Hello","x-tone":1.0}"#),
            ("completion/complete", None,
             r#""ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":"o"}"#,
             r#""completion":{"values":["one"],"total":1,"hasMore":false,"x-score":[1.0]}"#),
            ("x-demo/anything", None, r#""deep":{"n":1.50}"#, r#""heard":{"deep":{"n":1.50}"#),
        ];
        for (method, name, params, part) in asked {
            let answer = front.raw(method, name, params).await;
            assert!(answer.contains(part), "{method}: {part} is not in {answer}");
        }
        let refused = front.request("x-other/unknown", json!({})).await;
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
        assert_eq!(refused["error"]["message"], "Method not found: x-other/unknown");
        let refused = front.request("tools/call", json!({ "name": "no-such-tool", "arguments": {} })).await;
        assert_eq!(refused["error"], json!({
            "code": -32602, "message": "Unknown tool: no-such-tool", "data": { "x": 1.5 },
        }), "{refused}");
        front.finish(&house, &[]).await;
    }
}

from_every_front! {
    async fn progress_comes_under_the_clients_own_token_and_only_where_it_wants_some(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let mut call = countermand_testkit::client::message::call_with_progress(
            "talk", "talks", json!({ "tag": "t", "steps": 3 }), "mine",
        );
        call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "debug".into();
        let mut asked = front.send(call).await;
        for step in 1..=3 {
            let note = front.hear(&mut asked, "notifications/progress").await;
            assert_eq!(note["params"], json!({
                "progressToken": "mine", "progress": f64::from(step), "total": 3,
                "message": format!("step {step}"), "x-eta": 0.5,
            }));
        }
        house.recorder.working("t").await;
        house.recorder.release("t").await;
        let answer = front.response(&mut asked).await;
        assert_eq!(answer["result"]["structuredContent"], json!({ "tag": "t" }), "{answer}");
        // Without a token the server is given none.
        let mut asked = front.call("quiet", "talks", json!({ "tag": "quiet", "steps": 3 })).await;
        house.recorder.working("quiet").await;
        house.recorder.release("quiet").await;
        loop {
            let message = front.message(&mut asked).await;
            assert_ne!(message["method"], "notifications/progress", "{message}");
            if message["id"] == "quiet" {
                break;
            }
        }
        front.finish(&house, &[]).await;
    }
}

from_fronts! {
    /// Whether the server says them unasked or is asked for them; and with nothing in the ledger.
    async fn a_client_of_2026_listens_to_what_has_changed(way) {
        for revision in ["2025-11-25", "2026-07-28"] {
            let house = House::new();
            let mut front = Front::open(way, &house, &[], &["--revision", revision]).await;
            let wanted = json!({ "toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["demo://one"] });
            let mut listens = front.ask("subscriptions/listen", json!({ "notifications": wanted })).await;
            let note = front.hear(&mut listens, "notifications/subscriptions/acknowledged").await;
            assert_eq!(note["params"]["notifications"]["toolsListChanged"], true, "{note}");
            assert_eq!(note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listens.id, "{note}");
            let meta = if revision == "2026-07-28" {
                let is = |event: &countermand_testkit::server::Event| event.heard("subscriptions/listen").is_some();
                let id = house.recorder.first("the subscription", is).await.message().unwrap()["id"].clone();
                format!(r#","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#)
            } else {
                let is = |event: &countermand_testkit::server::Event| event.heard("resources/subscribe").is_some();
                house.recorder.first("the subscription", is).await;
                // What nobody has asked for.
                house.recorder.say(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#).await;
                String::new()
            };
            for (method, params) in [("tools/list_changed", r#""x":1.5"#), ("resources/updated", r#""uri":"demo://one""#)] {
                house.recorder.say(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{params}{meta}}}}}"#
                )).await;
                let note = front.message(&mut listens).await;
                assert_eq!(note["method"], format!("notifications/{method}"), "{note}");
                assert_eq!(note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listens.id, "{note}");
            }
            front.cancel(listens).await;
            if revision == "2026-07-28" {
                house.recorder.wait("its end", |_| house.recorder.cancels().len() == 1).await;
            }
            front.barrier().await;
            assert!(house.rows().await.is_empty());
            front.finish(&house, &[]).await;
        }
    }
    stdio_2026 = Way::Stdio("2026-07-28"), http_2026 = Way::Http("2026-07-28")
}

from_fronts! {
    async fn what_a_server_logs_and_that_its_lists_have_changed_is_told(way) {
        let house = House::new();
        let mut front = Front::open(way, &house, &[], &[]).await;
        let set = front.request("logging/setLevel", json!({ "level": "debug" })).await;
        assert_eq!(set["result"], json!({}), "{set}");
        let mut beside = front.listen().await;
        let mut asked = front.call("talk", "talks", tagged("t")).await;
        house.recorder.working("t").await;
        let note = front.hear(&mut beside, "notifications/message").await;
        assert_eq!(note["params"], json!({
            "level": "info", "logger": "demo", "data": { "said": 1.0 }, "x-unknown": true,
        }));
        house.recorder.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"x":1.0}}"#).await;
        let note = front.hear(&mut beside, "notifications/tools/list_changed").await;
        assert_eq!(note["params"], json!({ "x": 1.0 }));
        house.recorder.say(r#"{"jsonrpc":"2.0","method":"notifications/x-demo/unknown"}"#).await;
        front.hear(&mut beside, "notifications/x-demo/unknown").await;
        front.notify("notifications/x-demo/heard", json!({ "n": 1.5 })).await;
        let heard = |event: &countermand_testkit::server::Event| event.heard("notifications/x-demo/heard").is_some();
        let heard = house.recorder.first("the client's notification", heard).await.message().unwrap();
        assert_eq!(heard["params"], json!({ "n": 1.5 }));
        house.recorder.release("t").await;
        front.response(&mut asked).await;
        front.finish(&house, &[]).await;
    }
    stdio_2025_06 = Way::Stdio("2025-06-18"), stdio_2025_11 = Way::Stdio("2025-11-25"),
    http_2025_06 = Way::Http("2025-06-18"), http_2025_11 = Way::Http("2025-11-25")
}
