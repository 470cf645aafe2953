//! Why a program did not start.

use std::io;

/// Why a program did not start. Nothing of it runs. Names the program as it was written, never its arguments.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The vector is empty.
    #[error("failed to start a program: none is named")]
    Unnamed,
    /// There is no such program.
    #[error(
        "failed to start `{program}`: there is no such program {searched}; install it, or write where it is"
    )]
    NotFound {
        /// As it was written.
        program: String,
        /// Where it was looked for, in words.
        searched: String,
    },
    /// It is there, and cannot be run.
    #[error("failed to start `{program}`: it is not executable; `chmod +x` it")]
    NotExecutable {
        /// As it was written.
        program: String,
    },
    /// The working directory is not one.
    #[error("failed to start `{program}`: its working directory is not there, or none")]
    NoDirectory {
        /// As it was written.
        program: String,
    },
    /// The kernel refused.
    #[error("failed to start `{program}`: {error}")]
    Refused {
        /// As it was written.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// The thread that starts programs has ended.
    #[error("failed to start `{program}`: no program is started any more, since this process ends")]
    Ending {
        /// As it was written.
        program: String,
    },
}

impl SpawnError {
    /// Whether it may start the next time: the machine is short of something, or we end.
    pub fn may_pass(&self) -> bool {
        use rustix::io::Errno;
        match self {
            Self::Refused { error, .. } => matches!(
                Errno::from_io_error(error),
                Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::TXTBSY)
            ),
            Self::Ending { .. } => true,
            _ => false,
        }
    }
}
