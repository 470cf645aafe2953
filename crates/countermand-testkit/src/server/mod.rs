//! An MCP server as most of them are: it works in the background, and what becomes of a cancel is up to each tool. It can be
//! told to misbehave.
//!
//! Raw lines over stdin and stdout, no SDK and no code of the wire: an honest second opinion on a proxy. It runs in a process
//! of its own ([`run`]) and tells a [`Recorder`], over a Unix socket, all that it hears and does; the kernel closes that
//! socket with the process, so a death cannot be missed. A test waits for those events, and says by the same socket what is
//! to happen next.

mod event;
mod recorder;
mod report;
mod letter;
mod state;
mod tools;
mod methods;
mod process;

pub use event::{Event, EventKind, How};
pub use process::{Options, run};
pub use recorder::Recorder;
