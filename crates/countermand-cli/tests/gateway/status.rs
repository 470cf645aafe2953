//! `cancellation_status`: what matters to a caller is shown first, and nothing plain pushes it out.

use crate::{
    over_all,
    stage::{Caller, Door, Stage},
};
use countermand_testkit::client::message;
use serde_json::{Value, json};

fn tag() -> Value {
    json!({ "tag": "t" })
}

fn column<'a>(told: &'a Value, key: &str) -> Vec<&'a str> {
    let operations = told["operations"].as_array().unwrap();
    operations.iter().map(|operation| operation[key].as_str().unwrap_or_default()).collect()
}

/// Asserts that a strict client takes it: every key is declared, and as declared.
async fn fits(caller: &mut Caller, told: &Value) {
    let mut pending = caller.send(message::request(55, "tools/list", json!({}))).await;
    let tools = caller.answer(&mut pending).await["tools"].clone();
    let own = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "cancellation_status").unwrap();
    let mut schema = own["outputSchema"].clone();
    schema["additionalProperties"] = false.into();
    schema["properties"]["operations"]["items"]["additionalProperties"] = false.into();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(told).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?} in {told:#}");
    assert!(!told["operations"].as_array().unwrap().is_empty(), "nothing was validated");
}

over_all! {
    async fn what_runs_is_shown_first_then_what_was_cancelled_and_what_was_answered_only_by_its_id(door) {
        let stage = Stage::new().await;
        let mut caller = Caller::at(door, &stage).await;
        let cancelled = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("job_polled", 1).await;
        caller.cancel(cancelled).await;
        stage.phase("cancelled").await;
        let mut answered = caller.call(2, "run_report", tag()).await;
        stage.fake.wait_for("job_created", 2).await;
        assert!(stage.fake.finish("job-2"));
        caller.answer(&mut answered).await;
        stage.settled(2).await;
        let mut runs = caller.call(3, "run_report", tag()).await;
        let rows = stage.operations_when("a third that runs", |rows| rows.len() == 3 && rows[0]["phase"] == "running").await;

        let told = caller.status().await;
        assert_eq!(column(&told, "upstream_id"), ["job-3", "job-1"], "{told:#}");
        assert_eq!(column(&told, "status"), ["running", "stopped"]);
        assert_eq!(told["more"], false);
        let (running, stopped) = (&told["operations"][0], &told["operations"][1]);
        assert!(running["ends_by"].is_string() && stopped["ends_by"].is_null(), "{told:#}");
        assert_eq!((&running["detached"], &running["client_back_by"]), (&json!(false), &Value::Null));
        fits(&mut caller, &told).await;
        let told = caller.status_of(&rows[1]["id"]).await;
        assert_eq!(column(&told, "status"), ["finished"]);
        fits(&mut caller, &told).await;
        assert!(stage.fake.finish("job-3"));
        caller.answer(&mut runs).await;
        stage.finish(caller, &[1]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_on_without_its_client_says_until_when_and_stays_to_be_seen_once_it_has_ended() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Http, &stage).await;
    let pending = caller.call(1, "detached", tag()).await;
    stage.fake.wait_for("job_polled", 1).await;
    caller.cancel(pending).await;
    let told = loop {
        let told = caller.status().await;
        if told["operations"][0]["status"] == "detached" {
            break told;
        }
        tokio::task::yield_now().await;
    };
    let operation = &told["operations"][0];
    assert_eq!((&operation["detached"], &operation["settled"]), (&json!(true), &json!(false)));
    let ends_by = operation["ends_by"].as_str().unwrap();
    let sentence = operation["sentence"].as_str().unwrap();
    assert!(sentence.contains("without its client") && sentence.contains(ends_by), "{sentence}");
    fits(&mut caller, &told).await;
    assert!(stage.fake.finish("job-1"));
    stage.settled(1).await;
    let told = caller.status().await;
    assert_eq!(column(&told, "status"), ["finished"], "nobody was told: {told:#}");
    stage.finish(caller, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_are_shown_and_it_is_said_that_there_are_more() {
    let stage = Stage::new().await;
    let mut caller = Caller::at(Door::Stdio, &stage).await;
    let mut pending = Vec::new();
    for id in 1..=51 {
        pending.push(caller.call(id, "run_report", tag()).await);
    }
    stage.fake.wait_for("job_created", 51).await;
    let mut asked = caller.call(99, "cancellation_status", json!({})).await;
    let said = caller.answer(&mut asked).await;
    let told = &said["structuredContent"];
    assert_eq!((column(told, "id").len(), &told["more"]), (50, &json!(true)));
    assert!(said["content"][0]["text"].as_str().unwrap().contains("There are more"), "{said:#}");
    caller.cancel(pending.remove(0)).await;
    stage.operations_when("a settled one", |rows| rows.iter().any(|row| row["settled"] == true)).await;
    let told = caller.status().await;
    assert_eq!((column(&told, "id").len(), &told["more"]), (50, &json!(true)));
    assert!(!column(&told, "status").contains(&"stopped"), "what runs comes first");
    for pending in pending {
        caller.cancel(pending).await;
    }
    stage.settled(51).await;
    let told = caller.status().await;
    assert_eq!((column(&told, "id").len(), &told["more"]), (50, &json!(true)));
    assert!(column(&told, "status").iter().all(|status| *status == "stopped"));
    stage.finish(caller, &(1..=51).collect::<Vec<_>>()).await;
}
