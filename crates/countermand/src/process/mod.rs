//! Runs programs so that they can be ended with all that they have started, and so that it is known when they have.
//!
//! A [`Runner`] starts programs, each for an *operation* whose name it carries in its environment. A program's processes are
//! its *members*: whatever is in its session, its process group or its control group (where version 2 can be written), has
//! its operation's name in the environment, or descends from one of those. [`Control::stop`] ends them all and verifies it.
//!
//! - **Argument vectors only.** No shell reads anything, unless the vector names one.
//! - **No reused number is ever signalled.** A process is its number *and* its start ([`Identity`]), and a signal goes through a
//!   descriptor of that very process.
//! - **Whoever outlives its leader is ended.** A program is over when the process that was started has exited; what it
//!   leaves behind is stopped then, and only with the last of it has the program *ended*.
//! - **Our own sudden death** kills each leader at once (`PR_SET_PDEATHSIG`; all are started by one permanent thread, whose
//!   death it follows). What a leader has started does not die with it: the next start finds that by the name of the operation,
//!   its control group or its identity ([`Runner::find`]) and ends it ([`Runner::adopt`]).
//!
//! What cannot be found without a control group: a process that has left session and group, has cleared its environment, and whose
//! parents have all exited before anybody looked.

mod census;
mod control;
mod error;
mod members;
mod runner;
mod signal;
mod spawn;
mod spawner;
mod stop;

pub use crate::platform::Identity;
pub use control::{Control, Exit, Pipes, Process, State};
pub use error::SpawnError;
pub use runner::{Containment, Found, Runner};
pub use signal::StopSignal;
pub use spawn::{Inherit, Output, Spawn, Stdin, locate};
pub use stop::Stop;

/// The variable that tells a process, and whoever looks for it, which operation it belongs to.
pub const OPERATION: &str = "COUNTERMAND_OPERATION";

/// The variable of a program that has the name of an operation and is none of its processes: one that is told of it.
pub(crate) const NOTICE: &str = "COUNTERMAND_NOTICE";
