//! What clients are shown: titles, annotations, schemas, structured results, log messages.

use crate::sessions::{REVISIONS, call};
use crate::stage::{Caller, Door, Session, Stage};
use countermand_testkit::client::message;
use countermand_testkit::fake::{Fault, Route};
use serde_json::{Value, json};

const TOOLS: &str = r#"
  described:
    title: A described tool
    description: Says what it gives.
    annotations: { readOnlyHint: true, openWorldHint: true }
    input: *input
    output:
      type: object
      properties: { quick: { type: boolean }, tag: { type: string } }
      required: [quick, tag]
    upstream: reports
    http: { request: GET /quick, query: { tag: "${args.tag}" } }
  promises_too_much:
    input: *input
    output: { type: object, properties: { total: { type: integer } }, required: [total] }
    upstream: reports
    http: { request: GET /quick, query: { tag: "${args.tag}" } }
  job_promises_too_much:
    input: *input
    output: { type: object, properties: { total: { type: integer } }, required: [total] }
    upstream: reports
    job: *job
"#;

async fn stage() -> Stage {
    Stage::with_more("", TOOLS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_listed_as_its_config_describes_it_in_every_revision() {
    let stage = stage().await;
    let gateway = stage.http().await;
    let asked = message::request(1, "tools/list", json!({}));
    let mut lists = vec![gateway.client.request(&asked).await.response().await];
    for revision in REVISIONS {
        let session = Session::open(&gateway.client, revision).await;
        lists.push(session.send(&asked).await.response().await);
    }
    for list in lists {
        let tools = list["result"]["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == "described").unwrap();
        assert_eq!(tool["title"], "A described tool");
        assert_eq!(tool["annotations"], json!({ "readOnlyHint": true, "openWorldHint": true }));
        assert_eq!(tool["outputSchema"]["required"], json!(["quick", "tag"]));
        assert_eq!(tool["inputSchema"]["required"], json!(["tag"]));
        assert!(tools.iter().any(|tool| tool["name"] == "cancellation_status"));
    }
    stage.finish(Caller::Http(Box::new(gateway)), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_fits_its_schema_is_structured_and_one_that_does_not_says_so_and_loses_nothing() {
    let stage = stage().await;
    let mut caller = Caller::at(Door::Session, &stage).await;
    let mut fits = caller.call(1, "described", json!({ "tag": "t" })).await;
    let result = caller.answer(&mut fits).await;
    assert_eq!(result["structuredContent"], json!({ "quick": true, "tag": "t" }));
    assert_eq!(result["isError"], false);

    let mut misfit = caller.call(2, "promises_too_much", json!({ "tag": "t" })).await;
    let result = caller.answer(&mut misfit).await;
    assert_eq!(result["isError"], true);
    assert!(result.get("structuredContent").is_none(), "{result:#}");
    let said = result["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("does not fit the tool's output schema") && said.contains("total"), "{said}");
    let came: Value = serde_json::from_str(result["content"][1]["text"].as_str().unwrap()).unwrap();
    assert_eq!(came, json!({ "quick": true, "tag": "t" }), "it follows as it came");

    let mut job = caller.call(3, "job_promises_too_much", json!({ "tag": "t" })).await;
    stage.fake.wait_for("job_created", 1).await;
    assert!(stage.fake.finish("job-1"));
    let result = caller.answer(&mut job).await;
    assert_eq!(result["isError"], true);
    let said = result["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("It finished") && said.contains("job-1"), "{said}");
    assert_eq!(stage.phase("completed").await["cause"], Value::Null, "and that it did");
    stage.finish(caller, &[]).await;
}

fn logged(messages: &[Value], level: &str) -> Vec<Value> {
    let of_level = |message: &&Value| {
        message["method"] == "notifications/message" && message["params"]["level"] == level
    };
    messages.iter().filter(of_level).map(|message| message["params"]["data"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asked_for_log_messages_is_told_of_its_job_and_of_trouble_upstream() {
    let stage = stage().await;
    let gateway = stage.http().await;
    let session = Session::open(&gateway.client, "2025-11-25").await;
    let set = message::request(1, "logging/setLevel", json!({ "level": "info" }));
    assert_eq!(session.send(&set).await.response().await["result"], json!({}));
    stage.fake.fault(Route::JobStatus, Fault::Status(503, None), Some(2));
    let mut exchange = call(&session, 2, "run_report", "t").await;
    stage.fake.wait_for("job_polled", 1).await;
    assert!(stage.fake.finish("job-1"));
    let messages = exchange.messages().await;
    let started = logged(&messages, "info");
    assert_eq!(started[0]["operation"]["upstream_id"], "job-1", "{messages:#?}");
    let trouble = logged(&messages, "warning");
    assert!(trouble[0]["error"].as_str().unwrap().contains("503"), "{messages:#?}");
    // The stateless revision asks with each request, and gets nothing unless it does.
    let mut asked = message::call(3, "run_report", json!({ "tag": "u" }));
    asked["params"]["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    for (n, call, heard) in [(2, asked, 1), (3, message::call(4, "run_report", json!({ "tag": "v" })), 0)] {
        let mut exchange = gateway.client.request(&call).await;
        stage.fake.wait_for("job_created", n).await;
        assert!(stage.fake.finish(&format!("job-{n}")));
        let messages = exchange.messages().await;
        assert_eq!(logged(&messages, "info").len(), heard, "{messages:#?}");
    }
    stage.finish(Caller::Session(Box::new(gateway), session), &[]).await;
}
