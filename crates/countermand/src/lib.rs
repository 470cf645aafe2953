//! Makes a cancelled MCP tool call really stop upstream, or say truthfully that it did not.
//!
//! Performs what `countermand-core` decides. In layer order; a module imports only modules
//! declared above it (`template` and `definition` are one layer, with `process` beneath them).

pub use countermand_core as core;

#[cfg(feature = "crash-points")]
pub mod crash;
#[macro_use]
mod crash_point;
mod platform;
pub mod process;
pub mod template;
pub mod definition;
pub mod secret;
mod command;
pub mod upstream;
pub mod notify;
pub mod ledger;
pub mod clock;
pub mod engine;

pub use platform::{raise_descriptor_limit, survive_file_size_limit};
