//! Decides: the life of an operation as one pure state machine, and the ports it needs.
//!
//! No IO, no async runtime, no clock, no dice: time and chance are arguments ([`Now`]).
//! What an event makes of an operation is decided by [`step`](step()) and nowhere else; what a row needs
//! next is read off it by [`due::due`]. Performing it is the business of the `countermand` crate.
//!
//! In layer order; a module imports only modules declared above it (`time` and `ids` are one layer).

pub mod cause;
pub mod ids;
pub mod time;
pub mod phase;
pub mod policy;
pub mod row;
pub mod event;
pub mod schedule;
pub mod due;
pub mod notice;
pub mod health;
mod step;
pub mod words;
pub mod ports;

pub use cause::Cause;
pub use health::HealthPolicy;
pub use ids::{CallId, DefinitionHash, Key, OperationId, Owner, Principal, UpstreamId};
pub use notice::Notice;
pub use phase::{Desired, Kind, News, Outcome, Phase, Verdict};
pub use policy::{Lookup, OnDisconnect, Policy, WhenCompleted};
pub use row::{Identity, Inputs, NewRow, Row, Turn};
pub use step::step;
pub use time::{Dice, Now, Timestamp};
