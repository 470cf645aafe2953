//! What upstreams do wrong, and what becomes of the operation: what the tests of `faults_*` share.

use crate::stage::{Caller, Pending, Stage, Times};
use countermand_testkit::fake::{Event, EventKind, JobState, Route};
use serde_json::{Value, json};

/// The tools that only these tests need.
const TOOLS: &str = r#"
  kept:
    input: *input
    upstream: reports
    job: *job
    compensate: [ { request: DELETE /rows, query: { tag: "${args.tag}" } } ]
    when_completed: keep
  forced:
    input: *input
    upstream: reports
    job:
      create: { request: POST /jobs, headers: { Idempotency-Key: "${op.key}" }, query: { tag: "${args.tag}" }, id: $.id }
      status: *status
      cancel: { request: "DELETE /jobs/${op.id}", confirm_within: 10s, force: { request: "POST /jobs/${op.id}/force", after: 1s } }
      key_window: 24h
      lifetime: 1h
  lagging:
    input: *input
    upstream: reports
    job:
      create: { request: POST /jobs, headers: { Idempotency-Key: "${op.key}" }, query: { tag: "${args.tag}" }, id: $.id, shield: 1s, horizon: 1s }
      status: *status
      cancel: { request: "DELETE /jobs/${op.id}", confirm_within: 10s }
      find: { request: GET /jobs, query: { key: "${op.key}" }, id: "$.jobs[0].id", eventual: true }
      lifetime: 1h
  queued:
    input: *input
    upstream: reports
    job:
      create: { request: POST /jobs, headers: { Idempotency-Key: "${op.key}" }, query: { tag: "${args.tag}" }, body: { queued_secs: 600 }, id: $.id }
      status: *status
      cancel: { request: "DELETE /jobs/${op.id}" }
      key_window: 24h
      lifetime: 1h
  quick_search:
    input: *input
    upstream: reports
    http: { request: GET /slow, query: { tag: "${args.tag}" } }
    timeout: 1s
"#;

pub const SHORT: Times = Times { shield: "1s", horizon: "1s" };

pub async fn stage() -> Stage {
    stage_with(Times::default()).await
}

pub async fn stage_with(times: Times) -> Stage {
    Stage::with_config(times, |config| config + TOOLS).await
}

pub fn tag() -> Value {
    json!({ "tag": "t" })
}

/// The words of a result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// An answer that says what went wrong, and names the operation.
pub async fn error(caller: &mut Caller, pending: &mut Pending) -> String {
    let result = caller.answer(pending).await;
    assert_eq!(result["isError"], true, "{result:#}");
    let text = text(&result).to_owned();
    let id = &result["_meta"]["dev.countermand/operations"][0]["id"];
    assert!(text.contains(id.as_str().unwrap()), "an operator needs the id: {text}");
    text
}

/// An answer that says what the upstream returned.
pub async fn success(caller: &mut Caller, pending: &mut Pending) -> Value {
    let result = caller.answer(pending).await;
    assert_eq!(result["isError"], false, "{result:#}");
    result["structuredContent"].clone()
}

/// Cancels, and waits until the wish is durable.
pub async fn cancel(caller: &mut Caller, pending: Pending, stage: &Stage) {
    caller.cancel(pending).await;
    caller.barrier().await;
    stage.operations_when("a wanted cancel", |rows| rows.iter().all(|row| row["desired"] == "cancel")).await;
}

/// What the client is told of its one operation: the words that are expected, and the upstream bears them out.
pub async fn told(caller: &mut Caller, stage: &Stage, words: &str) -> Value {
    let known = stage.operations().await;
    assert_eq!(known.len(), 1, "{known:#?}");
    let said = caller.status_of(&known[0]["id"]).await;
    let operations = said["operations"].as_array().unwrap();
    for operation in operations {
        bears_out(operation, stage);
    }
    assert_eq!((operations.len(), operations[0]["status"].as_str()), (1, Some(words)), "{said:#}");
    operations[0].clone()
}

/// Whether what is said of an operation is so. What is said of an end was read before, and ends stay.
fn bears_out(operation: &Value, stage: &Stage) {
    let jobs = stage.fake.jobs();
    let job = jobs.iter().find(|job| operation["upstream_id"] == job.id.as_str());
    let is = |state| job.is_some_and(|job| job.state == state);
    let ordered = stage.fake.events().iter().any(|event| event.is("order_committed"));
    let so = match operation["status"].as_str().unwrap() {
        "stopped" => is(JobState::Cancelled),
        "gone" => job.is_some_and(|job| job.state.is_terminal()),
        "finished" | "finished_before_cancel" => {
            is(JobState::Done) || (operation["kind"] == "http" && ordered)
        }
        "failed" => is(JobState::Failed) || job.is_none(),
        "never_started" => job.is_none() && stage.fake.live_jobs().is_empty(),
        "undone" => job.is_none_or(|job| job.state.is_terminal()) && stage.fake.rows("t") == 0,
        _ => operation["settled"] == false,
    };
    assert!(so, "the upstream's record says otherwise: {operation:#}\n{jobs:#?}");
}

/// When the requests of a route arrived, in milliseconds.
pub fn requests(stage: &Stage, of: Route) -> Vec<f64> {
    let events = stage.fake.events();
    let is = |event: &&Event| event.is("request") && event.route == Some(of);
    events.iter().filter(is).map(|event| event.at).collect()
}

/// When a fault took the place of an answer, in milliseconds.
pub fn fault_at(stage: &Stage) -> f64 {
    stage.fake.events().iter().find(|event| event.is("fault_applied")).expect("a fault").at
}

/// The keys that the requests of a route carried, each once.
pub fn keys(stage: &Stage, of: Route) -> Vec<String> {
    let mut keys: Vec<_> = stage
        .fake
        .events()
        .into_iter()
        .filter(|event| event.route == Some(of))
        .filter_map(|event| match event.kind {
            EventKind::Request { key, .. } => key,
            _ => None,
        })
        .collect();
    keys.dedup();
    keys
}

/// Waits until the gateway has logged a line at ERROR with all of these in it.
pub async fn alarmed(caller: &Caller, of: &[&str]) {
    let heard = async {
        // The log has no events for others: it is read again.
        while !caller
            .logs()
            .lines()
            .any(|line| line.contains("ERROR") && of.iter().all(|word| line.contains(word)))
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(std::time::Duration::from_secs(5), heard).await.is_err() {
        panic!("no alarm named {of:?}:\n{}", caller.logs());
    }
}
