//! How the HTTP server behaves.

use crate::TcpOptions;
use std::time::Duration;

/// How to serve Streamable HTTP.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The one path that is served.
    pub path: String,
    /// Answer with one JSON object instead of an event stream where the client takes both. Such answers carry no
    /// progress.
    pub json: bool,
    /// Who calls, as long as nobody is authenticated.
    pub principal: String,
    /// Host names that clients may use, besides loopback names on a loopback address. On any other address every
    /// name is taken if this is empty.
    pub allowed_hosts: Vec<String>,
    /// Origins that browsers may call from (`https://app.example.com`), besides loopback ones and our own.
    pub allowed_origins: Vec<String>,
    /// How long an answer may take before the headers are sent without it. Until then a failure keeps its status.
    pub early_headers: Duration,
    /// The interval of keep-alive comments (spaces, in a JSON answer).
    pub keep_alive: Duration,
    /// How long a request's headers may take, its body may take, and a connection may idle between requests.
    pub read_timeout: Duration,
    /// Connections that have sent nothing yet. Beyond, the one that has been silent for longest is closed.
    pub silent_connections: usize,
    /// How long a session lasts in which nothing happens: no request, no open stream, no call.
    pub session_idle: Duration,
    /// How long a session's client that does not read a call's response counts as there after its last request.
    pub silent_after: Duration,
    /// Bytes of ended responses that all sessions together keep for clients that have missed them. Beyond, the
    /// oldest are let go.
    pub kept: usize,
    /// How long connections have to end after a stop.
    pub drain: Duration,
    /// When a silent peer is given up.
    pub tcp: TcpOptions,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            path: "/mcp".to_owned(),
            json: false,
            principal: "anonymous".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            early_headers: Duration::from_millis(50),
            keep_alive: Duration::from_secs(5),
            read_timeout: Duration::from_secs(30),
            silent_connections: 1_000,
            session_idle: Duration::from_secs(30 * 60),
            silent_after: Duration::from_secs(5 * 60),
            kept: 256 * 1024 * 1024,
            drain: Duration::from_secs(1),
            tcp: TcpOptions::default(),
        }
    }
}
