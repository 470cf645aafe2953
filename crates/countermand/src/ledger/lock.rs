//! The lock that excludes a second gateway: an advisory lock on a file beside the ledger.
//!
//! The kernel gives it back when its holder dies, however it dies. The file itself stays: removing
//! it would let two holders lock two files of one name.

use super::error::OpenError;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

/// The held lock; dropping it gives it back.
#[derive(Debug)]
pub(super) struct GatewayLock {
    _file: File,
}

impl GatewayLock {
    /// Takes the lock of the ledger at `path`, without waiting.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let system = |what| move |source| OpenError::System { path: path.to_owned(), what, source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(beside(path))
            .map_err(system("its lock file cannot be written"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { path: path.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(system("its lock cannot be taken")(source)),
        }
        note_holder(&mut file).map_err(system("its lock file cannot be written"))?;
        Ok(Self { _file: file })
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn note_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
