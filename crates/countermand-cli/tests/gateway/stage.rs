//! A fake upstream, a config, gateways on it, and callers over either transport.

use countermand_testkit::{
    client::{Exchange, HttpClient, StdioClient, message},
    fake::{Books, FakeUpstream, connections_open},
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_countermand");

/// One fake upstream and one config, in a directory of their own.
pub struct Stage {
    pub fake: FakeUpstream,
    pub dir: tempfile::TempDir,
}

/// The tools of the stage: what the design's example has, with bounds short enough to be waited for.
const CONFIG: &str = r#"
server: { name: stage }
ledger: sqlite:LEDGER
upstreams:
  reports: { http: { base_url: "BASE", connect_timeout: 2s, read_timeout: 20s, max_bytes: 1MiB } }
tools:
  run_report:
    description: Builds a report.
    input: &input
      type: object
      properties: { tag: { type: string }, secs: { type: number } }
      required: [tag]
    upstream: reports
    job: &job
      create:
        request: POST /jobs
        headers: { Idempotency-Key: "${op.key}" }
        query: { tag: "${args.tag}" }
        body: { secs: "${args.secs}" }
        id: $.id
        shield: SHIELD
        horizon: HORIZON
      status: &status
        request: "GET /jobs/${op.id}"
        every: 100ms
        state: $.status
        running: [queued, running, cancelling]
        succeeded: [done]
        failed: [failed]
        cancelled: [cancelled]
        progress: $.percent
        error: $.message
      result: { request: "GET /jobs/${op.id}/result" }
      cancel: { request: "DELETE /jobs/${op.id}", confirm_within: 3s, force: { request: "POST /jobs/${op.id}/force", after: 30s } }
      find: { request: GET /jobs, query: { key: "${op.key}" }, id: "$.jobs[0].id" }
      key_window: 24h
      lifetime: 2h
    timeout: 10m
  with_undo:
    input: *input
    upstream: reports
    job: *job
    compensate: [ { request: DELETE /rows, query: { tag: "${args.tag}" } } ]
  quick_timeout:
    input: *input
    upstream: reports
    job: *job
    timeout: 1s
  short_life:
    input: *input
    upstream: reports
    job:
      create: { request: POST /jobs, headers: { Idempotency-Key: "${op.key}" }, query: { tag: "${args.tag}" }, id: $.id }
      status: *status
      cancel: { request: "DELETE /jobs/${op.id}" }
      key_window: 24h
      lifetime: 1s
  detached:
    input: *input
    upstream: reports
    job: *job
    on_disconnect: detach
  keyless:
    input: *input
    upstream: reports
    job:
      create: { request: POST /jobs, query: { tag: "${args.tag}" }, id: $.id, shield: SHIELD, horizon: HORIZON }
      status: *status
      cancel: { request: "DELETE /jobs/${op.id}", confirm_within: 2s }
      lost_id: accept
      lifetime: 1h
  no_cancel:
    input: *input
    upstream: reports
    job:
      create: { request: POST /jobs, headers: { Idempotency-Key: "${op.key}" }, query: { tag: "${args.tag}" }, body: { secs: "${args.secs}" }, id: $.id }
      status: *status
      cancel: { unsupported: "this API has no cancel" }
      key_window: 24h
      lifetime: 4s
    mark: { request: "PUT /exports/${op.id}/label", body: { orphaned: true } }
  search:
    input: *input
    upstream: reports
    http: { request: GET /slow, query: { tag: "${args.tag}" } }
  quick:
    input: *input
    upstream: reports
    http: { request: GET /quick, query: { tag: "${args.tag}" } }
  order:
    input: *input
    upstream: reports
    http:
      request: POST /orders
      effect: once
      query: { tag: "${args.tag}" }
      headers: { Idempotency-Key: "${op.key}" }
      body: { tag: "${args.tag}" }
      key_window: 1h
      shield: SHIELD
      horizon: HORIZON
"#;

/// Times that a test may choose.
pub struct Times {
    pub shield: &'static str,
    pub horizon: &'static str,
}

impl Default for Times {
    fn default() -> Self {
        Self { shield: "5s", horizon: "1s" }
    }
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(Times::default()).await
    }

    pub async fn with(times: Times) -> Self {
        Self::with_config(times, |config| config).await
    }

    /// A stage for a test in which the gateway dies: in a session too the client that is gone by then has cancelled, as
    /// elsewhere, and no grace is waited for.
    pub async fn without_grace(door: Door, times: Times) -> Self {
        Self::with_config(times, |config| match door {
            Door::Session => config.replace("tools:\n", "defaults: { on_disconnect: cancel }\ntools:\n"),
            Door::Stdio | Door::Http => config,
        })
        .await
    }

    /// A stage whose config is changed, or added to, at its end: `tools` comes last.
    pub async fn with_config(times: Times, edit: impl FnOnce(String) -> String) -> Self {
        countermand_runs();
        let fake = FakeUpstream::start().await;
        let dir = tempfile::tempdir().unwrap();
        let config = CONFIG
            .replace("BASE", &fake.base_url())
            .replace("LEDGER", &dir.path().join("ledger.db").display().to_string())
            .replace("SHIELD", times.shield)
            .replace("HORIZON", times.horizon);
        let config = edit(config);
        std::fs::write(dir.path().join("config.yaml"), config).unwrap();
        Self { fake, dir }
    }

    /// A stage with more upstreams and tools, as YAML that is indented by two. `FAKE` is the fake's URL, `*input` the
    /// schema of the arguments.
    pub async fn with_more(upstreams: &str, tools: &str) -> Self {
        Self::with_config(Times::default(), |config| {
            let (_, after) = config.split_once("base_url: \"").unwrap();
            let (fake, _) = after.split_once('"').unwrap();
            config.replace("tools:\n", &format!("{}tools:\n", upstreams.replace("FAKE", fake))) + tools
        })
        .await
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    pub fn ledger_file(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }

    /// `countermand …`, in the stage's directory.
    pub fn command(&self, args: &[&str]) -> Command {
        command(self.dir.path(), args)
    }

    /// `countermand ARGS -c CONFIG`: stdout, and whether it succeeded.
    pub async fn run(&self, args: &[&str]) -> (String, bool) {
        let mut command = self.command(args);
        let output = command.arg("-c").arg(self.config()).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        (text + &errors, output.status.success())
    }

    /// A gateway on stdio, initialized.
    pub async fn stdio(&self) -> StdioClient {
        let mut client = self.stdio_raw();
        client.initialize("2025-11-25").await;
        client
    }

    /// A gateway on stdio, nothing said yet.
    pub fn stdio_raw(&self) -> StdioClient {
        let mut command = self.command(&["serve"]);
        command.arg("-c").arg(self.config());
        StdioClient::spawn(command).unwrap()
    }

    /// A gateway on HTTP.
    pub async fn http(&self) -> Gateway {
        let mut command = self.command(&["serve", "--http", "127.0.0.1:0"]);
        command.arg("-c").arg(self.config());
        Gateway::start(command).await
    }

    /// Changes the config before a gateway reads it.
    pub fn configure(&self, change: impl FnOnce(String) -> String) {
        let config = std::fs::read_to_string(self.config()).unwrap();
        std::fs::write(self.config(), change(config)).unwrap();
    }

    /// `countermand serve -c CONFIG MORE…`, to be started by the test.
    pub fn serve(&self, more: &[&str]) -> Command {
        let mut command = self.command(&["serve"]);
        command.arg("-c").arg(self.config()).args(more);
        command
    }

    /// `countermand ARGS -c CONFIG`, whole: the exit code, stdout and stderr.
    pub async fn outcome(&self, args: &[&str]) -> Outcome {
        let mut command = self.command(args);
        command.arg("-c").arg(self.config());
        Outcome::of(command).await
    }

    /// The operations, newest first.
    pub async fn operations(&self) -> Vec<Value> {
        let mut command = self.command(&["ops", "list", "--json"]);
        let output = command.arg("-c").arg(self.config()).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the ledger's rows fit.
    pub async fn operations_when(&self, what: &str, fit: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut last = Vec::new();
        let waited = async {
            loop {
                last = self.operations().await;
                if fit(&last) {
                    return;
                }
                // The ledger has no events for other processes: it is read again.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(30), waited).await.is_err() {
            panic!("the ledger never showed {what}: {last:#?}");
        }
        last
    }

    /// Ends a caller's gateway in good order. Nothing may have been sent for the `cancelled` ids, nobody is connected to the
    /// upstream any more, and the books agree. Returns what was left unread.
    pub async fn finish(&self, caller: Caller, cancelled: &[u64]) -> Vec<Value> {
        let rest = caller.rest().await;
        for message in &rest {
            assert!(
                !cancelled.iter().any(|id| message["id"] == json!(id)),
                "an answer to a cancelled call: {message}"
            );
        }
        self.fake.wait(|events| connections_open(events) == 0).await;
        self.agree().await;
        rest
    }

    /// Waits until the one operation is in this phase.
    pub async fn phase(&self, phase: &str) -> Value {
        let mut rows = self.operations_when(phase, |rows| rows.len() == 1 && rows[0]["phase"] == phase).await;
        rows.remove(0)
    }

    /// Waits until every operation is settled, and there are `n` of them.
    pub async fn settled(&self, n: usize) -> Vec<Value> {
        self.operations_when(&format!("{n} settled rows"), |rows| {
            rows.len() == n && rows.iter().all(|row| row["settled"] == true)
        })
        .await
    }

    /// The books of upstream and ledger agree: every job is a row, every live job an unsettled one, and what the ledger calls
    /// cancelled or completed is so upstream.
    pub async fn agree(&self) -> Books {
        self.agree_with(&self.fake).await
    }

    /// The same, of the ledger and this upstream.
    pub async fn agree_with(&self, fake: &FakeUpstream) -> Books {
        let books = fake.books();
        let rows = self.operations().await;
        assert_eq!(
            books.created,
            books.completed + books.failed + books.cancelled + books.live,
            "the fake's own books: {books:?}"
        );
        for job in fake.jobs() {
            let of =
                rows.iter().find(|row| row["upstream_id"] == job.id.as_str() || row["key"] == json!(job.key));
            // A job without a key whose id was lost: all that can be had is an orphan that says so.
            let lost = |row: &&Value| {
                job.key.is_none() && row["upstream_id"].is_null() && row["phase"] == "orphaned"
            };
            let row = of
                .or_else(|| rows.iter().find(lost))
                .unwrap_or_else(|| panic!("{job:?} is in no row: {rows:#?}"));
            let state = serde_json::to_value(job.state).unwrap();
            match state.as_str().unwrap() {
                "done" | "failed" => {}
                "cancelled" => assert!(row["phase"] != "completed", "{row:#}"),
                _ => assert_eq!(row["settled"], false, "a live job needs an unsettled row: {row:#}"),
            }
            if row["phase"] == "cancelled" {
                assert_eq!(state, "cancelled", "the ledger says so: {row:#}");
            }
        }
        let mut keys: Vec<_> = fake.jobs().into_iter().filter_map(|job| job.key).collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all, "two jobs for one key");
        books
    }
}

/// A fresh checkout has the binary: cargo builds it for us.
fn countermand_runs() {
    assert!(Path::new(BINARY).exists(), "{BINARY} is missing");
}

/// `countermand …` in a directory.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).current_dir(dir).env("COUNTERMAND_LOG", "debug").kill_on_drop(true);
    command
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// Runs a command to its end. Its stdin is empty.
    pub async fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        let ended = tokio::time::timeout(Duration::from_secs(20), command.output()).await;
        let output = ended.unwrap_or_else(|_| panic!("{command:?} did not end")).unwrap();
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code, and shows what was said where it is another.
    #[track_caller]
    pub fn exited(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }
}

/// A gateway process with an HTTP listener.
pub struct Gateway {
    pub process: Child,
    pub url: String,
    pub client: HttpClient,
    logs: Arc<Mutex<String>>,
    logs_ended: tokio::task::JoinHandle<()>,
}

impl Gateway {
    /// Starts one, and waits until it says where it listens.
    pub async fn start(mut command: Command) -> Self {
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let url = loop {
            let line = lines.next_line().await.unwrap();
            let Some(line) = line else { panic!("the gateway ended: {said}") };
            said.push_str(&line);
            said.push('\n');
            if let Some(at) = line.find("http://") {
                break line[at..].trim().to_owned();
            }
        };
        // Whatever else it says must not fill the pipe.
        let logs = Arc::new(Mutex::new(said));
        let kept = logs.clone();
        let logs_ended = tokio_util::task::TaskTracker::new().spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                *kept.lock().unwrap() += &format!("{line}\n");
                if std::env::var_os("SHOW_LOGS").is_some() {
                    println!("{line}");
                }
            }
        });
        let client = HttpClient::new(&url);
        Self { process, url, client, logs, logs_ended }
    }

    /// What it has written to stderr so far.
    pub fn logs(&self) -> String {
        self.logs.lock().unwrap().clone()
    }

    /// Waits until the process has ended by itself: how, and all that it wrote to stderr.
    pub async fn exit(&mut self) -> (std::process::ExitStatus, String) {
        let ended = async {
            let status = self.process.wait().await.unwrap();
            (&mut self.logs_ended).await.unwrap();
            status
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        let status = ended.unwrap_or_else(|_| panic!("the gateway did not end: {}", self.logs()));
        (status, self.logs())
    }

    /// Kills the process, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }

    pub fn terminate(&self) {
        signal(self.process.id(), "TERM");
    }
}

