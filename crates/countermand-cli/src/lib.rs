//! The command `countermand`: config files, the cancellation plan, tools, and what presents them.
//!
//! In layer order; a module imports only modules declared above it.

pub mod config;
pub mod plan;
pub mod schema;
mod logs;
mod terminal;
mod absence;
mod answer;
mod proxy;
mod engines;
mod siblings;
mod gateway;
mod check;
mod shown;
mod teller;
mod ops;
mod serve;
mod wrap;
mod demo;
mod manual;
mod command;

pub use command::main;
pub(crate) use terminal::{print, reader_is_gone, terminal_width, try_print};
