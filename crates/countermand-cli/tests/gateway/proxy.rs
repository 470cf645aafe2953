//! In front of existing MCP servers: real servers in processes of their own, which tell what has reached them.

mod front;
mod house;

mod passing;
mod greeting;
mod asking;
mod rounds;
mod cancels;
mod unconfirmed;
mod numbers;
mod bounds;
mod sharing;
mod deaths;
mod leaving;
mod storms;
mod chains;
mod silent;

use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// The arguments of a call.
fn tagged(tag: &str) -> Value {
    json!({ "tag": tag })
}

/// How long it took from one time to another, for the report; asserts that it was no longer than the bound.
#[track_caller]
fn took(bound: Duration, from: Instant, to: Instant, what: &str) {
    let took = to.saturating_duration_since(from);
    println!("{what}: {:.1} ms", took.as_secs_f64() * 1000.0);
    assert!(took <= bound, "{what} took {took:?}, more than {bound:?}");
}
