//! A server on a plain socket that says what the test says.

use super::{Connected, introduction, soon};
use countermand_mcp::{Heard, HttpTarget, Peer, PeerOptions, Revision, Target};
use http::HeaderMap;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// A target with a secret in its headers.
pub(crate) fn target(address: SocketAddr) -> HttpTarget {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    HttpTarget {
        url: format!("http://{address}/mcp?key=hush"),
        client: client.tls_certs_only([]).build().unwrap(),
        headers: Arc::new(|| {
            Ok(HeaderMap::from_iter([(http::header::AUTHORIZATION, "Bearer hush".parse().unwrap())]))
        }),
        patience: Duration::from_secs(10),
        idle: None,
    }
}

/// Connects in the background, so that the test can be the server meanwhile.
pub(crate) fn connecting(
    address: SocketAddr,
    prefer: Revision,
    options: PeerOptions,
) -> JoinHandle<Connected> {
    let target = Target::Http(target(address));
    TaskTracker::new().spawn(Peer::connect(target, introduction(prefer), options))
}

/// A request that has been read, and its connection.
pub(crate) struct Got {
    stream: TcpStream,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct Fake {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Fake {
    pub(crate) async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    /// A session of 2025-11-25 whose client listens to nothing else.
    pub(crate) async fn in_session() -> (Self, Peer, mpsc::Receiver<Heard>) {
        let fake = Self::bind().await;
        let connecting = connecting(fake.address, Revision::V2025_11_25, PeerOptions::default());
        let opening = fake.next().await;
        assert_eq!(opening.body["method"], "initialize");
        opening.json_with("Mcp-Session-Id: s-1\r\n", &super::initialized("2025-11-25")).await;
        let initialized = fake.next().await;
        assert_eq!(initialized.body["method"], "notifications/initialized");
        initialized.status("202 Accepted").await;
        let (peer, heard) = soon("a connection", connecting).await.unwrap().unwrap();
        let listening = fake.next().await;
        assert!(listening.head.starts_with("get "));
        listening.status("405 Method Not Allowed").await;
        (fake, peer, heard)
    }

    /// A server of 2026-07-28.
    pub(crate) async fn alone() -> (Self, Peer, mpsc::Receiver<Heard>) {
        let fake = Self::bind().await;
        let connecting = connecting(fake.address, Revision::V2026_07_28, PeerOptions::default());
        let probe = fake.next().await;
        assert_eq!(probe.body["method"], "server/discover");
        probe.json(super::DISCOVERED).await;
        let (peer, heard) = soon("a connection", connecting).await.unwrap().unwrap();
        (fake, peer, heard)
    }

    /// Connections that have arrived, once there is one.
    pub(crate) async fn arrived(&self) -> usize {
        soon("a connection", self.listener.accept()).await.unwrap();
        let mut arrived = 1;
        while self.listener.poll_accept(&mut Context::from_waker(Waker::noop())).is_ready() {
            arrived += 1;
        }
        arrived
    }

    /// The next connection, unread.
    pub(crate) async fn accept(&self) -> Unread {
        Unread(soon("a connection of the client", self.listener.accept()).await.unwrap().0)
    }

    /// The next request. Each comes on a connection of its own: responses close theirs.
    pub(crate) async fn next(&self) -> Got {
        let (mut stream, _) = soon("a connection of the client", self.listener.accept()).await.unwrap();
        let mut bytes = Vec::new();
        let end = loop {
            let read = soon("a request", stream.read_buf(&mut bytes)).await.unwrap();
            assert!(read > 0, "the client has closed its connection");
            if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let length: usize = length.trim().parse().unwrap();
        while bytes.len() < end + length {
            assert!(soon("a body", stream.read_buf(&mut bytes)).await.unwrap() > 0);
        }
        let body = if length == 0 { Value::Null } else { serde_json::from_slice(&bytes[end..]).unwrap() };
        Got { stream, head, body }
    }
}

/// A connection whose request is not read.
pub(crate) struct Unread(TcpStream);

impl Unread {
    /// Reads some of it.
    pub(crate) async fn some(&mut self) {
        assert!(soon("a request", self.0.read(&mut [0; 1024])).await.unwrap() > 0);
    }

    /// Reads to the end: how much that was.
    pub(crate) async fn rest(&mut self) -> usize {
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = soon("the end of a request", self.0.read_to_end(&mut rest)).await;
        rest.len()
    }
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) async fn write(&mut self, text: &str) {
        soon("room for a response", self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    /// A whole response without a body.
    pub(crate) async fn status(self, status: &str) {
        self.whole(status, "", "").await;
    }

    pub(crate) async fn whole(mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.write(&format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    }

    /// The answer with that result.
    pub(crate) async fn json(self, result: &str) {
        self.json_with("", result).await;
    }

    pub(crate) async fn json_with(self, headers: &str, result: &str) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.body["id"]);
        self.whole("200 OK", &format!("Content-Type: application/json\r\n{headers}"), &body).await;
    }

    /// Begins a stream of events that ends with the connection.
    pub(crate) async fn begin(&mut self) {
        self.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n").await;
    }

    /// The result of a request, as an event.
    pub(crate) async fn event(&mut self, id: &Value, result: &str) {
        self.write(&format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n")).await;
    }

    /// Waits until the client has closed its connection.
    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        // A reset closes it as well.
        let _ = soon("the close of a connection", self.stream.read_to_end(&mut rest)).await;
        assert!(rest.is_empty(), "the client said more");
    }
}

/// A wire to a server that can be cut.
pub(crate) struct Between {
    pub(crate) address: SocketAddr,
    cuts: tokio::sync::watch::Sender<()>,
}

impl Between {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = tokio::sync::watch::Sender::new(());
        let (tasks, cutting) = (TaskTracker::new(), cuts.clone());
        let connections = tasks.clone();
        tasks.spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut cut = cutting.subscribe();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = cut.changed() => {}
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        Self { address, cuts }
    }

    /// Closes every connection there is.
    pub(crate) fn cut(&self) {
        self.cuts.send_replace(());
    }
}
