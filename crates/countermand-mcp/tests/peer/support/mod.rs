//! A client under test, and servers whose every word the test says.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod http;

use countermand_mcp::{
    Happened, Heard, Introduction, Lost, Outgoing, Peer, PeerError, PeerOptions, Pending, Revision, RpcError,
    Target,
};
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// No claim waits longer than this for its event.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) type Connected = Result<(Peer, mpsc::Receiver<Heard>), PeerError>;

/// Waits for an event that must come.
pub(crate) async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, event).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// JSON as it stands.
pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub(crate) fn introduction(prefer: Revision) -> Introduction {
    Introduction {
        client_info: raw(r#"{"name":"tester","version":"1.0"}"#),
        capabilities: raw(r#"{"roots":{ },"x":1.0}"#),
        prefer,
    }
}

pub(crate) fn ask(method: &str, params: &[(&str, &str)]) -> Outgoing {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), raw(value))).collect();
    Outgoing { method: method.to_owned(), params, ..Outgoing::default() }
}

/// A call of that tool, with progress.
pub(crate) fn call(tool: &str) -> Outgoing {
    let params = [("name", format!("\"{tool}\"")), ("arguments", r#"{"a" : 1.0}"#.to_owned())];
    let params: Vec<(&str, &str)> = params.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Outgoing { progress: true, ..ask("tools/call", &params) }
}

/// What happens next to a request.
pub(crate) async fn next(pending: &mut Pending) -> Happened {
    soon("something to happen", pending.next()).await
}

/// The result of a request, whatever happens before.
pub(crate) async fn result(pending: &mut Pending) -> String {
    answer(pending).await.expect("a result").get().to_owned()
}

pub(crate) async fn answer(pending: &mut Pending) -> Result<Box<RawValue>, RpcError> {
    loop {
        match next(pending).await {
            Happened::Answered(answer) => return answer,
            Happened::Lost(lost) => panic!("lost: {lost}"),
            _ => {}
        }
    }
}

/// How a request is lost, whatever happens before.
pub(crate) async fn lost(pending: &mut Pending) -> Lost {
    loop {
        match next(pending).await {
            Happened::Lost(lost) => return lost,
            Happened::Answered(answer) => panic!("answered: {answer:?}"),
            _ => {}
        }
    }
}

/// A server on a pair of streams that says what the test says.
pub(crate) struct Fake {
    pub(crate) input: BufReader<DuplexStream>,
    pub(crate) output: Option<DuplexStream>,
}

pub(crate) fn fake() -> (Fake, Target) {
    let (write, input) = tokio::io::duplex(1024 * 1024);
    let (output, read) = tokio::io::duplex(1024 * 1024);
    let fake = Fake { input: BufReader::new(input), output: Some(output) };
    (fake, Target::Streams { read: Box::new(read), write: Box::new(write) })
}

/// Connects in the background, so that the test can be the server meanwhile.
pub(crate) fn connecting(target: Target, prefer: Revision, options: PeerOptions) -> JoinHandle<Connected> {
    TaskTracker::new().spawn(Peer::connect(target, introduction(prefer), options))
}

impl Fake {
    /// A server of 2025-11-25, and its client.
    pub(crate) async fn connected() -> (Self, Peer, mpsc::Receiver<Heard>) {
        let (mut fake, target) = fake();
        let connecting = connecting(target, Revision::V2025_11_25, PeerOptions::default());
        fake.initialize("2025-11-25").await;
        let (peer, heard) = soon("a connection", connecting).await.unwrap().unwrap();
        (fake, peer, heard)
    }

    /// A server of 2026-07-28, and its client.
    pub(crate) async fn discovered() -> (Self, Peer, mpsc::Receiver<Heard>) {
        let (mut fake, target) = fake();
        let connecting = connecting(target, Revision::V2026_07_28, PeerOptions::default());
        let asked = fake.read().await;
        assert_eq!(asked["method"], "server/discover");
        fake.answer(&asked, DISCOVERED).await;
        let (peer, heard) = soon("a connection", connecting).await.unwrap().unwrap();
        (fake, peer, heard)
    }

    /// Answers `initialize` with that revision, and hears the client say that it is done.
    pub(crate) async fn initialize(&mut self, version: &str) -> Value {
        let asked = self.read().await;
        assert_eq!(asked["method"], "initialize");
        self.answer(&asked, &initialized(version)).await;
        assert_eq!(self.read().await["method"], "notifications/initialized");
        asked
    }

    /// The next message, as it was written.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = soon("a line of the client", self.input.read_line(&mut line)).await.unwrap();
        (read > 0).then_some(line)
    }

    pub(crate) async fn read(&mut self) -> Value {
        let line = self.line().await.expect("the client is there");
        serde_json::from_str(&line).expect("one message a line")
    }

    /// All that the client still says, to the end.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut said = Vec::new();
        while let Some(line) = self.line().await {
            said.push(serde_json::from_str(&line).expect("one message a line"));
        }
        said
    }

    pub(crate) async fn say(&mut self, line: &str) {
        let output = self.output.as_mut().expect("the output is open");
        soon("room for a line", output.write_all(format!("{line}\n").as_bytes())).await.unwrap();
    }

    /// Answers a request with that result.
    pub(crate) async fn answer(&mut self, request: &Value, result: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"])).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, error: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, request["id"])).await;
    }
}

pub(crate) const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{ }},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake"}},"own":1.0}"#;

pub(crate) fn initialized(version: &str) -> String {
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{ }}}},"serverInfo":{{"name":"fake"}},"instructions":"Ask.","own":1.0}}"#
    )
}
