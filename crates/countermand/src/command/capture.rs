//! What a program writes: all of its standard output up to a limit, the end of both outputs, and their lines as they come.
//!
//! Both are read to their ends whatever becomes of what was read: a program never stands before a full pipe.

use crate::{process::Pipes, secret::Secret};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::watch,
};

/// How much of a line is shown, in bytes.
const LINE: usize = 1_000;

/// How many lines are kept for those who want to see them.
const LINES: usize = 200;

/// How much of the end of an output the message of a failure shows, in bytes.
const TAIL: usize = 1_000;

/// How much of it is kept: a secret that is cut at the front of it would not be known as one.
const KEPT_TAIL: usize = 8 << 10;

/// One of the two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// What was written.
#[derive(Debug)]
pub(super) struct Capture {
    max_bytes: u64,
    secrets: Vec<Secret>,
    kept: Mutex<Kept>,
    /// The number of the last line, and how many outputs are open.
    news: watch::Sender<(u64, u8)>,
}

#[derive(Debug, Default)]
struct Kept {
    stdout: Vec<u8>,
    written: u64,
    tails: [Vec<u8>; 2],
    /// What has begun and not ended, of each output.
    begun: [Vec<u8>; 2],
    lines: VecDeque<(u64, String)>,
}

impl Capture {
    /// Of a program with those outputs still open.
    pub(super) fn new(max_bytes: u64, secrets: Vec<Secret>, pipes: &Pipes) -> Self {
        let open = u8::from(pipes.stdout.is_some()) + u8::from(pipes.stderr.is_some());
        Self { max_bytes, secrets, kept: Mutex::default(), news: watch::Sender::new((0, open)) }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads an output to its end.
    pub(super) async fn read(&self, stream: Stream, mut from: impl AsyncRead + Unpin) {
        let mut piece = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            self.take(stream, &piece[..read]);
        }
        self.end(stream);
        self.news.send_modify(|(_, open)| *open -= 1);
    }

    fn take(&self, stream: Stream, piece: &[u8]) {
        let mut kept = self.lock();
        kept.note(stream, piece, self.max_bytes);
        let lines = kept.lines_of(stream, piece);
        self.tell(kept, lines);
    }

    /// What has begun is a line, too, where nothing follows.
    fn end(&self, stream: Stream) {
        let mut kept = self.lock();
        let lines = kept.lines_of(stream, b"\n");
        self.tell(kept, lines);
    }

    fn tell(&self, mut kept: MutexGuard<'_, Kept>, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        // Under the lock, so that both outputs are counted in one order.
        let mut number = self.news.borrow().0;
        for line in lines {
            number += 1;
            kept.lines.push_back((number, self.masked(line)));
        }
        let surplus = kept.lines.len().saturating_sub(LINES);
        kept.lines.drain(..surplus);
        self.news.send_modify(|(newest, _)| *newest = number);
    }

    /// Waits for lines after that number; the number of the newest with them.
    pub(super) async fn lines_after(&self, number: u64) -> (u64, Vec<String>) {
        let mut news = self.news.subscribe();
        let newest = news.wait_for(|(newest, _)| *newest > number).await.map(|news| news.0);
        match newest {
            Ok(newest) => {
                let kept = self.lock();
                let lines = kept.lines.iter().filter(|(n, _)| *n > number && *n <= newest);
                (newest, lines.map(|(_, line)| line.clone()).collect())
            }
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until both outputs have been read to their ends.
    pub(super) async fn drained(&self) {
        let mut news = self.news.subscribe();
        let _both_closed = news.wait_for(|(_, open)| *open == 0).await.is_ok();
    }

    /// How much was written to standard output, in bytes.
    pub(super) fn written(&self) -> u64 {
        self.lock().written
    }

    /// All of the standard output, once: for who hands it on. `None` where it was more than the limit.
    pub(super) fn take_stdout(&self) -> Option<Vec<u8>> {
        let mut kept = self.lock();
        (kept.written <= self.max_bytes).then(|| std::mem::take(&mut kept.stdout))
    }

    /// What it said last: the end of its standard error, or of its standard output where it said nothing there.
    pub(super) fn last_words(&self) -> Option<String> {
        let kept = self.lock();
        let said = |stream: Stream| {
            let text = String::from_utf8_lossy(&kept.tails[stream as usize]);
            let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
            let text = self.masked(text.trim().to_owned());
            let from = text.ceil_char_boundary(text.len().saturating_sub(TAIL));
            (!text.is_empty()).then(|| text[from..].to_owned())
        };
        said(Stream::Err).or_else(|| said(Stream::Out))
    }

    fn masked(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| secret.redact(&text))
    }
}

impl Kept {
    fn note(&mut self, stream: Stream, piece: &[u8], max_bytes: u64) {
        let tail = &mut self.tails[stream as usize];
        tail.extend_from_slice(piece);
        let surplus = tail.len().saturating_sub(KEPT_TAIL);
        tail.drain(..surplus);
        if stream == Stream::Out {
            self.written += piece.len() as u64;
            if self.written <= max_bytes {
                self.stdout.extend_from_slice(piece);
            } else {
                self.stdout = Vec::new();
            }
        }
    }

