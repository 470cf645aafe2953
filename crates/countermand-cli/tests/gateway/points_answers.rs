//! What a client is told: progress with the upstream's id first, results in their shape, and which operations they were.

use crate::{
    over_all,
    points::{at, tag},
    stage::{Caller, Door, Stage},
};
use countermand_testkit::{
    client::message,
    fake::{Fault, Gate, Route},
};
use serde_json::{Value, json};

const OPERATIONS: &str = "dev.countermand/operations";

over_all! {
    async fn the_first_progress_names_the_job_and_the_result_its_operation(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let call = message::call_with_progress(1, "run_report", json!({ "tag": "t", "secs": 1 }), "token");
        let mut pending = caller.send(call).await;
        let mut messages = caller.messages(&mut pending).await;
        let answer = messages.pop().unwrap();
        let (first, rest) = messages.split_first().expect("there is progress");
        assert!(first["params"]["message"].as_str().unwrap().contains("job-1"), "{first}");
        assert!(!rest.is_empty(), "the upstream's own progress follows");
        let mut last = -1.0;
        for progress in &messages {
            assert_eq!(
                (&progress["method"], &progress["params"]["progressToken"]),
                (&json!("notifications/progress"), &json!("token"))
            );
            let value = progress["params"]["progress"].as_f64().unwrap();
            assert!(value > last, "{messages:#?}");
            last = value;
        }
        let result = &answer["result"];
        assert_eq!(result["structuredContent"]["tag"], "t");
        let row = stage.settled(1).await.remove(0);
        let operations = &result["_meta"][OPERATIONS];
        assert_eq!(
            (&operations[0]["id"], &operations[0]["upstream_id"], operations.as_array().unwrap().len()),
            (&row["id"], &json!("job-1"), 1)
        );
        assert!(stage.finish(caller, &[]).await.is_empty(), "nothing follows the answer");
    }
}

over_all! {
    async fn without_a_progress_token_nothing_is_told_and_the_status_tool_has_the_id_at_once(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        let told = caller.status().await;
        let operation = &told["operations"][0];
        assert_eq!(
            (&operation["upstream_id"], &operation["tool"], &operation["settled"]),
            (&json!("job-1"), &json!("run_report"), &json!(false))
        );
        assert!(stage.fake.finish("job-1"));
        let messages = caller.messages(&mut pending).await;
        assert_eq!(messages.len(), 1, "{messages:#?}");
        stage.finish(caller, &[]).await;
    }
}

const TOOLS: &str = r#"
  value_text: { input: *input, upstream: reports, http: { request: GET /quick, query: { tag: "${args.tag}" }, value: $.tag } }
  value_bool: { input: *input, upstream: reports, http: { request: GET /quick, value: $.quick } }
  value_array: { input: *input, upstream: reports, http: { request: GET /echo, value: $.headers } }
  label: { input: *input, upstream: reports, http: { request: PUT /label, effect: none } }
"#;

over_all! {
    async fn an_object_is_structured_content_and_text_and_other_json_is_text(door) {
        let stage = Stage::with_more("", TOOLS).await;
        let mut caller = Caller::at(door, &stage).await;
        let mut results = Vec::new();
        for (n, tool) in (1..).zip(["quick", "value_text", "value_bool", "value_array"]) {
            let mut pending = caller.call(n, tool, json!({ "tag": "ä \"t\"" })).await;
            let result = caller.answer(&mut pending).await;
            assert_eq!(
                (&result["isError"], result["content"].as_array().unwrap().len()),
                (&json!(false), 1),
                "{result}"
            );
            assert_eq!(result["content"][0]["type"], "text");
            assert_eq!(result.get("structuredContent").is_some(), tool == "quick", "{result}");
            assert_eq!(result["_meta"].get(OPERATIONS), None, "a read is no operation");
            results.push(result);
        }
        let text = |n: usize| results[n]["content"][0]["text"].as_str().unwrap();
        let object: Value = serde_json::from_str(text(0)).unwrap();
        assert_eq!(object, results[0]["structuredContent"]);
        assert_eq!(object, json!({ "quick": true, "tag": "ä \"t\"" }));
        assert_eq!((text(1), text(2)), ("ä \"t\"", "true"));
        assert!(serde_json::from_str::<Value>(text(3)).unwrap().is_array());
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn a_page_for_humans_is_text_and_an_empty_answer_is_none(door) {
        let stage = Stage::with_more("", TOOLS).await;
        let mut caller = Caller::at(door, &stage).await;
        stage.fake.fault(Route::Quick, Fault::NotJson, Some(1));
        let mut pending = caller.call(1, "quick", tag()).await;
        let result = caller.answer(&mut pending).await;
        assert_eq!(
            (&result["isError"], &result["content"][0]["type"]),
            (&json!(false), &json!("text")),
            "{result}"
        );
        assert!(
            result["content"][0]["text"].as_str().unwrap().contains('<')
                && result.get("structuredContent").is_none()
        );
        let mut pending = caller.call(2, "label", tag()).await;
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], false, "{result}");
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn an_answer_beyond_max_bytes_is_an_error_and_never_cut(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        for route in [Route::Quick, Route::JobResult] {
            stage.fake.fault(route, Fault::HugeBody(8 << 20), None);
        }
        let mut pending = caller.call(1, "quick", tag()).await;
        let result = caller.answer(&mut pending).await;
        assert_eq!(result["isError"], true, "{result}");
        let mut pending = caller.call(2, "run_report", tag()).await;
        stage.fake.wait_for("job_created", 1).await;
        assert!(stage.fake.finish("job-1"));
        let result = caller.answer(&mut pending).await;
        let row = stage.settled(1).await.remove(0);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(result["isError"] == true && text.contains(row["id"].as_str().unwrap()), "{result}");
        assert_eq!(result["_meta"][OPERATIONS][0]["id"], row["id"]);
        assert!(text.len() < 2_000, "none of it is in there");
        assert_eq!(row["phase"], "completed");
        stage.fake.clear_faults();
        caller.works().await;
        stage.finish(caller, &[]).await;
    }
}

over_all! {
    async fn a_call_that_fails_says_what_happened_upstream_and_to_which_operation(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let held = stage.fake.hold(Gate::Poll, at(Route::JobStatus));
        let mut pending = caller.call(1, "run_report", tag()).await;
        held.reached().await;
        assert!(stage.fake.fail("job-1"));
        held.release();
        let result = caller.answer(&mut pending).await;
        let row = stage.settled(1).await.remove(0);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(result["isError"] == true && text.contains("failed upstream"), "{result}");
        for id in [row["id"].as_str().unwrap(), "job-1"] {
            assert!(text.contains(id), "{text}");
        }
        assert_eq!(
            (&row["phase"], &result["_meta"][OPERATIONS][0]["status"].is_string()),
            (&json!("failed"), &true)
        );
        stage.finish(caller, &[]).await;
    }
}
