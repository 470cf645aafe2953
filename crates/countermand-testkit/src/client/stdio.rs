//! The raw client over stdin and stdout, of a process or of any pair of streams.

use super::{message, soon};
use serde_json::{Value, json};
use std::io;
use std::process::{ExitStatus, Stdio};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, Lines,
};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// A client over stdin and stdout.
pub struct StdioClient {
    process: Option<Child>,
    input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    output: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    /// Messages that were read while another one was looked for.
    passed: Vec<Value>,
    stderr: watch::Sender<String>,
    stderr_ended: Option<JoinHandle<()>>,
    next_barrier: u64,
    stateless: bool,
}

impl StdioClient {
    /// Starts a server and talks to its stdin and stdout. The process is killed when the client is dropped.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let missing = || io::Error::other("the process has no such pipe");
        let input = process.stdin.take().ok_or_else(missing)?;
        let output = process.stdout.take().ok_or_else(missing)?;
        let mut errors = process.stderr.take().ok_or_else(missing)?;
        let mut client = Self::over(output, input);
        client.process = Some(process);
        let kept = client.stderr.clone();
        client.stderr_ended = Some(TaskTracker::new().spawn(async move {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = errors.read(&mut chunk).await {
                let text = String::from_utf8_lossy(&chunk[..read]);
                kept.send_modify(|kept| kept.push_str(&text));
            }
        }));
        Ok(client)
    }

    /// Talks over a pair of streams: what the server writes, and what it reads.
    pub fn over(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let output: Box<dyn AsyncRead + Send + Unpin> = Box::new(output);
        Self {
            process: None,
            input: Some(Box::new(input)),
            output: BufReader::new(output).lines(),
            passed: Vec::new(),
            stderr: watch::Sender::default(),
            stderr_ended: None,
            next_barrier: 0,
            stateless: false,
        }
    }

    /// Opens the conversation with `initialize`, and returns the server's answer.
    pub async fn initialize(&mut self, revision: &str) -> Value {
        self.send(&message::initialize("initialize", revision)).await;
        let answer = self.response(&json!("initialize")).await;
        self.send(&message::notification("notifications/initialized", json!({}))).await;
        answer
    }

    /// Speaks 2026-07-28 from now on: barriers name the revision themselves.
    pub fn speak_stateless(&mut self) {
        self.stateless = true;
    }

    /// Writes one message.
    pub async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    /// Writes messages in one write.
    pub async fn send_at_once(&mut self, messages: &[Value]) {
        let bytes: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.write(bytes.as_bytes()).await;
    }

    /// Writes bytes. A server that has gone does not mind.
    pub async fn write(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            let written = async {
                input.write_all(bytes).await?;
                input.flush().await
            };
            let _gone = soon("room in the server's stdin", written).await;
        }
    }

    /// The next message, whatever it is; `None` at the end of the output.
    pub async fn next(&mut self) -> Option<Value> {
        if !self.passed.is_empty() {
            return Some(self.passed.remove(0));
        }
        self.read().await
    }

    async fn read(&mut self) -> Option<Value> {
        let line = match tokio::time::timeout(super::PATIENCE, self.output.next_line()).await {
            Ok(line) => line.unwrap_or_default()?,
            Err(_) => panic!("no message came within 10 s; stderr:\n{}", self.stderr()),
        };
        match serde_json::from_str(&line) {
            Ok(message) => Some(message),
            Err(error) => panic!("a line is no JSON ({error}): {line}"),
        }
    }

    /// The next line as it was written; `None` at the end of the output.
    ///
    /// # Panics
    /// Where messages were passed over before: their text is gone.
    pub async fn line(&mut self) -> Option<String> {
        assert!(self.passed.is_empty(), "messages were passed over: {:?}", self.passed);
        soon("a line", self.output.next_line()).await.unwrap_or_default()
    }

    /// The response to this id. What comes before it is kept for [`next`](Self::next) and [`read_to_end`](Self::read_to_end).
    pub async fn response(&mut self, id: &Value) -> Value {
        self.first(&format!("the response to {id}"), |message| {
            message.get("id") == Some(id) && message.get("method").is_none()
        })
        .await
    }

    /// The next progress notification.
    pub async fn progress(&mut self) -> Value {
        self.first("any progress", |message| message["method"] == "notifications/progress").await
    }

    /// The first message that is looked for, of those passed over before and those that come.
    async fn first(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.passed.iter().position(&is_it) {
            return self.passed.remove(at);
        }
        loop {
            match self.read().await {
                Some(message) if is_it(&message) => return message,
                Some(message) => self.passed.push(message),
                None => panic!("the output ended before {what}; stderr:\n{}", self.stderr()),
            }
        }
    }

    /// Sends a request that is answered at once, and waits for the answer: whatever was written before has been read.
    pub async fn barrier(&mut self) {
        self.next_barrier += 1;
        let id = json!(format!("barrier-{}", self.next_barrier));
        let request = if self.stateless {
            message::stateless(message::request(id.clone(), "tools/list", json!({})))
        } else {
            message::request(id.clone(), "ping", json!({}))
        };
        self.send(&request).await;
        self.response(&id).await;
    }

    /// Closes the server's input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Everything up to the end of the output, and what was passed over before. The end is final: nothing comes late.
    pub async fn read_to_end(&mut self) -> Vec<Value> {
        let mut all = std::mem::take(&mut self.passed);
        while let Some(message) = self.read().await {
            all.push(message);
        }
        all
    }

    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(Child::id)
    }

    /// Sends the process SIGTERM.
    pub fn terminate(&self) {
        let pid = self.pid().and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Kills the process, and waits until it is gone.
    pub async fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            let _gone = soon("the end of a killed process", process.kill()).await;
        }
    }

    /// Waits until the process has ended by itself.
    pub async fn exit(&mut self) -> ExitStatus {
        let Some(process) = &mut self.process else { panic!("there is no process to wait for") };
        let ended = tokio::time::timeout(super::PATIENCE * 3, process.wait()).await;
        match ended {
            Ok(Ok(status)) => status,
            _ => panic!("the process did not end within 30 s; stderr:\n{}", self.stderr()),
        }
    }

    /// What the process has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.borrow().clone()
    }

    /// Waits until the process has written a whole line with this text to stderr, and returns the line from there on.
    pub async fn stderr_line(&self, text: &str) -> String {
        let line = |said: &str| {
            let (line, _) = said[said.find(text)?..].split_once('\n')?;
            Some(line.trim().to_owned())
        };
        let mut seen = self.stderr.subscribe();
        let said = soon("a line on stderr", seen.wait_for(|said| line(said).is_some())).await;
        said.ok().and_then(|said| line(&said)).unwrap_or_default()
    }

    /// Waits until the process, and whoever else has its stderr, has closed it; and returns all that was written there.
    pub async fn stderr_to_end(&mut self) -> String {
        if let Some(ended) = self.stderr_ended.take() {
            let _whatever_ended_it = soon("the end of stderr", ended).await;
        }
        self.stderr()
    }
}
