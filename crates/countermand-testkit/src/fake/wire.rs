//! HTTP/1.1 by hand on one socket, because a library hides what this is about: when and how the peer leaves.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

use super::record::Close;

const MAX_HEAD: usize = 64 << 10;
const MAX_BODY: usize = 64 << 20;
/// How much a peer may send ahead while it is held. Past it only a reset is seen.
const MAX_AHEAD: usize = 8 << 20;

/// A request's head.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// The target as it was on the wire.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) raw: Bytes,
    keep_alive: bool,
}

/// Why a request could not be read.
#[derive(Clone, Debug)]
pub(crate) enum Unread {
    /// The peer left first.
    Closed(Close),
    /// What it sent is not HTTP/1.1, or too much.
    Malformed(&'static str),
}

impl From<Close> for Unread {
    fn from(how: Close) -> Unread {
        Unread::Closed(how)
    }
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether another request may follow on this connection.
    pub(crate) fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    fn parse(raw: Bytes) -> Result<Head, Unread> {
        let text = std::str::from_utf8(&raw).map_err(|_| Unread::Malformed("the head is not UTF-8"))?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return Err(Unread::Malformed("the request line has not three parts"));
        };
        if !version.starts_with("HTTP/1.") || method.is_empty() || target.is_empty() {
            return Err(Unread::Malformed("this is not HTTP/1"));
        }
        let mut headers = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(Unread::Malformed("a header has no colon"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let (method, target) = (method.to_owned(), target.to_owned());
        let mut head = Head { method, target, headers, keep_alive: version == "HTTP/1.1", raw: raw.clone() };
        if head.header("connection").is_some_and(|value| value.to_ascii_lowercase().contains("close")) {
            head.keep_alive = false;
        }
        Ok(head)
    }
}

/// One connection and what was read ahead from it.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    ahead: BytesMut,
    closed: Option<Close>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire { stream, ahead: BytesMut::new(), closed: None }
    }

    /// What was read and not yet used.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.ahead
    }

    /// Reads more. Safe to drop: nothing read is lost.
    pub(crate) async fn fill(&mut self) -> Result<(), Close> {
        if let Some(how) = self.closed {
            return Err(how);
        }
        self.ahead.reserve(1 << 10);
        let read = self.stream.read_buf(&mut self.ahead).await;
        self.took(read)
    }

    fn took(&mut self, read: io::Result<usize>) -> Result<(), Close> {
        let how = match read {
            Ok(0) => Close::Fin,
            Ok(_) => return Ok(()),
            Err(_) => Close::Reset,
        };
        self.closed = Some(how);
        Err(how)
    }

    /// Waits until the peer leaves, reading ahead. Safe to drop.
    pub(crate) async fn gone(&mut self) -> Close {
        loop {
            if self.ahead.len() >= MAX_AHEAD {
                // An error of `ready` itself means that the runtime ends.
                let _ = self.stream.ready(Interest::ERROR).await;
                self.closed = Some(Close::Reset);
                return Close::Reset;
            }
            if let Err(how) = self.fill().await {
                return how;
            }
        }
    }

    /// Whether the peer has left already, as far as the runtime has heard. To be sure, hold the request.
    pub(crate) fn gone_now(&mut self) -> Option<Close> {
        while self.closed.is_none() && self.ahead.len() < MAX_AHEAD {
            self.ahead.reserve(1 << 10);
            match self.stream.try_read_buf(&mut self.ahead) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                read => drop(self.took(read)),
            }
        }
        self.closed
    }

    /// Reads a request's head.
    pub(crate) async fn head(&mut self) -> Result<Head, Unread> {
        let mut searched = 0;
        loop {
            // Some clients end a body with a line break too many.
            while searched == 0 && self.ahead.starts_with(b"\r\n") {
                self.ahead.advance(2);
            }
            if let Some(at) = self.ahead[searched..].windows(4).position(|four| four == b"\r\n\r\n") {
                return Head::parse(self.ahead.split_to(searched + at + 4).freeze());
            }
            searched = self.ahead.len().saturating_sub(3);
            if searched > MAX_HEAD {
                return Err(Unread::Malformed("the head is too long"));
            }
            self.fill().await?;
        }
    }

    /// Reads the body that belongs to `head`.
    pub(crate) async fn body(&mut self, head: &Head) -> Result<Bytes, Unread> {
        if head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if head
            .header("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().contains("chunked"))
        {
            return self.chunked().await;
        }
        let Some(length) = head.header("content-length") else { return Ok(Bytes::new()) };
        let length = length.parse().map_err(|_| Unread::Malformed("the content-length is no number"))?;
        self.exactly(length).await
    }

    async fn exactly(&mut self, length: usize) -> Result<Bytes, Unread> {
        if length > MAX_BODY {
            return Err(Unread::Malformed("the body is too long"));
        }
        while self.ahead.len() < length {
            self.fill().await?;
        }
        Ok(self.ahead.split_to(length).freeze())
    }

    async fn chunked(&mut self) -> Result<Bytes, Unread> {
        let mut body = BytesMut::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| Unread::Malformed("a chunk's size is no hexadecimal number"))?;
            if size == 0 {
                // Trailers, up to an empty line.
                while !self.line().await?.is_empty() {}
                return Ok(body.freeze());
            }
            if body.len().saturating_add(size) > MAX_BODY {
                return Err(Unread::Malformed("the body is too long"));
            }
            body.extend_from_slice(&self.exactly(size).await?);
            if !self.line().await?.is_empty() {
                return Err(Unread::Malformed("a chunk is longer than it says"));
            }
        }
    }

    async fn line(&mut self) -> Result<String, Unread> {
        loop {
            if let Some(at) = self.ahead.windows(2).position(|two| two == b"\r\n") {
                let line = self.ahead.split_to(at);
                self.ahead.advance(2);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if self.ahead.len() > MAX_HEAD {
                return Err(Unread::Malformed("a line is too long"));
            }
            self.fill().await?;
        }
    }

    /// Writes all of `bytes`, unless the peer leaves while it does not take them. Not safe to drop half-way.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Close> {
        let Wire { stream, ahead, closed } = self;
        let (mut reader, mut writer) = stream.split();
        let gone = async {
            loop {
                ahead.reserve(1 << 10);
                match reader.read_buf(ahead).await {
                    Ok(0) => return Close::Fin,
                    Ok(_) if ahead.len() >= MAX_AHEAD => std::future::pending().await,
                    Ok(_) => {}
                    Err(_) => return Close::Reset,
                }
            }
        };
        let how = tokio::select! {
            biased;
            written = writer.write_all(bytes) => match written {
                Ok(()) => return Ok(()),
                Err(_) => Close::Reset,
            },
            how = gone => how,
        };
        *closed = Some(how);
        Err(how)
    }

    /// Ends the connection: with a RST, or with a FIN.
    pub(crate) fn end(self, how: Close) {
        if how == Close::Reset {
            // Without it the peer sees a FIN: the test that counts on a reset fails, and says so.
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}
