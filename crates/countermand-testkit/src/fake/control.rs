//! The control API, `/_control/…`: the whole fake for a test in another process, in JSON.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::account::Books;
use super::answer::Answer;
use super::fault::Fault;
use super::gate::{Filter, Gate};
use super::route::{Route, Target};
use super::state::State;
use super::world::JobState;

/// Whether the first bytes of a connection say that it is for control.
pub(crate) fn is_control(first: &[u8]) -> bool {
    first.starts_with(b"GET /_control/") || first.starts_with(b"POST /_control/")
}

#[derive(Deserialize)]
struct HoldBody {
    gate: Gate,
    #[serde(default)]
    filter: Filter,
}

#[derive(Deserialize)]
struct ReleaseBody {
    id: u64,
    /// How many may pass; absent: all, for good.
    n: Option<u64>,
}

#[derive(Deserialize)]
struct FaultBody {
    route: Route,
    fault: Fault,
    times: Option<u32>,
    tag: Option<String>,
    marker: Option<String>,
}

#[derive(Deserialize)]
struct FinishBody {
    job: Option<String>,
    /// Instead of a job: the slow requests of this tag.
    slow: Option<String>,
    #[serde(default)]
    fail: bool,
}

#[derive(Deserialize)]
struct ConfigBody {
    cancel_delay_ms: u64,
}

#[derive(Deserialize)]
struct ExpectBody {
    marker: String,
}

pub(crate) async fn answer(state: &Arc<State>, target: &Target, body: &[u8]) -> Answer {
    let done = match target.command.as_deref().unwrap_or_default() {
        "record" => {
            let since = number(target, "since").unwrap_or(0);
            Ok(json!({ "events": state.record.since(since) }))
        }
        "books" => Ok(json!(Books::of(&state.record.since(0)))),
        "reached" => reached(state, target).await,
        "wait" => wait(state, target).await,
        "hold" => {
            parse(body).map(|HoldBody { gate, filter }| json!({ "id": state.gates.hold(gate, filter) }))
        }
        "release" => parse(body).and_then(|ReleaseBody { id, n }| done(state.gates.release(id, n))),
        "fault" => parse(body).map(|FaultBody { route, fault, times, tag, marker }| {
            state.faults.add(Filter { route: Some(route), tag, marker }, fault, times);
            json!({})
        }),
        "clear_faults" => {
            state.faults.clear();
            Ok(json!({}))
        }
        "finish" => parse(body).and_then(|body| finish(state, body)),
        "config" => parse(body).map(|ConfigBody { cancel_delay_ms }| {
            state.jobs.set_cancel_delay(Duration::from_millis(cancel_delay_ms));
            json!({})
        }),
        "expect" => parse(body).map(|ExpectBody { marker }| {
            state.expect(marker);
            json!({})
        }),
        _ => Err(Answer::error(404, "no such control command")),
    };
    done.map_or_else(|refusal| refusal, |body| Answer::json(200, &body))
}

async fn reached(state: &State, target: &Target) -> Result<Value, Answer> {
    let id = number(target, "id").ok_or_else(|| Answer::error(400, "say which hold: ?id="))?;
    let n = number(target, "n").unwrap_or(1);
    let mut arrivals = state.gates.arrivals(id).ok_or_else(|| Answer::error(404, "no such hold"))?;
    let all = arrivals.wait_for(|arrived| *arrived >= n);
    let reached = tokio::time::timeout(patience(target), all).await.is_ok_and(|arrived| arrived.is_ok());
    let arrived = *arrivals.borrow();
    Ok(json!({ "reached": reached, "arrived": arrived }))
}

async fn wait(state: &State, target: &Target) -> Result<Value, Answer> {
    let kind = target.param("kind").ok_or_else(|| Answer::error(400, "say for what: ?kind="))?;
    let count = number(target, "count").unwrap_or(1);
    let mut seen = 0;
    let mut read = 0;
    let happened = state.wait(patience(target), |events| {
        seen += events[read..].iter().filter(|event| event.is(kind)).count() as u64;
        read = events.len();
        seen >= count
    });
    let happened = happened.await.is_ok();
    Ok(json!({ "happened": happened, "count": seen }))
}

fn finish(state: &State, FinishBody { job, slow, fail }: FinishBody) -> Result<Value, Answer> {
    match (job, slow) {
        (Some(job), _) => {
            let end = if fail { JobState::Failed } else { JobState::Done };
            done(state.jobs.end(&job, end))
        }
        (None, slow) => Ok(json!({ "released": state.release_slow(slow.as_deref()) })),
    }
}

fn done(found: bool) -> Result<Value, Answer> {
    if found { Ok(json!({})) } else { Err(Answer::error(404, "there is none, or it has ended")) }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Answer> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Answer::error(400, &error.to_string()))
}

fn number(target: &Target, name: &str) -> Option<u64> {
    target.param(name)?.parse().ok()
}

fn patience(target: &Target) -> Duration {
    Duration::from_millis(number(target, "timeout_ms").unwrap_or(10_000))
}
