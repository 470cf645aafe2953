//! The ledger: the durable record of everything that was started upstream.
//!
//! SQLite, one writer thread with group commit, a write-ahead log synced at every commit. In layer order.

mod url;
mod error;
mod lock;
mod connect;
mod schema;
mod checkpoint;
mod place;
mod writer;
mod readers;
mod columns;
mod definitions;
mod notices;
mod operations;
mod retention;
mod list;
mod requests;
mod sqlite;
mod family;

pub use error::OpenError;
pub use family::{open_first_free, siblings, try_adopt};
pub use sqlite::{OpenMode, SqliteLedger};
pub use url::{LedgerUrl, LedgerUrlError};
