//! Sessions of the 2025 revisions: what a broken connection means there, who may come back, and what ends a session.

mod leaving;
mod returning;
mod whose;

use crate::stage::{Gateway, Session, Stage};
use countermand_testkit::client::{Exchange, message};
use serde_json::{Value, json};

/// Both revisions that have sessions.
pub const REVISIONS: [&str; 2] = ["2025-06-18", "2025-11-25"];

/// Tools whose clients have a second to come back, and one that has no client any more once it has left.
const TOOLS: &str = r#"
  with_grace:
    input: *input
    upstream: reports
    job: *job
    on_disconnect: { grace: 1s }
  with_grace_and_undo:
    input: *input
    upstream: reports
    job: *job
    on_disconnect: { grace: 1s }
    compensate: [ { request: DELETE /rows, query: { tag: "${args.tag}" } } ]
  strict:
    input: *input
    upstream: reports
    job: *job
    on_disconnect: cancel
  search_with_grace:
    input: *input
    upstream: reports
    http: { request: GET /slow, query: { tag: "${args.tag}" } }
    on_disconnect: { grace: 1s }
  search_detached:
    input: *input
    upstream: reports
    http: { request: GET /slow, query: { tag: "${args.tag}" } }
    on_disconnect: detach
"#;

pub async fn stage() -> Stage {
    Stage::with_more("", TOOLS).await
}

pub async fn opened(stage: &Stage, revision: &'static str) -> (Gateway, Session) {
    let gateway = stage.http().await;
    let session = Session::open(&gateway.client, revision).await;
    (gateway, session)
}

/// Calls a tool, and waits until its stream has begun.
pub async fn call(session: &Session, id: impl Into<Value>, tool: &str, tag: &str) -> Exchange {
    let mut exchange =
        session.send(&message::call_with_progress(id, tool, json!({ "tag": tag }), "progress")).await;
    assert_eq!(exchange.head().await.status, 200);
    exchange
}

/// The same, and waits until its job runs upstream.
pub async fn running(stage: &Stage, session: &Session, id: u64, tool: &str, tag: &str) -> Exchange {
    let exchange = call(session, id, tool, tag).await;
    stage.fake.wait(|events| events.iter().any(|event| event.is("job_polled") && event.tagged(tag))).await;
    exchange
}

/// What a session's client is told of its operations.
pub async fn status(session: &Session) -> Value {
    let asked = message::call("status", "cancellation_status", json!({}));
    session.send(&asked).await.response().await["result"].clone()
}
