//! Server-sent events, piece by piece, of bounded size.

use std::time::Duration;

/// An event is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Reads a stream of events. One that was broken off can be gone on with in another stream.
pub(super) struct Events {
    limit: usize,
    line: Vec<u8>,
    /// A line feed that comes next belongs to the line end before.
    after_return: bool,
    at_start: bool,
    data: Option<Vec<u8>>,
    /// Whether the event is of a type that carries messages.
    is_message: bool,
    id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl Events {
    /// `limit`: bytes of one event.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            data: None,
            is_message: true,
            id: None,
            last_id: None,
            retry: None,
        }
    }

    /// Where a new stream can go on: behind the last whole event that had an id.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants to be left alone before it is asked for more.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// A new stream begins: what the last one left unfinished is forgotten.
    pub(super) fn begin(&mut self) {
        self.line.clear();
        (self.after_return, self.at_start) = (false, true);
        self.forget();
    }

    /// Takes a piece of the stream, and adds the data of each message that it completes.
    pub(super) fn feed(&mut self, mut bytes: &[u8], found: &mut Vec<Vec<u8>>) -> Result<(), TooLarge> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let kept = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
            if kept + end.unwrap_or(bytes.len()) > self.limit {
                return Err(TooLarge);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.line.extend_from_slice(&bytes[..end]);
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            found.extend(self.end_of_line(&line));
        }
        Ok(())
    }

    fn end_of_line(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let marked = std::mem::take(&mut self.at_start);
        let line = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| marked).unwrap_or(line);
        if line.is_empty() {
            if let Some(id) = self.id.take() {
                self.last_id = (!id.is_empty()).then_some(id);
            }
            let data = self.data.take().filter(|data| self.is_message && !data.is_empty());
            self.forget();
            return data;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            b"event" => self.is_message = matches!(value, b"" | b"message"),
            b"id" if !value.contains(&0) => self.id = String::from_utf8(value.to_owned()).ok(),
            b"retry" => {
                let millis = std::str::from_utf8(value).ok().and_then(|millis| millis.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
        None
    }

    fn forget(&mut self) {
        (self.data, self.id, self.is_message) = (None, None, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(events: &mut Events, text: &str, piece: usize) -> Vec<String> {
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            events.feed(piece, &mut found).unwrap();
        }
        found.into_iter().map(|data| String::from_utf8(data).unwrap()).collect()
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "\u{feff}: hello\n\nid: 1-0\ndata: \n\nevent: message\r\nid: 1-1\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:x\r\revent: ping\ndata: no\n\nretry: 250\ndata: last";
        for piece in 1..text.len() {
            let mut events = Events::new(1000);
            assert_eq!(whole(&mut events, text, piece), ["{\"a\":\n1}", "x"], "{piece}");
            assert_eq!(events.last_id(), Some("1-1"));
            assert_eq!(events.retry(), Some(Duration::from_millis(250)));
        }
    }

    #[test]
    fn an_event_that_was_broken_off_is_not_one_and_its_id_is_not_the_last() {
        let mut events = Events::new(1000);
        assert!(whole(&mut events, "id: 7\ndata: a\n", 3).is_empty());
        events.begin();
        assert_eq!(whole(&mut events, "data: b\n\n", 3), ["b"]);
        assert_eq!(events.last_id(), None);
    }

    #[test]
    fn an_event_is_bounded_over_all_its_lines() {
        let mut events = Events::new(10);
        let mut found = Vec::new();
        assert_eq!(events.feed(b"data: 1234\ndata: 123456", &mut found), Err(TooLarge));
        assert_eq!(Events::new(10).feed(b": a comment that is long", &mut found), Err(TooLarge));
        assert_eq!(Events::new(10).feed(b"data: 1\n\ndata: 2\n\ndata: 3\n\n", &mut found), Ok(()));
        assert_eq!(found.len(), 3);
    }
}
