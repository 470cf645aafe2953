//! Arguments are data: whatever they hold, it is what arrives, in its place and nowhere else.

use crate::{
    over_all,
    points::{count, tag},
    stage::{Caller, Door, Stage},
};
use countermand_testkit::{client::message, fake::rows};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

const TOOLS: &str = r#"
  echo_path: { input: *input, upstream: reports, http: { request: "GET /echo/${args.tag}/end" } }
  echo_query: { input: *input, upstream: reports, http: { request: "GET /echo?first=1", query: { tag: "${args.tag}", last: "1" } } }
  echo_header: { input: *input, upstream: reports, http: { request: GET /echo, headers: { X-Tag: "${args.tag}", X-Last: "1" } } }
  echo_body:
    input: *input
    upstream: reports
    http: { request: POST /echo, effect: none, body: { tag: "${args.tag}", framed: "<${args.tag}>", secs: "${args.secs}", last: 1 } }
  echo_form: { input: *input, upstream: reports, http: { request: POST /echo, effect: none, form: { tag: "${args.tag}", last: "1" } } }
"#;

/// What somebody may send who means no good, or just writes another language.
const HOSTILE: &[&str] = &[
    "../../x",
    "a/b",
    "/etc/passwd",
    "//evil.example/x",
    "a&b=c",
    "a=b;c",
    "a?b#c",
    "%2f",
    "%2e%2e%2f",
    "%",
    "%00",
    "a+b c",
    "${args.secs}",
    "${op.key}",
    "$${x}",
    "\"}, \"last\": 2, {\"",
    "it's \"quoted\"",
    "back\\slash",
    "<script>&amp;",
    "@evil.example",
    "a\r\nX-Last: 2",
    "a\nb",
    "a\tb",
    "\u{0}",
    "smörgåsbord",
    "日本語",
    "🛑\u{202e}",
    " leading and trailing ",
];

async fn stage() -> Stage {
    Stage::with_more("", TOOLS).await
}

async fn echo(caller: &mut Caller, id: usize, tool: &str, tag: &str) -> Value {
    let mut pending = caller.call(id as u64, tool, json!({ "tag": tag })).await;
    caller.answer(&mut pending).await
}