    /// The lines that this ends; a carriage return ends one too, as progress bars write it.
    fn lines_of(&mut self, stream: Stream, piece: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let begun = &mut self.begun[stream as usize];
            let ends = part.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r'));
            let text = if ends { &part[..part.len() - 1] } else { part };
            let room = (LINE + 1).saturating_sub(begun.len());
            begun.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                let line = std::mem::take(begun);
                lines.extend(shown(&line));
            }
        }
        lines
    }
}

/// A line as it is shown, unless there is nothing to see.
fn shown(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let mut text: String = text.chars().filter(|c| !c.is_control() || *c == '\t').collect();
    if text.len() > LINE {
        text.truncate(text.floor_char_boundary(LINE));
        text.push('…');
    }
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn capture(max_bytes: u64) -> Capture {
        Capture {
            max_bytes,
            secrets: vec![Secret::of_test("s3cr3t-token")],
            kept: Mutex::default(),
            news: watch::Sender::new((0, 2)),
        }
    }

    #[tokio::test]
    async fn lines_are_counted_over_both_outputs_and_show_no_secret() {
        let capture = capture(1_000);
        capture.take(Stream::Out, b"one\ntw");
        capture.take(Stream::Err, b"10%\r20%\r\n\n");
        capture.take(Stream::Out, b"o s3cr3t-token\x1b[0m\nend");
        capture.read(Stream::Out, &b""[..]).await;
        let (last, lines) = capture.lines_after(0).await;
        assert_eq!(
            (last, lines),
            (5, ["one", "10%", "20%", "two [secret][0m", "end"].map(str::to_owned).to_vec())
        );
        assert_eq!(capture.lines_after(4).await.1, ["end"]);
        assert_eq!(capture.take_stdout().unwrap(), b"one\ntwo s3cr3t-token\x1b[0m\nend");
        assert_eq!(capture.last_words().unwrap(), "10%20%");
    }

    #[tokio::test]
    async fn beyond_the_limit_nothing_is_kept_and_everything_is_read() {
        let capture = capture(10);
        capture.read(Stream::Out, &b"0123456789"[..]).await;
        assert_eq!(capture.take_stdout().unwrap(), b"0123456789");
        let more = vec![b'x'; 100_000];
        capture.read(Stream::Err, &more[..]).await;
        capture.take(Stream::Out, b"!");
        assert_eq!((capture.written(), capture.take_stdout()), (11, None));
        capture.drained().await;
        let line = capture.lines_after(1).await.1.concat();
        assert!(line.ends_with('…') && line.len() < 1_010, "{}", line.len());
        let words = capture.last_words().unwrap();
        assert_eq!(words.len(), TAIL);
    }

    #[tokio::test]
    async fn whoever_is_slow_misses_lines_and_knows_how_many() {
        let capture = capture(10);
        for n in 0..1_000 {
            capture.take(Stream::Err, format!("line {n}\n").as_bytes());
        }
        let (last, lines) = capture.lines_after(3).await;
        assert_eq!((last, lines.len(), lines.last().unwrap().as_str()), (1_000, LINES, "line 999"));
    }
}
