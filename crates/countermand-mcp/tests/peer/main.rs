//! The wire as a client: against our own servers, against those of `rmcp`, and against servers that say what the test
//! says.

#[path = "../http_support/mod.rs"]
mod http_support;
#[path = "../stdio_support/mod.rs"]
mod stdio_support;

mod support;
mod theirs;

mod dropped;
mod faults;
mod greeting;
mod http;
mod many;
mod servers;
mod streams;
