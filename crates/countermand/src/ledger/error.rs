//! Why a ledger could not be opened, and what SQLite's errors mean for whoever runs us.

use countermand_core::ports::LedgerError;
use rusqlite::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a ledger could not be opened. Nothing was changed in it then.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another gateway holds it.
    #[error(
        "failed to open the ledger {}: another gateway{} holds it; stop that one, or give this one a ledger of its own with --ledger",
        path.display(), holder.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    Locked {
        /// The ledger.
        path: PathBuf,
        /// The process that wrote itself into the lock file; `None` in the moment before it does.
        holder: Option<u32>,
    },
    /// There is no such file, and an operator does not create one.
    #[error("failed to open the ledger {}: there is no such file; a gateway creates it when it starts", path.display())]
    Missing {
        /// The ledger.
        path: PathBuf,
    },
    /// Its directory is not there.
    #[error("failed to open the ledger {}: there is no directory {}; create it, or name another with --ledger", path.display(), directory.display())]
    NoDirectory {
        /// The ledger.
        path: PathBuf,
        /// The directory that is missing.
        directory: PathBuf,
    },
    /// It lies on another machine.
    #[error(
        "failed to open the ledger {}: it lies on a network file system ({system}), whose locks SQLite cannot rely on; keep it on a local disk, or use PostgreSQL",
        path.display()
    )]
    Network {
        /// The ledger.
        path: PathBuf,
        /// The file system.
        system: &'static str,
    },
    /// The file is something else.
    #[error("failed to open the ledger {}: the file is no ledger of ours; name another with --ledger", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
    },
    /// A later version of countermand has written it.
    #[error(
        "failed to open the ledger {}: its schema is version {found}, and this countermand knows versions up to {known}; \
         use the countermand that wrote it, or a newer one",
        path.display()
    )]
    TooNew {
        /// The ledger.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that we know.
        known: u32,
    },
    /// An earlier version has written it, and an operator does not migrate it.
    #[error(
        "failed to open the ledger {}: its schema is version {found}, and this countermand reads version {known}; \
         start a gateway of this version on it once, or use the countermand that runs on it",
        path.display()
    )]
    TooOld {
        /// The ledger.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that we read.
        known: u32,
    },
    /// The system refused: a file, a directory, a thread.
    #[error("failed to open the ledger {}: {what}: {source}; {}", path.display(), advice_for_io(source))]
    System {
        /// The ledger.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("failed to open the ledger {}: {message}", path.display())]
    Store {
        /// The ledger.
        path: PathBuf,
        /// What it said, and what to do.
        message: String,
    },
}

impl OpenError {
    pub(super) fn sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
            return Self::NotALedger { path: path.to_owned() };
        }
        Self::Store { path: path.to_owned(), message: in_words(error) }
    }
}

/// Why a piece of work on a connection did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The ledger's own answer: fenced, absent.
    Answer(LedgerError),
    /// The store.
    Sqlite(rusqlite::Error),
    /// What is stored does not fit together.
    Broken(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::Answer(error)
    }
}

impl Failure {
    pub(super) fn into_error(self, action: &'static str, path: &Path) -> LedgerError {
        match self {
            Self::Answer(error) => error,
            Self::Sqlite(error) => store(action, path, in_words(&error)),
            Self::Broken(what) => store(action, path, format!("{what}; {RESTORE}")),
        }
    }
}

pub(super) fn store(action: &'static str, path: &Path, message: impl Into<String>) -> LedgerError {
    LedgerError::Store { action, path: path.display().to_string(), message: message.into() }
}

const RESTORE: &str = "keep the file with its -wal for an inquiry, and restore a backup";

/// What SQLite said, and what to do about it.
pub(super) fn in_words(error: &rusqlite::Error) -> String {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "free some space there; nothing that was acknowledged is lost",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            "make the file and its directory readable and writable for this user"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process keeps it locked: end whatever has it open beside countermand"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => RESTORE,
        Some(ErrorCode::SystemIoFailure) => {
            "check the disk, its quota, this process's limit on the size of files (`ulimit -f`) and the system's log"
        }
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

fn advice_for_io(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "make it writable for this user, or name another place with --ledger"
        }
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only: name another place with --ledger",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
        io::ErrorKind::IsADirectory => "name a file",
        _ => "check the path, or name another with --ledger",
    }
}
