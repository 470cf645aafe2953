//! One HTTP exchange, read as it comes: its head, its events, its end; and the ways to leave it.

use super::soon;
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The head of a response.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

/// One exchange on a connection of its own. Dropping it closes the connection.
#[derive(Debug)]
pub struct Exchange {
    stream: TcpStream,
    raw: Vec<u8>,
    head: Option<Head>,
    /// The body as far as it was decoded and not taken.
    body: Vec<u8>,
    body_ended: bool,
    /// Keep-alive comments of an event stream, seen so far.
    pub comments: usize,
}

impl Exchange {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, raw: Vec::new(), head: None, body: Vec::new(), body_ended: false, comments: 0 }
    }

    /// The head of the response.
    pub async fn head(&mut self) -> Head {
        while self.head.is_none() {
            if let Some(end) = find(&self.raw, b"\r\n\r\n") {
                let head: Vec<u8> = self.raw.drain(..end + 4).collect();
                self.head = Some(parse_head(&head));
            } else if !self.read().await {
                panic!("the connection ended before a response: {:?}", String::from_utf8_lossy(&self.raw));
            }
        }
        self.head.clone().unwrap_or_default()
    }

    /// The next message of an event stream, or the only one of a JSON response; `None` at the end.
    pub async fn message(&mut self) -> Option<Value> {
        let events =
            self.head().await.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
        if !events {
            let body = self.whole_body().await;
            let text = String::from_utf8_lossy(&body).trim().to_owned();
            return if text.is_empty() { None } else { serde_json::from_str(&text).ok() };
        }
        loop {
            let Some(end) = find(&self.body, b"\n\n") else {
                if self.more_body().await {
                    continue;
                }
                return None;
            };
            let event: Vec<u8> = self.body.drain(..end + 2).collect();
            match data_of(&String::from_utf8_lossy(&event)) {
                Some(message) => return Some(message),
                None => self.comments += 1,
            }
        }
    }

    /// The whole body as it was written, up to its end.
    pub async fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.whole_body().await).into_owned()
    }

    /// The message with an id: the response. What comes before it is passed over.
    pub async fn response(&mut self) -> Value {
        loop {
            match self.message().await {
                Some(message) if message.get("method").is_none() => return message,
                Some(_) => {}
                None => panic!("the response ended without an answer"),
            }
        }
    }

    /// The next progress notification.
    pub async fn progress(&mut self) -> Value {
        match self.message().await {
            Some(message) if message["method"] == "notifications/progress" => message,
            Some(other) => panic!("not progress: {other}"),
            None => panic!("the response ended without progress"),
        }
    }

    /// All messages up to the end.
    pub async fn messages(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.message().await {
            all.push(message);
        }
        all
    }

    /// The whole body.
    pub async fn whole_body(&mut self) -> Vec<u8> {
        while self.more_body().await {}
        std::mem::take(&mut self.body)
    }

    /// Everything that still comes, as it is on the wire, up to the end of the connection. The end is final.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        while self.read().await {}
        std::mem::take(&mut self.raw)
    }

    /// Writes more bytes on the same connection.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _gone = soon("room on the connection", self.stream.write_all(bytes)).await;
    }

    /// Closes the sending side only.
    pub async fn half_close(&mut self) {
        let _gone = self.stream.shutdown().await;
    }

    /// Closes the connection in good order (FIN).
    pub fn close(self) {
        drop(self);
    }

    /// Breaks the connection (RST).
    pub fn reset(self) {
        let _gone = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        drop(self);
    }

    async fn read(&mut self) -> bool {
        let read = soon("more of a response", self.stream.read_buf(&mut self.raw)).await;
        matches!(read, Ok(1..))
    }

    /// Decodes more of the body; false at its end.
    async fn more_body(&mut self) -> bool {
        let head = self.head().await;
        let chunked = head.header("transfer-encoding").is_some_and(|t| t.contains("chunked"));
        let length = head.header("content-length").and_then(|length| length.parse::<usize>().ok());
        if self.body_ended {
            return false;
        }
        loop {
            if chunked {
                if let Some(chunk) = take_chunk(&mut self.raw) {
                    self.body_ended = chunk.is_empty();
                    self.body.extend(chunk);
                    return !self.body_ended;
                }
            } else {
                let wanted = length.unwrap_or(usize::MAX);
                if !self.raw.is_empty() {
                    self.body.append(&mut self.raw);
                    return true;
                }
                if self.body.len() >= wanted {
                    self.body_ended = true;
                    return false;
                }
            }
            if !self.read().await {
                self.body_ended = true;
                return false;
            }
        }
    }
}

fn parse_head(bytes: &[u8]) -> Head {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Head { status, headers }
}

/// One whole chunk of a chunked body; an empty one is the last.
fn take_chunk(raw: &mut Vec<u8>) -> Option<Vec<u8>> {
    let line = find(raw, b"\r\n")?;
    let size = std::str::from_utf8(&raw[..line]).ok()?;
    let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
    let end = line + 2 + size + 2;
    if raw.len() < end {
        return None;
    }
    let chunk = raw[line + 2..line + 2 + size].to_vec();
    raw.drain(..end);
    Some(chunk)
}

/// The message in an event; a comment has none.
fn data_of(event: &str) -> Option<Value> {
    let data: Vec<&str> =
        event.lines().filter_map(|line| line.strip_prefix("data:")).map(|data| data.trim_start()).collect();
    if data.is_empty() { None } else { serde_json::from_str(&data.join("\n")).ok() }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
