//! Ledgers side by side: two stdio gateways on one config (two editors) are normal, and each has its own file,
//! `NAME.db`, `NAME.2.db`, `NAME.3.db` and so on.

use super::{
    error::OpenError,
    sqlite::{OpenMode, SqliteLedger},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// So many gateways on one config are a mistake.
const AT_MOST: u32 = 1_000;

/// Opens the first of the family that no other gateway holds, and says which.
///
/// # Errors
/// [`OpenError`] where one that is free cannot be opened: it is not passed over, for its operations would be
/// forgotten silently.
pub fn open_first_free(path: impl AsRef<Path>) -> Result<(SqliteLedger, PathBuf), OpenError> {
    let base = path.as_ref();
    let mut number = 1;
    loop {
        let path = member(base, number);
        match SqliteLedger::open(&path, OpenMode::Gateway) {
            Ok(ledger) => return Ok((ledger, path)),
            Err(OpenError::Locked { .. }) if number < AT_MOST => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The files of the family that are there, in the order of their numbers.
pub fn siblings(path: impl AsRef<Path>) -> Vec<PathBuf> {
    let base = path.as_ref();
    let directory = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| number_of(base, &entry.ok()?.file_name())).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|number| member(base, number)).collect()
}

/// Opens a sibling as its gateway, where it is there and no other gateway holds it.
///
/// # Errors
/// [`OpenError`] where it is free and cannot be opened.
pub fn try_adopt(sibling: impl AsRef<Path>) -> Result<Option<SqliteLedger>, OpenError> {
    let sibling = sibling.as_ref();
    if !sibling.exists() {
        return Ok(None);
    }
    match SqliteLedger::open(sibling, OpenMode::Gateway) {
        Ok(ledger) => Ok(Some(ledger)),
        Err(OpenError::Locked { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn member(base: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return base.to_owned();
    }
    let (mut name, extension) = halves(base);
    name.push(format!(".{number}"));
    name.push(extension);
    base.with_file_name(name)
}

/// Which member of the family a file name is.
fn number_of(base: &Path, name: &std::ffi::OsStr) -> Option<u32> {
    if Some(name) == base.file_name() {
        return Some(1);
    }
    let (stem, extension) = halves(base);
    let number = name.to_str()?.strip_prefix(stem.to_str()?)?.strip_suffix(extension.to_str()?)?;
    let number: u32 = number.strip_prefix('.')?.parse().ok()?;
    // `NAME.02.db` is none of ours.
    (number >= 2 && member(base, number).file_name() == Some(name)).then_some(number)
}

/// The name before its extension, and the extension with its dot.
fn halves(base: &Path) -> (OsString, OsString) {
    let stem = base.file_stem().unwrap_or_default().to_owned();
    let extension = base.extension().map_or_else(OsString::new, |extension| {
        let mut dotted = OsString::from(".");
        dotted.push(extension);
        dotted
    });
    (stem, extension)
}
