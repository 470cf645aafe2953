//! A raw client for the tests of the fake: one socket, no opinion.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its part")]

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Raw(TcpStream);

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub text: String,
}

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }
}

impl Raw {
    pub async fn to(addr: SocketAddr) -> Raw {
        Raw(TcpStream::connect(addr).await.expect("the fake listens"))
    }

    /// Sends a request and does not wait for its answer.
    pub async fn send(&mut self, method: &str, target: &str, headers: &[&str], body: &str) {
        let mut request = format!("{method} {target} HTTP/1.1\r\nhost: fake\r\n");
        for header in headers {
            request.push_str(&format!("{header}\r\n"));
        }
        request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        self.write(request.as_bytes()).await;
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the fake reads");
    }

    /// Reads up to the end of the answer's head.
    pub async fn head(&mut self) -> std::io::Result<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await?);
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    }

    pub async fn reply(&mut self) -> std::io::Result<Reply> {
        let head = self.head().await?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        self.0.read_exact(&mut body).await?;
        Ok(Reply { status, head, text: String::from_utf8_lossy(&body).into_owned() })
    }

    pub async fn ask(&mut self, method: &str, target: &str, headers: &[&str], body: &str) -> Reply {
        self.send(method, target, headers, body).await;
        self.reply().await.expect("an answer")
    }

    pub fn leave(self) {}
}
