//! Whether the ledger is still where it was.
//!
//! A file that was removed or replaced can be written for as long as it is open: everything succeeds, and is gone
//! with the process. SQLite does not notice with a write-ahead log, so we look before each commit.

use std::path::{Path, PathBuf};

#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

/// The files that were opened.
pub(super) struct Place {
    files: Vec<(PathBuf, Option<Identity>)>,
}

impl Place {
    /// That of an open ledger, whose write-ahead log is there.
    pub(super) fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let files = [path.to_owned(), log.into()];
        Self { files: files.map(|file| (file.clone(), identity(&file))).into() }
    }

    /// The first of them that is not where it was.
    pub(super) fn missing(&self) -> Option<&Path> {
        let moved = |(file, was): &&(PathBuf, Option<Identity>)| was.is_some() && identity(file) != *was;
        self.files.iter().find(moved).map(|(file, _)| file.as_path())
    }
}

#[cfg(unix)]
fn identity(file: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(file).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(file: &Path) -> Option<Identity> {
    std::fs::metadata(file).ok().map(drop)
}
