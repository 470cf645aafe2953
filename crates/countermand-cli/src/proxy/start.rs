//! From the config to a connection: starts the program of a server, or reaches for its address.

use crate::config::{McpServer, McpTarget};
use countermand::{
    core::row::hash_json,
    definition::Value,
    process::{Control, Exit, Inherit, Output, Runner, Spawn, Stdin, Stop},
    secret::Secrets,
};
use countermand_mcp::{Heard, HttpTarget, Introduction, Peer, PeerError, PeerOptions, Revision, Target};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

/// How long an HTTP server may take to acknowledge what is no request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may go on once its input is closed.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// How long a program whose output has ended may take to end itself, so that it can be said how.
const EXIT_WITHIN: Duration = Duration::from_millis(500);

/// What servers are started with.
pub(super) struct Tools {
    /// Starts programs; there is one where there are servers.
    runner: Option<Runner>,
    /// What the names of all programs begin with that are started here: the next start finds by it what we have left.
    family: String,
    pub(super) secrets: Secrets,
    pub(super) http: reqwest::Client,
    /// Whatever outlives a request.
    pub(super) tasks: TaskTracker,
}

impl Tools {
    /// `home` is where the ledger is: whoever holds it has no other's programs to mind.
    pub(super) fn new(runner: Option<Runner>, home: &Path) -> anyhow::Result<Self> {
        let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
        let hash = hash_json(&home.to_string_lossy().into_owned().into());
        let family = format!("server-{}-", &hash[..16]);
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { runner, family, secrets: Secrets::new(), http, tasks: TaskTracker::new() })
    }
}

impl Tools {
    /// Ends the programs that an earlier process of ours has left when it was killed. Theirs died with it, or saw the end
    /// of their input; what they had started may not have noticed.
    pub(super) async fn sweep(&self) {
        let Some(runner) = &self.runner else { return };
        let left = match runner.names(&self.family).await {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!("failed to look for what an earlier process has left: {error}");
                return;
            }
        };
        for name in left {
            tracing::warn!(name, "a program of an MCP server that an earlier process has left is ended");
            runner.adopt(&name, None, None, Stop { grace: GRACE, ..Stop::default() });
        }
    }
}

/// A server that has introduced itself.
pub(super) struct Started {
    pub(super) peer: Peer,
    pub(super) heard: mpsc::Receiver<Heard>,
    /// Its program, where we have started one.
    pub(super) program: Option<Control>,
}

/// Starts a server, and introduces its client.
///
/// # Errors
/// Why not, in words for a caller.
pub(super) async fn start(
    server: &McpServer,
    introduction: Introduction,
    tools: &Tools,
) -> Result<Started, String> {
    // Some older servers end when they are asked for what only 2026-07-28 has. Then they are started once more.
    let older = introduction
        .prefer
        .is_stateless()
        .then(|| Introduction { prefer: Revision::NEWEST_WITH_INITIALIZE, ..introduction.clone() });
    match (once(server, introduction, tools).await, older) {
        (Err(Failed { ended_at_probe: true, .. }), Some(older)) => {
            once(server, older, tools).await.map_err(|failed| failed.why)
        }
        (started, _) => started.map_err(|failed| failed.why),
    }
}

/// Why a server could not be started.
struct Failed {
    why: String,
    /// It ended when it was asked which revisions it speaks.
    ended_at_probe: bool,
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self { why, ended_at_probe: false }
    }
}

impl From<PeerError> for Failed {
    fn from(error: PeerError) -> Self {
        Self { why: error.to_string(), ended_at_probe: error.is_end_at_probe() }
    }
}

async fn once(server: &McpServer, introduction: Introduction, tools: &Tools) -> Result<Started, Failed> {
    let options = PeerOptions { connect_within: server.connect_within, ..PeerOptions::default() };
    let (target, program) = match &server.target {
        McpTarget::Command { argv, cwd, env } => {
            let mut variables = Vec::new();
            for (variable, value) in env {
                variables.push((variable.into(), resolved(value, &tools.secrets).await?.into()));
            }
            let spawn = Spawn {
                operation: format!("{}{}", tools.family, uuid::Uuid::now_v7()),
                argv: argv.iter().map(Into::into).collect(),
                cwd: cwd.clone(),
                inherit: Inherit::All,
                env: variables,
                stdin: Stdin::Pipe,
                stdout: Output::Pipe,
                stderr: Output::Inherit,
            };
            let Some(runner) = &tools.runner else {
                return Err("no program can be started here".to_owned().into());
            };
            let process = runner.spawn(spawn).await.map_err(|error| error.to_string())?;
            let (Some(write), Some(read)) = (process.pipes.stdin, process.pipes.stdout) else {
                process.control.stop(Stop::NOW);
                return Err("failed to connect to the MCP server: it has no pipes".to_owned().into());
            };
            (Target::Streams { read: Box::new(read), write: Box::new(write) }, Some(process.control))
        }
        McpTarget::Url { url, headers } => {
            let mut all = HeaderMap::new();
            for (header, value) in headers {
                let value = resolved(value, &tools.secrets).await?;
                let pair = HeaderName::try_from(header.as_str()).ok().zip(HeaderValue::try_from(value).ok());
                let (name, mut value) =
                    pair.ok_or_else(|| format!("the header `{header}` cannot be sent: check its value"))?;
                value.set_sensitive(true);
                all.append(name, value);
            }
            let target = HttpTarget {
                url: url.clone(),
                client: tools.http.clone(),
                headers: Arc::new(move || Ok(all.clone())),
                patience: PATIENCE,
                idle: None,
            };
            (Target::Http(target), None)
        }
    };
    let older_may_do = introduction.prefer.is_stateless();
    let ended = |exit: Exit| Failed {
        why: format!(
            "the MCP server ended before it had introduced itself ({exit}); what it wrote to stderr is in our log"
        ),
        ended_at_probe: older_may_do,
    };
    let unknown = Unknown(program);
    let connecting = Peer::connect(target, introduction, options);
    let connected = match &unknown.0 {
        Some(control) => tokio::select! {
            connected = connecting => connected,
            exit = control.exited() => return Err(ended(exit)),
        },
        None => connecting.await,
    };
    match (connected, &unknown.0) {
        (Ok((peer, heard)), _) => Ok(Started { peer, heard, program: unknown.known() }),
        // The end of its output is seen before its own.
        (Err(error @ PeerError::Lost { .. }), Some(control)) => {
            match tokio::time::timeout(EXIT_WITHIN, control.exited()).await {
                Ok(exit) => Err(ended(exit)),
                Err(_) => Err(error.into()),
            }
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// A program that has not introduced itself. Dropped, it is told to stop: whoever wanted it may have left meanwhile.
struct Unknown(Option<Control>);

impl Unknown {
    fn known(mut self) -> Option<Control> {
        self.0.take()
    }
}

impl Drop for Unknown {
    fn drop(&mut self) {
        if let Some(control) = &self.0 {
            control.stop(Stop { grace: GRACE, ..Stop::default() });
        }
    }
}

async fn resolved(value: &Value, secrets: &Secrets) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Secret(reference) => match secrets.resolve(reference).await {
            Ok(secret) => Ok(secret.expose().to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}
