//! What to start, and with what around it.

use super::SpawnError;
use std::{
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// A program to start.
#[derive(Debug, Clone, Default)]
pub struct Spawn {
    /// The operation's name, set in the environment of everything that it starts.
    pub operation: String,
    /// The program and its arguments. A name without `/` is looked for on the `PATH`; a relative path starts at `cwd`.
    pub argv: Vec<OsString>,
    /// The working directory; else ours.
    pub cwd: Option<PathBuf>,
    /// Which of our variables it gets.
    pub inherit: Inherit,
    /// Variables beside those.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Stdin,
    /// What becomes of its standard output.
    pub stdout: Output,
    /// What becomes of its standard error.
    pub stderr: Output,
}

/// Which of our environment variables a program gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inherit {
    /// All.
    All,
    /// Those, as far as they are set.
    Only(Vec<String>),
}

impl Default for Inherit {
    fn default() -> Self {
        Self::Only(Vec::new())
    }
}

/// What a program reads.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Null,
    /// What is written into the pipe that is handed out.
    Pipe,
    /// These bytes, then the end. One that does not read them is not waited for.
    Bytes(Vec<u8>),
}

impl std::fmt::Debug for Stdin {
    /// Without the bytes: they are somebody's data.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Pipe => f.write_str("Pipe"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

/// What becomes of what a program writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// It goes into the pipe that is handed out, which somebody has to read: a full one stops the program.
    #[default]
    Pipe,
    /// It goes where ours goes.
    Inherit,
    /// Nothing.
    Null,
}

/// Where a program is that is written so: a path with a `/`, relative to `cwd`, or a name on `path`.
///
/// # Errors
/// [`SpawnError::NotFound`], [`SpawnError::NotExecutable`].
pub fn locate(program: &OsStr, cwd: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, SpawnError> {
    let named = || program.to_string_lossy().into_owned();
    if program.is_empty() {
        return Err(SpawnError::Unnamed);
    }
    if program.as_encoded_bytes().contains(&b'/') {
        let at = cwd.map_or_else(|| PathBuf::from(program), |cwd| cwd.join(program));
        // `current_dir` is changed before it is run: what is relative to our directory must not be to the other.
        let at = std::path::absolute(&at).unwrap_or(at);
        return match look(&at) {
            Look::Runs => Ok(at),
            Look::Refused => Err(SpawnError::NotExecutable { program: named() }),
            Look::Absent => Err(SpawnError::NotFound { program: named(), searched: "there".into() }),
        };
    }
    let mut refused = false;
    for directory in std::env::split_paths(path.unwrap_or_default()) {
        let at = directory.join(program);
        match look(&at) {
            // An empty or relative entry of the PATH would mean another directory in the child.
            Look::Runs => return Ok(std::path::absolute(&at).unwrap_or(at)),
            Look::Refused => refused = true,
            Look::Absent => {}
        }
    }
    Err(match refused {
        true => SpawnError::NotExecutable { program: named() },
        false => SpawnError::NotFound { program: named(), searched: "on the PATH".into() },
    })
}

enum Look {
    Runs,
    Refused,
    Absent,
}

fn look(at: &Path) -> Look {
    match std::fs::metadata(at) {
        Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => Look::Runs,
        Ok(_) => Look::Refused,
        Err(_) => Look::Absent,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_on_the_path_and_a_path_where_it_says() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        std::fs::write(&run, "#!/bin/sh\n").unwrap();
        let path = std::env::join_paths([Path::new("/no/such"), place.path()]).unwrap();
        let find = |program: &str| locate(program.as_ref(), Some(place.path()), Some(&path));
        assert!(find("run").unwrap_err().to_string().contains("`run`: it is not executable"));
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("run").unwrap(), run);
        assert_eq!(find("./run").unwrap(), place.path().join("./run"));
        assert_eq!(find(run.to_str().unwrap()).unwrap(), run);
        assert!(find("walk").unwrap_err().to_string().contains("no such program on the PATH"));
        assert!(find("./walk").unwrap_err().to_string().contains("no such program there"));
        assert!(matches!(find(""), Err(SpawnError::Unnamed)));
        assert!(
            locate("run".as_ref(), Some(place.path()), None).is_err(),
            "a name is never in the directory"
        );
    }
}