/// Sends a process a signal, by its id.
pub fn signal(pid: Option<u32>, name: &str) {
    let pid = pid.expect("the process runs").to_string();
    let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
    assert!(sent.success());
}

/// Which way a test's calls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Stdio,
    /// HTTP of 2026-07-28.
    Http,
    /// HTTP in a session of 2025-11-25.
    Session,
}

/// A client of a gateway. Over HTTP of 2026 the cancel is the close of the response stream; elsewhere a notification.
pub enum Caller {
    Stdio(Box<StdioClient>),
    Http(Box<Gateway>),
    Session(Box<Gateway>, Session),
}

/// A session that was begun.
#[derive(Debug, Clone)]
pub struct Session {
    pub client: HttpClient,
    pub id: String,
    pub revision: &'static str,
}

impl Session {
    /// Begins one.
    pub async fn open(client: &HttpClient, revision: &'static str) -> Self {
        let hello = message::request(
            "initialize",
            "initialize",
            json!({
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": { "name": "raw", "version": "1" },
            }),
        );
        let mut exchange = client.post(&[], hello.to_string().as_bytes()).await;
        let head = exchange.head().await;
        let answer = exchange.response().await;
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        let id = head.header("mcp-session-id").expect("a session id").to_owned();
        let session = Self { client: client.clone(), id, revision };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.send(&initialized).await.head().await.status, 202);
        session
    }

    /// Sends a message of the session.
    pub async fn send(&self, message: &Value) -> Exchange {
        self.client.in_session(Some(&self.id), self.revision, message).await
    }

    /// Cancels a call.
    pub async fn cancel(&self, id: &Value, reason: Option<&str>) {
        let head = self.send(&message::cancelled(id.clone(), reason)).await.head().await;
        assert_eq!(head.status, 202);
    }

    /// GET: with a last event, the rest of that response.
    pub async fn get(&self, last: Option<&str>) -> Exchange {
        let mut headers = vec![("MCP-Protocol-Version", self.revision), ("Mcp-Session-Id", self.id.as_str())];
        headers.extend(last.map(|last| ("Last-Event-ID", last)));
        self.client.bodiless("GET", &headers).await
    }

    /// DELETE: ends the session.
    pub async fn delete(&self) {
        let headers = [("MCP-Protocol-Version", self.revision), ("Mcp-Session-Id", self.id.as_str())];
        let head = self.client.bodiless("DELETE", &headers).await.head().await;
        assert_eq!(head.status, 204);
    }

    /// Everything written so far has been read.
    pub async fn barrier(&self) {
        self.send(&message::request("barrier", "ping", json!({}))).await.response().await;
    }
}

