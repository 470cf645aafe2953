//! What tests of cancellation need: an upstream that shows what a cancel did to it, and honest second opinions.
//!
//! [`fake`] is the recording fake upstream, the oracle: whether a job was created, cancelled or left running is read from
//! its record, never from what the code under test says about itself. [`client`] is a raw MCP client that shares no code
//! with the wire. [`faults`] wraps ports, so that production code needs no test hooks. [`server`] is
//! an MCP server in a process of its own, for what stands in front of one. [`witness`] is a process whose death cannot be
//! missed.

pub mod client;
pub mod fake;
pub mod faults;
pub mod server;
pub mod witness;
