//! The processes of the demo: the slow job API, the gateway, and clients of it.

use super::programs::TOOL;
use anyhow::{Context as _, Result, bail};
use countermand_testkit::{
    client::{HttpClient, StdioClient},
    fake::FakeControl,
};
use std::{path::PathBuf, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdin, Command},
};

/// How long anything in the demo may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(10);

const CONFIG: &str = r#"server:
  name: reports
  instructions: run_report starts a slow job upstream. Cancel it at any time.
ledger: sqlite:LEDGER
upstreams:
  reports: { http: BASE }
tools:
  run_report:
    description: Builds a report and returns its rows. Slow. `secs` is how long it takes.
    input:
      type: object
      properties: { tag: { type: string }, secs: { type: number } }
      required: [tag]
    upstream: reports
    job:
      create:
        request: POST /jobs
        headers: { Idempotency-Key: "${op.key}" }
        query: { tag: "${args.tag}" }
        body: { secs: "${args.secs}" }
        id: $.id
      status:
        request: "GET /jobs/${op.id}"
        every: 200ms
        state: $.status
        running: [queued, running, cancelling]
        succeeded: [done]
        failed: [failed]
        cancelled: [cancelled]
        progress: $.percent
        error: $.message
      result: { request: "GET /jobs/${op.id}/result" }
      cancel: { request: "DELETE /jobs/${op.id}" }
      find: { request: GET /jobs, query: { key: "${op.key}" }, id: "$.jobs[0].id" }
      key_window: 24h
      lifetime: 2h
    compensate:
      - request: DELETE /rows
        query: { tag: "${args.tag}" }
"#;

/// Everything that runs while the demo does. Dropping it ends every process that it started.
pub(super) struct Theatre {
    pub(super) upstream: FakeControl,
    pub(super) client: StdioClient,
    pub(super) url: String,
    /// Its end is what ends the upstream.
    _upstream_input: ChildStdin,
    upstream_process: Child,
    dir: tempfile::TempDir,
    next_id: u64,
}

impl Theatre {
    /// Starts the upstream and the gateway.
    pub(super) async fn open() -> Result<Self> {
        let mut upstream_process = us(&["demo-upstream"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the slow job API")?;
        let input = upstream_process.stdin.take().context("it has a stdin")?;
        let output = upstream_process.stdout.take().context("it has a stdout")?;
        let line = tokio::time::timeout(PATIENCE, BufReader::new(output).lines().next_line()).await??;
        let said: serde_json::Value = serde_json::from_str(&line.context("the slow job API did not start")?)?;
        let base = said["listening"].as_str().context("it says where it listens")?.to_owned();
        let upstream = FakeControl::connect(&base).await?;

        let dir = tempfile::tempdir().context("failed to make a directory for the demo's ledger")?;
        let ledger = dir.path().join("countermand.db");
        let config =
            format!("{CONFIG}{TOOL}").replace("BASE", &base).replace("LEDGER", &ledger.display().to_string());
        std::fs::write(dir.path().join("demo.yaml"), config).context("failed to write the demo's config")?;
        let (client, url) = gateway(&dir.path().join("demo.yaml")).await?;
        Ok(Self { upstream, client, url, _upstream_input: input, upstream_process, dir, next_id: 0 })
    }

    /// A fresh request id.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The HTTP side of the same gateway.
    pub(super) fn http(&self) -> HttpClient {
        HttpClient::new(&self.url)
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("demo.yaml")
    }

    /// Kills the gateway, as a crash would.
    pub(super) async fn kill_gateway(&mut self) {
        self.client.kill().await;
    }

    /// Starts it again on the same ledger.
    pub(super) async fn restart_gateway(&mut self) -> Result<()> {
        (self.client, self.url) = gateway(&self.config()).await?;
        Ok(())
    }

    /// Says how to connect, and waits to be interrupted.
    pub(super) async fn stay(&mut self) -> Result<()> {
        let us = std::env::current_exe()?;
        let (us, config) = (us.display(), self.config());
        crate::print(format_args!(
            "\nThe gateway stays up until Ctrl-C:\n\
             \n  MCP over HTTP   {url}\n  Inspector       npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list\n\
             \n  Claude Code     claude mcp add --transport http reports {url}\n  What it did     {us} ops list -c {config}\n  \
             What it promises {us} check -c {config}\n",
            url = self.url,
            config = config.display(),
        ))?;
        Ok(tokio::signal::ctrl_c().await?)
    }

    /// Ends the gateway in good order, then the upstream.
    pub(super) async fn close(mut self) {
        self.client.close_input();
        let _bounded = tokio::time::timeout(PATIENCE, self.client.exit()).await;
        drop(self._upstream_input);
        let _bounded = tokio::time::timeout(PATIENCE, self.upstream_process.wait()).await;
    }
}

/// This binary, with these arguments.
fn us(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "countermand".into()));
    command.args(args).kill_on_drop(true);
    command
}

/// A gateway on stdio and HTTP, initialized, and where its HTTP side listens.
async fn gateway(config: &std::path::Path) -> Result<(StdioClient, String)> {
    let mut command = us(&["--log", "info", "serve", "--stdio", "--http", "127.0.0.1:0"]);
    command.arg("-c").arg(config);
    let mut client = StdioClient::spawn(command).context("failed to start the gateway")?;
    client.initialize("2025-11-25").await;
    match tokio::time::timeout(PATIENCE, client.stderr_line("http://")).await {
        Ok(url) => Ok((client, url)),
        Err(_) => bail!("the gateway does not say where it listens:\n{}", client.stderr()),
    }
}