/// A call in flight.
pub struct Pending {
    id: Value,
    exchange: Option<Exchange>,
}

impl Caller {
    pub async fn at(door: Door, stage: &Stage) -> Self {
        match door {
            Door::Stdio => Self::Stdio(Box::new(stage.stdio().await)),
            Door::Http => Self::Http(Box::new(stage.http().await)),
            Door::Session => {
                let gateway = stage.http().await;
                let session = Session::open(&gateway.client, "2025-11-25").await;
                Self::Session(Box::new(gateway), session)
            }
        }
    }

    /// What the ledger calls a cancel of this transport's client.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Stdio(_) | Self::Session(..) => "client_cancelled",
            Self::Http(_) => "client_disconnected",
        }
    }

    pub async fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Pending {
        self.send(message::call(id, tool, arguments)).await
    }

    /// Calls, and waits until the client has been told of the operation that its call is part of.
    pub async fn call_of(&mut self, id: u64, tool: &str, arguments: Value) -> Pending {
        let mut pending = self.send(message::call_with_progress(id, tool, arguments, id)).await;
        loop {
            let told = match (&mut *self, &mut pending.exchange) {
                (Self::Stdio(client), _) => client.progress().await,
                (_, Some(exchange)) => exchange.progress().await,
                (_, None) => panic!("the call was closed"),
            };
            // On one pair of streams that of other calls comes too.
            if told["params"]["progressToken"] == json!(id) {
                return pending;
            }
        }
    }

    pub async fn cancel(&mut self, pending: Pending) {
        match self {
            Self::Stdio(client) => client.send(&message::cancelled(pending.id, Some("enough"))).await,
            Self::Http(_) => drop(pending.exchange),
            Self::Session(_, session) => session.cancel(&pending.id, Some("enough")).await,
        }
    }

    /// Sends a call as it is.
    pub async fn send(&mut self, call: Value) -> Pending {
        let exchange = match self {
            Self::Stdio(client) => {
                client.send(&call).await;
                None
            }
            Self::Http(gateway) => Some(gateway.client.request(&call).await),
            Self::Session(_, session) => Some(session.send(&call).await),
        };
        Pending { id: call["id"].clone(), exchange }
    }

    /// Cancels a call and goes on listening where that can be done: over HTTP of 2026 the sending side alone is closed,
    /// which is the same to a server, and the rest is read to its end. It must hold no answer.
    pub async fn cancel_and_listen(&mut self, pending: Pending) {
        let Pending { id, exchange } = pending;
        if let Some(mut exchange) = exchange {
            if let Self::Session(_, session) = self {
                session.cancel(&id, Some("enough")).await;
            }
            exchange.half_close().await;
            let rest = String::from_utf8_lossy(&exchange.read_to_end().await).into_owned();
            assert!(
                !rest.contains("\"result\"") && !rest.contains("\"error\""),
                "an answer after the cancel: {rest}"
            );
        } else {
            self.cancel(Pending { id, exchange }).await;
        }
    }

    /// All messages of a call up to its response, which is the last.
    pub async fn messages(&mut self, pending: &mut Pending) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let message = match (&mut *self, &mut pending.exchange) {
                (Self::Stdio(client), _) => client.next().await,
                (_, Some(exchange)) => exchange.message().await,
                (_, None) => panic!("the call was closed"),
            };
            let message = message.unwrap_or_else(|| panic!("it ended without an answer: {all:#?}"));
            let is_the_answer = message["id"] == pending.id && message.get("method").is_none();
            all.push(message);
            if is_the_answer {
                return all;
            }
        }
    }

    /// The next call works.
    pub async fn works(&mut self) {
        let mut pending = self.call(888_888, "quick", json!({ "tag": "next" })).await;
        let result = self.answer(&mut pending).await;
        assert_eq!(result["structuredContent"], json!({ "quick": true, "tag": "next" }));
    }

    /// How many descriptors the gateway has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Ends the gateway in good order: whatever it has not said by then, it never will. What was not read is returned;
    /// over HTTP that is nothing.
    pub async fn rest(self) -> Vec<Value> {
        match self {
            Self::Stdio(mut client) => {
                client.close_input();
                let rest = client.read_to_end().await;
                assert!(client.exit().await.success());
                rest
            }
            Self::Http(mut gateway) | Self::Session(mut gateway, _) => {
                gateway.terminate();
                let ended = tokio::time::timeout(Duration::from_secs(30), gateway.process.wait()).await;
                assert!(ended.expect("the gateway ends within its grace").unwrap().success());
                Vec::new()
            }
        }
    }

    /// The result of a call.
    pub async fn answer(&mut self, pending: &mut Pending) -> Value {
        let message = match (self, &mut pending.exchange) {
            (Self::Stdio(client), _) => client.response(&pending.id).await,
            (_, Some(exchange)) => exchange.response().await,
            (_, None) => panic!("the call was closed"),
        };
        assert_eq!(message["id"], pending.id);
        message["result"].clone()
    }

    /// Everything written so far has been read, and is answered.
    pub async fn barrier(&mut self) {
        match self {
            Self::Stdio(client) => client.barrier().await,
            Self::Http(gateway) => gateway.client.barrier().await,
            Self::Session(_, session) => session.barrier().await,
        }
    }

    /// Asks the gateway what it says of this caller's operations.
    pub async fn status(&mut self) -> Value {
        let mut pending = self.call(999_999, "cancellation_status", json!({})).await;
        self.answer(&mut pending).await["structuredContent"].clone()
    }

    /// Asks the gateway what it says of one operation.
    pub async fn status_of(&mut self, id: &Value) -> Value {
        let mut pending = self.call(999_998, "cancellation_status", json!({ "operation": id })).await;
        self.answer(&mut pending).await["structuredContent"].clone()
    }

    /// What the gateway has written to stderr so far.
    pub fn logs(&self) -> String {
        match self {
            Self::Stdio(client) => client.stderr(),
            Self::Http(gateway) | Self::Session(gateway, _) => gateway.logs(),
        }
    }

    /// The gateway's process.
    pub fn pid(&self) -> u32 {
        let pid = match self {
            Self::Stdio(client) => client.pid(),
            Self::Http(gateway) | Self::Session(gateway, _) => gateway.process.id(),
        };
        pid.expect("the gateway runs")
    }

    /// Kills the gateway, as a crash would.
    pub async fn kill(&mut self) {
        match self {
            Self::Stdio(client) => client.kill().await,
            Self::Http(gateway) | Self::Session(gateway, _) => gateway.kill().await,
        }
    }

    /// Waits until the gateway's process has ended, however it did.
    pub async fn died(&mut self) -> std::process::ExitStatus {
        match self {
            Self::Stdio(client) => client.exit().await,
            Self::Http(gateway) | Self::Session(gateway, _) => gateway.process.wait().await.unwrap(),
        }
    }

    /// Waits until the gateway has ended by itself, with 0: all that it wrote to stderr.
    pub async fn ended(&mut self) -> String {
        let (status, said) = match self {
            Self::Stdio(client) => (client.exit().await, client.stderr_to_end().await),
            Self::Http(gateway) | Self::Session(gateway, _) => gateway.exit().await,
        };
        assert_eq!(status.code(), Some(0), "{said}");
        said
    }

    /// Ends the client in good order, and asserts that nothing was ever sent for these ids.
    pub async fn nothing_was_sent_for(self, ids: &[u64]) {
        if let Self::Stdio(mut client) = self {
            client.close_input();
            let rest = client.read_to_end().await;
            for message in rest {
                assert!(
                    !ids.iter().any(|id| message["id"] == json!(id)),
                    "an answer to a cancelled call: {message}"
                );
                assert!(message["method"] != "notifications/progress", "progress after a cancel: {message}");
            }
            assert!(client.exit().await.success());
        }
    }
}

/// The same test over every transport and kind of session.
#[macro_export]
macro_rules! over_all {
    ($(#[doc = $doc:literal])* async fn $name:ident($door:ident) $body:block) => {
        mod $name {
            use super::*;

            async fn run($door: Door) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn over_stdio() {
                run(Door::Stdio).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn over_http() {
                run(Door::Http).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_a_session() {
                run(Door::Session).await;
            }
        }
    };
}
