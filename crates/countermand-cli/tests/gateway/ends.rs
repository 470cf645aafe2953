//! How it ends, for the client and for us: the input's end, signals, deaths, disconnects, storms.

mod causes;
mod deaths;
mod crashes;
mod disconnects;
mod floods;
mod input;
mod limits;
mod parents;
mod recoveries;
mod signals;
mod storms;
mod unattended;

use crate::stage::{Caller, Door, Pending, Stage};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// The arguments of a call.
fn tagged(tag: &str) -> Value {
    json!({ "tag": tag })
}

/// How long ago something was, for the report; asserts that it was no longer than the bound.
#[track_caller]
fn within(bound: Duration, since: Instant, what: &str) {
    let took = since.elapsed();
    println!("{what}: {:.1} ms", took.as_secs_f64() * 1000.0);
    assert!(took <= bound, "{what} took {took:?}, more than {bound:?}");
}

/// A gateway with one job that runs.
async fn running(door: Door, stage: &Stage, tool: &str) -> (Caller, Pending) {
    let mut caller = Caller::at(door, stage).await;
    let pending = caller.call(1, tool, tagged("t")).await;
    stage.fake.wait_for("job_polled", 1).await;
    (caller, pending)
}

/// A call that is answered at once works.
async fn the_next_call_works(caller: &mut Caller) {
    let mut pending = caller.call(77, "quick", tagged("next")).await;
    let result = caller.answer(&mut pending).await;
    assert_eq!(result["structuredContent"]["quick"], true, "{result}");
}

/// The text of a result.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}
