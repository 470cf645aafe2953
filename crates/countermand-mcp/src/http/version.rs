//! Which HTTP a connection speaks, learnt in bounded time: hyper would wait for the rest of a preface for ever.

use bytes::Bytes;
use std::io;
use tokio::net::TcpStream;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// Reads until the version is clear, and hands on what it has read. A client that closes before is an error.
pub(super) async fn version(stream: &TcpStream) -> io::Result<(Version, Bytes)> {
    let (mut ahead, mut length) = ([0; PREFACE.len()], 0);
    while length < PREFACE.len() {
        stream.readable().await?;
        match stream.try_read(&mut ahead[length..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if !PREFACE.starts_with(&ahead[..length]) {
            return Ok((Version::One, Bytes::copy_from_slice(&ahead[..length])));
        }
    }
    Ok((Version::Two, Bytes::from_static(PREFACE)))
}
