//! Logs on stderr that hold up nobody.
//!
//! Many MCP clients take their server's stderr and never read it. Once the pipe is full a write to it waits for ever, and with it
//! whatever had something to say. So a thread of their own writes the lines; what waits for a reader is bounded, and
//! beyond that lost, with a word about how much.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::Duration,
};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait for a reader.
const QUEUE: usize = 4_096;

/// What the writing thread is told.
enum Said {
    Line(Vec<u8>),
    /// Everything before has been written.
    Flush(SyncSender<()>),
}

/// Where lines go. A cheap clone.
#[derive(Clone)]
pub(crate) struct Logs {
    queue: SyncSender<Said>,
    lost: Arc<AtomicU64>,
}

impl Logs {
    /// Lines to stderr.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn to_stderr() -> io::Result<Self> {
        Self::to(io::stderr())
    }

    fn to(output: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, lines) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let thread = std::thread::Builder::new().name("countermand-logs".into()).stack_size(256 << 10);
        thread.spawn(move || write_all(output, &lines, &counted))?;
        Ok(Self { queue, lost })
    }

    /// Waits until all that was said has been written, or it takes too long: then nobody reads it.
    pub(crate) fn flush(&self, within: Duration) {
        let (done, flushed) = sync_channel(1);
        if self.queue.try_send(Said::Flush(done)).is_ok() {
            let _late: Result<(), RecvTimeoutError> = flushed.recv_timeout(within);
        }
    }
}

/// Until the last one that has something to say is gone.
fn write_all(mut output: impl Write, lines: &Receiver<Said>, lost: &AtomicU64) {
    while let Ok(said) = lines.recv() {
        // A line that nobody can read any more is lost, and nothing else.
        match said {
            Said::Line(line) => drop(output.write_all(&line)),
            Said::Flush(done) => drop((output.flush(), done.try_send(()))),
        }
        let missed = lost.swap(0, Ordering::Relaxed);
        if missed > 0 {
            let told = format!("{missed} lines of the log were lost here: they were not read in time\n");
            drop(output.write_all(told.as_bytes()));
        }
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// Takes one line, which comes in one piece.
pub(crate) struct Line<'a>(&'a Logs);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.queue.try_send(Said::Line(line.to_vec())).is_err() {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Writes once it is let.
    struct Held {
        gate: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.gate.recv().map_err(io::Error::other)?;
            let _unread = self.written.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nobody_reads_hold_up_nobody_and_their_number_is_told() {
        let (open, gate) = channel();
        let (written, read) = channel();
        let logs = Logs::to(Held { gate, written }).unwrap();
        let lines = QUEUE + 100;
        for line in 0..lines {
            logs.make_writer().write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        // Nobody reads: this does not wait for ever.
        logs.flush(Duration::from_millis(1));
        for _ in 0..=lines {
            open.send(()).unwrap();
        }
        drop(logs);
        let all: Vec<String> = read.iter().collect();
        assert_eq!(all[0], "0\n");
        let lost = all.iter().find(|line| line.contains("were lost here")).unwrap();
        let lost: usize = lost.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(all.len() - 1 + lost, lines, "each line was written or counted");
        assert!((99..=100).contains(&lost), "{lost}");
    }

    #[test]
    fn what_was_said_is_written_before_a_flush_returns() {
        let (open, gate) = channel();
        let (written, read) = channel();
        let logs = Logs::to(Held { gate, written }).unwrap();
        logs.make_writer().write_all(b"last words\n").unwrap();
        open.send(()).unwrap();
        logs.flush(Duration::from_secs(20));
        assert_eq!(read.try_recv().as_deref(), Ok("last words\n"));
    }
}