/// The names and values of a query or a form, decoded.
fn fields(text: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let pair =
        |pair: &str| pair.split_once('=').map(|(name, value)| (decoded(name), decoded(value))).unwrap();
    text.split('&').map(pair).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

over_all! {
    async fn an_argument_in_the_path_is_one_segment_of_it(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        for (n, text) in (1..).zip(HOSTILE) {
            let result = echo(&mut caller, n, "echo_path", text).await;
            let target = result["structuredContent"]["target"]
                .as_str()
                .unwrap_or_else(|| panic!("{text:?}: {result}"));
            let segments: Vec<&str> = target.split('/').collect();
            assert_eq!(
                (segments.len(), segments[0], segments[1], segments[3]),
                (4, "", "echo", "end"),
                "{target}"
            );
            assert_eq!(percent_decode_str(segments[2]).decode_utf8().unwrap(), *text, "{target}");
            assert!(target.is_ascii() && !target.contains(['?', '#', ' ', '\\']), "{target}");
        }
        // A chain of servers may decode it more than once.
        for (n, text) in (100..).zip(["..", ".", "", "%2e%2e", "%252e"]) {
            let result = echo(&mut caller, n, "echo_path", text).await;
            assert_eq!(result["isError"], true, "{text:?}: {result}");
        }
        assert_eq!(count(&stage.fake.events(), "request"), HOSTILE.len(), "a step upwards was never sent");
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn an_argument_in_the_query_is_one_parameter(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        for (n, text) in (1..).zip(HOSTILE) {
            let result = echo(&mut caller, n, "echo_query", text).await;
            let target = result["structuredContent"]["target"]
                .as_str()
                .unwrap_or_else(|| panic!("{text:?}: {result}"));
            let (path, query) = target.split_once('?').unwrap();
            assert_eq!(path, "/echo");
            let mut fields = fields(query);
            fields.sort();
            assert_eq!(fields, owned(&[("first", "1"), ("last", "1"), ("tag", text)]), "{target}");
        }
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn an_argument_in_a_header_is_its_value_or_nothing_is_sent(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut sent = 0;
        for (n, text) in (1..).zip(HOSTILE) {
            let result = echo(&mut caller, n, "echo_header", text).await;
            let fits = text.chars().all(|c| c == '\t' || (c.is_ascii() && !c.is_ascii_control()));
            assert_eq!(result["isError"], !fits, "{text:?}: {result}");
            if !fits {
                continue;
            }
            sent += 1;
            let headers = result["structuredContent"]["headers"].as_array().unwrap();
            let values = |name: &str| -> Vec<&str> {
                let of_name =
                    headers.iter().filter(|header| header[0].as_str().unwrap().eq_ignore_ascii_case(name));
                of_name.map(|header| header[1].as_str().unwrap()).collect()
            };
            // Blanks around a value are none of it, in HTTP.
            assert_eq!((values("x-tag"), values("x-last")), (vec![text.trim()], vec!["1"]));
        }
        assert_eq!(count(&stage.fake.events(), "request"), sent, "the rest was never sent");
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn an_argument_in_a_body_is_one_value(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        for (n, text) in (1..).zip(HOSTILE) {
            let result = echo(&mut caller, n, "echo_body", text).await;
            let body =
                result["structuredContent"]["body"].as_str().unwrap_or_else(|| panic!("{text:?}: {result}"));
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body, json!({ "tag": text, "framed": format!("<{text}>"), "last": 1 }));
            let result = echo(&mut caller, n, "echo_form", text).await;
            let form =
                result["structuredContent"]["body"].as_str().unwrap_or_else(|| panic!("{text:?}: {result}"));
            let mut fields = fields(&form.replace('+', " "));
            fields.sort();
            assert_eq!(fields, owned(&[("last", "1"), ("tag", text)]), "{form}");
        }
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn an_argument_keeps_its_json_type_in_a_body(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        for (n, secs) in (1..).zip([json!(0), json!(1.5), json!(-3), json!(12_345_678_901_i64)]) {
            let mut pending = caller.call(n, "echo_body", json!({ "tag": "t", "secs": secs })).await;
            let result = caller.answer(&mut pending).await;
            let body: Value =
                serde_json::from_str(result["structuredContent"]["body"].as_str().unwrap()).unwrap();
            assert_eq!(body["secs"], secs);
        }
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    /// O: the undo of a job whose tag looks like another query deletes its own rows and no others.
    async fn a_hostile_argument_is_undone_as_what_it_is(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut stays = caller.call(100, "run_report", json!({ "tag": "other" })).await;
        stage.fake.wait_for("job_created", 1).await;
        for (n, text) in (1..).zip(["t&tag=other", "other#", "other%00", "other\r\n", " other", "öther"]) {
            let pending = caller.call(n as u64, "with_undo", json!({ "tag": text })).await;
            stage.fake.wait(|events| rows(events, text) > 0).await;
            stage.operations_when("its id", |rows| rows[0]["upstream_id"] == format!("job-{}", n + 1)).await;
            caller.cancel_and_listen(pending).await;
            stage
                .operations_when("its undo", |rows| rows.len() == n + 1 && rows[0]["phase"] == "compensated")
                .await;
            assert_eq!(stage.fake.rows(text), 0, "{text:?}");
            assert_ne!(stage.fake.rows("other"), 0, "{text:?}");
        }
        assert!(stage.fake.finish("job-1"));
        assert_eq!(caller.answer(&mut stays).await["isError"], false);
        stage.settled(7).await;
        stage.finish(caller, &[1, 2, 3, 4, 5, 6]).await;
    }
}

over_all! {
    async fn wrong_arguments_are_refused_before_anything_is_sent(door) {
        let stage = stage().await;
        let mut caller = Caller::at(door, &stage).await;
        let wrong = [
            json!({}),
            json!({ "tag": 7 }),
            json!({ "tag": null }),
            json!({ "tag": ["t"] }),
            json!({ "tag": "t", "secs": "5" }),
            json!({ "secs": 5 }),
        ];
        for (n, arguments) in (1..).zip(&wrong) {
            for tool in ["run_report", "search", "order", "echo_path"] {
                let mut pending = caller.call(n, tool, arguments.clone()).await;
                let result = caller.answer(&mut pending).await;
                assert_eq!(result["isError"], true, "{tool} {arguments}");
                let text = result["content"][0]["text"].as_str().unwrap();
                assert!(text.contains("nothing was started"), "{text}");
            }
        }
        assert!(stage.fake.events().is_empty(), "not even a connection");
        assert!(stage.operations().await.is_empty(), "and no row");
        let mut pending = caller.call(50, "quick", tag()).await;
        assert_eq!(caller.answer(&mut pending).await["isError"], false);
        stage.finish(caller, &[]).await;
    }
}

/// Arguments that are no object, a tool that is none: errors of the protocol, and nothing is sent.
#[tokio::test]
async fn calls_that_make_no_sense_are_protocol_errors() {
    let stage = Stage::new().await;
    let mut client = stage.stdio().await;
    let calls = [
        message::call(1, "no_such_tool", tag()),
        message::call(1, "search", json!([1])),
        message::call(1, "search", json!("tag")),
        message::request(1, "tools/call", json!({ "arguments": tag() })),
        message::request(1, "tools/call", json!({ "name": 7, "arguments": tag() })),
        message::request(1, "tools/call", json!([])),
    ];
    for call in calls {
        client.send(&call).await;
        assert_eq!(client.response(&json!(1)).await["error"]["code"], -32602, "{call}");
    }
    assert!(stage.fake.events().is_empty());
    stage.finish(Caller::Stdio(Box::new(client)), &[]).await;
}
