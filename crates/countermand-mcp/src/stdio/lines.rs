//! Lines of a byte stream, bounded: a line that is too long is skipped without being kept.

use super::skim::Skim;
use bytes::{Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What a stream of lines brings next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end. The last one of a stream may lack it.
    Whole(Bytes),
    /// A line above the limit; its rest is skipped.
    TooLong,
    /// A line above the limit has been skipped: in place of [`Line::TooLong`] where lines are skimmed.
    Skipped(Skim),
    /// The end.
    End,
}

pub(crate) struct Lines<R> {
    input: R,
    kept: BytesMut,
    /// How far `kept` is known to hold no line end.
    searched: usize,
    limit: usize,
    skipping: bool,
    skim: Option<Skim>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self { input, kept: BytesMut::new(), searched: 0, limit, skipping: false, skim: None, ended: false }
    }

    /// Tells of a line that is too long at its end, and what could be seen in it, and not at its limit.
    pub(crate) fn skimming(mut self) -> Self {
        self.skim = Some(Skim::default());
        self
    }

    /// The next line that is not empty.
    ///
    /// Nothing is lost if the future is dropped: what was read is kept here.
    pub(crate) async fn next(&mut self) -> io::Result<Line> {
        loop {
            if let Some(line) = self.take() {
                return Ok(line);
            }
            if self.ended {
                return Ok(Line::End);
            }
            self.kept.reserve(8 * 1024);
            if self.input.read_buf(&mut self.kept).await? == 0 {
                self.ended = true;
            }
        }
    }

    /// What the bytes read so far say; `None` where more are needed.
    fn take(&mut self) -> Option<Line> {
        loop {
            let found = self.kept[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = found.map(|at| self.searched + at) else {
                self.searched = self.kept.len();
                return self.take_rest();
            };
            let line = self.kept.split_to(end + 1).freeze();
            self.searched = 0;
            let line = line.slice(..end);
            let skipping = std::mem::take(&mut self.skipping);
            if skipping || line.len() > self.limit {
                match &mut self.skim {
                    Some(skim) => {
                        skim.feed(&line);
                        return Some(Line::Skipped(std::mem::take(skim)));
                    }
                    None if skipping => continue,
                    None => return Some(Line::TooLong),
                }
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Whole(line));
            }
        }
    }

    /// A line whose end is not there yet.
    fn take_rest(&mut self) -> Option<Line> {
        if self.skipping {
            self.drop_kept();
            return None;
        }
        if self.kept.len() > self.limit {
            self.skipping = true;
            self.drop_kept();
            return self.skim.is_none().then_some(Line::TooLong);
        }
        if !self.ended || self.kept.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let line = self.kept.split().freeze();
        self.searched = 0;
        Some(Line::Whole(line))
    }

    fn drop_kept(&mut self) {
        if let Some(skim) = &mut self.skim {
            skim.feed(&self.kept);
        }
        self.kept.clear();
        self.searched = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &'static [u8], limit: usize) -> Vec<Line> {
        let mut lines = Lines::new(input, limit);
        let mut all = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::End => return all,
                line => all.push(line),
            }
        }
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn empty_lines_are_passed_over_and_the_last_line_needs_no_end() {
        assert_eq!(all(b"a\n\r\n \nb", 10).await, [whole("a"), whole("b")]);
    }

    #[tokio::test]
    async fn a_long_line_is_told_once_and_the_next_one_is_whole() {
        assert_eq!(all(b"0123456789ABCDEF\nok\n", 10).await, [Line::TooLong, whole("ok")]);
        assert_eq!(all(b"0123456789ABCDEF", 10).await, [Line::TooLong]);
    }
}
