//! The server's end of the recorder's socket.

use super::event::EventKind;
use std::{
    io::{self, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Tells a recorder; or nobody.
pub(super) struct Report {
    way: Option<(PathBuf, UnixStream)>,
}

impl Report {
    /// Tells the recorder at this socket.
    pub(super) fn to(socket: Option<&Path>) -> io::Result<Self> {
        let connect = |socket: &Path| UnixStream::connect(socket).map(|stream| (socket.to_owned(), stream));
        let mut report = Self { way: socket.map(connect).transpose()? };
        report.tell(&EventKind::Started { pid: std::process::id(), of: None });
        Ok(report)
    }

    /// What the recorder says can be read here.
    pub(super) fn orders(&self) -> Option<UnixStream> {
        self.way.as_ref().and_then(|(_, stream)| stream.try_clone().ok())
    }

    pub(super) fn tell(&mut self, event: &EventKind) {
        if let (Some((_, stream)), Ok(mut line)) = (&mut self.way, serde_json::to_vec(event)) {
            line.push(b'\n');
            // Whoever does not listen any more has ended, and so shall we by the end of our input.
            let _nobody_listens = stream.write_all(&line);
        }
    }

    /// Starts a process in a session of its own that lives for a long time. It holds a connection to the recorder as its
    /// standard input.
    pub(super) fn start_grandchild(&self) -> io::Result<()> {
        let mut command = Command::new("setsid");
        command.args(["sleep", "1000"]).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let Some((socket, _)) = &self.way else {
            return command.spawn().map(drop);
        };
        let mut stream = UnixStream::connect(socket)?;
        command.stdin(std::os::fd::OwnedFd::from(stream.try_clone()?));
        let pid = command.spawn()?.id();
        let mut line = serde_json::to_vec(&EventKind::Started { pid, of: Some(std::process::id()) })?;
        line.push(b'\n');
        stream.write_all(&line)
    }
}
