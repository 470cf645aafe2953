//! The life of an operation, clause by clause: each test is one sentence of the design.

mod clients;
mod creating;
mod draining;
mod ending;
mod kit;
mod legality;
mod orphans;
mod running;
mod stopping;
mod takeover;
mod undoing;
mod unknown;
mod wording;
