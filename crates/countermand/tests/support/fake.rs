//! An upstream on a raw socket that answers as its script says, and tells what it sees.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

/// What the fake does with a request.
#[derive(Clone)]
pub enum Answer {
    /// Writes this and goes on.
    Bytes(String),
    /// Writes this and closes the connection.
    Then(String),
    /// Writes this, then waits until the peer closes the connection, and says so.
    Hold(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Request(Request),
    PeerClosed,
}

pub struct Fake {
    pub base: String,
    seen: mpsc::UnboundedReceiver<Seen>,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// Answers the requests one after the other as the script says; beyond it, 500.
    pub async fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
        let (tell, seen) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, script.clone(), tell.clone()));
            }
        });
        Self { base, seen, _tasks: tasks }
    }

    pub async fn next(&mut self) -> Seen {
        tokio::time::timeout(Duration::from_secs(10), self.seen.recv())
            .await
            .expect("nothing was seen")
            .unwrap()
    }

    pub async fn request(&mut self) -> Request {
        match self.next().await {
            Seen::Request(request) => request,
            Seen::PeerClosed => panic!("the connection was closed"),
        }
    }

    /// The requests so far.
    pub fn requests(&mut self) -> Vec<Request> {
        let mut all = Vec::new();
        while let Ok(seen) = self.seen.try_recv() {
            if let Seen::Request(request) = seen {
                all.push(request);
            }
        }
        all
    }
}

async fn serve(
    mut stream: TcpStream,
    script: Arc<Mutex<VecDeque<Answer>>>,
    tell: mpsc::UnboundedSender<Seen>,
) {
    while let Some(request) = read(&mut stream).await {
        let _ = tell.send(Seen::Request(request));
        let answer =
            script.lock().unwrap().pop_front().unwrap_or_else(|| answer(500, "", "the script is over"));
        match answer {
            Answer::Bytes(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Answer::Then(text) => return stream.write_all(text.as_bytes()).await.unwrap(),
            Answer::Hold(text) => {
                stream.write_all(text.as_bytes()).await.unwrap();
                let _ = stream.read(&mut [0; 64]).await;
                let _ = tell.send(Seen::PeerClosed);
                return;
            }
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(n, _)| n == "content-length").map_or(0, |(_, v)| v.parse().unwrap());
    while bytes.len() < head + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes[head + 4..head + 4 + length].to_vec()).unwrap();
    Some(Request { line, headers, body })
}

/// An answer with a body; `headers` are whole lines.
pub fn answer(status: u16, headers: &str, body: &str) -> Answer {
    Answer::Bytes(text(status, headers, body))
}

pub fn json(status: u16, body: &str) -> Answer {
    answer(status, "content-type: application/json\r\n", body)
}

pub fn text(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}
