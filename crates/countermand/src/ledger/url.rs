//! Where a ledger is, as config and command line write it.

use std::path::{Path, PathBuf};

/// A ledger's address, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerUrl {
    /// `sqlite:PATH`: a file.
    Sqlite(PathBuf),
}

/// An address that names no ledger. Neither message repeats more of it than the scheme: the rest may hold
/// a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerUrlError {
    /// A kind that this version cannot open.
    #[error(
        "failed to read the ledger's address: `{scheme}:` is not yet supported by this version; write `sqlite:PATH`"
    )]
    NotYet {
        /// The scheme as it was written.
        scheme: String,
    },
    /// Not an address at all.
    #[error(
        "failed to read the ledger's address: {problem}; write `sqlite:PATH`, such as `sqlite:countermand.db`"
    )]
    Malformed {
        /// What is wrong with it.
        problem: String,
    },
}

impl LedgerUrl {
    /// Reads an address; a relative path is relative to `base`.
    ///
    /// # Errors
    /// [`LedgerUrlError`], with what to write instead.
    pub fn parse(text: &str, base: &Path) -> Result<Self, LedgerUrlError> {
        let malformed = |problem: &str| LedgerUrlError::Malformed { problem: problem.to_owned() };
        let (scheme, rest) = text.split_once(':').ok_or_else(|| malformed("it has no scheme"))?;
        match scheme {
            "sqlite" => {}
            "postgres" | "postgresql" => return Err(LedgerUrlError::NotYet { scheme: scheme.to_owned() }),
            other => return Err(malformed(&format!("`{other}:` is no kind of ledger"))),
        }
        // `//host/path` would silently become a path below `/host`.
        let path = match rest.strip_prefix("//") {
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err(malformed("a file has no host: `sqlite://…` is `sqlite:…`")),
            None => rest,
        };
        if path.is_empty() || path.ends_with('/') {
            return Err(malformed("it names no file"));
        }
        Ok(Self::Sqlite(base.join(path)))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Sqlite(path) => path,
        }
    }
}
