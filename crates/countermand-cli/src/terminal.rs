//! Where answers go.

use anyhow::Result;
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
    let mut stdout = std::io::stdout().lock();
    match stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
