//! Where answers go.

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{IsTerminal as _, Write as _};

/// The width of the terminal that stdout is; `None` where it is none, and nothing is wrapped.
pub(crate) fn terminal_width() -> Option<u16> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    terminal_size::terminal_size_of(stdout).map(|(width, _)| width.0)
}

/// Writes to stdout. A reader that has gone is no error.
pub(crate) fn print(text: std::fmt::Arguments<'_>) -> Result<()> {
    try_print(text).map(drop)
}

/// Writes to stdout; false once its reader has gone.
pub(crate) fn try_print(text: std::fmt::Arguments<'_>) -> Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether nobody reads stdout any more: seen before there is anything to write.
pub(crate) fn reader_is_gone() -> bool {
    let stdout = std::io::stdout();
    // Errors and hang-ups are told unasked.
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let polled = poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
