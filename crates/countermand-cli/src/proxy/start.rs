//! From the config to a connection: starts the program of a server, or reaches for its address.

use crate::config::{McpServer, McpTarget};
use countermand::{
    definition::Value,
    process::{Control, Exit, Inherit, Output, Runner, Spawn, Stdin, Stop},
    secret::Secrets,
};
use countermand_mcp::{Heard, HttpTarget, Introduction, Peer, PeerError, PeerOptions, Target};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{sync::Arc, time::Duration};
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
    pub(super) runner: Runner,
    pub(super) secrets: Secrets,
    pub(super) http: reqwest::Client,
    /// Whatever outlives a request.
    pub(super) tasks: TaskTracker,
}

impl Tools {
    pub(super) fn new(runner: Runner) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { runner, secrets: Secrets::new(), http, tasks: TaskTracker::new() })
    }
}

/// A server that has introduced itself.
pub(super) struct Started {
    pub(super) peer: Peer,
    pub(super) heard: mpsc::Receiver<Heard>,
    /// Its program, where we have started one.
    pub(super) program: Option<Control>,
}

/// Starts a server, and introduces its client. `name` is what its processes can be found by.
///
/// # Errors
/// Why not, in words for a caller.
pub(super) async fn start(
    server: &McpServer,
    introduction: Introduction,
    name: &str,
    tools: &Tools,
) -> Result<Started, String> {
    let options = PeerOptions { connect_within: server.connect_within, ..PeerOptions::default() };
    let (target, program) = match &server.target {
        McpTarget::Command { argv, cwd, env } => {
            let mut variables = Vec::new();
            for (variable, value) in env {
                variables.push((variable.into(), resolved(value, &tools.secrets).await?.into()));
            }
            let spawn = Spawn {
                operation: name.to_owned(),
                argv: argv.iter().map(Into::into).collect(),
                cwd: cwd.clone(),
                inherit: Inherit::All,
                env: variables,
                stdin: Stdin::Pipe,
                stdout: Output::Pipe,
                stderr: Output::Inherit,
            };
            let process = tools.runner.spawn(spawn).await.map_err(|error| error.to_string())?;
            let (Some(write), Some(read)) = (process.pipes.stdin, process.pipes.stdout) else {
                process.control.stop(Stop::NOW);
                return Err("failed to connect to the MCP server: it has no pipes".to_owned());
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
        (Err(PeerError::Lost { lost, .. }), Some(control)) => {
            match tokio::time::timeout(EXIT_WITHIN, control.exited()).await {
                Ok(exit) => Err(ended(exit)),
                Err(_) => Err(format!("failed to connect to the MCP server: {lost}")),
            }
        }
        (Err(error), _) => Err(error.to_string()),
    }
}

fn ended(exit: Exit) -> String {
    format!(
        "the MCP server ended before it had introduced itself ({exit}); what it wrote to stderr is in our log"
    )
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
