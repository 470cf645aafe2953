//! `countermand wrap`: one line in front of an MCP server that is there already.

use crate::{
    config::{self, Isolation, McpServer, McpTarget, Then, Unconfirmed},
    serve::serve_config,
};
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use sha2::{Digest as _, Sha256};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// What to stand in front of, and how.
#[derive(Debug, Args)]
pub(crate) struct Wrap {
    /// Listen for MCP over HTTP here; without it, stdin and stdout are served
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Listen for the admin API here
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Keep the ledger here, instead of in the state directory of this user
    #[arg(long, value_name = "URL")]
    ledger: Option<String>,
    /// How long a request to the server may take
    #[arg(long, value_name = "D", default_value = "1h", value_parser = config::duration)]
    timeout: Duration,
    /// How long a shutdown waits for cancels to be confirmed
    #[arg(long, value_name = "D", default_value = "10s", value_parser = config::duration)]
    grace: Duration,
    /// Who shares a process of the server
    #[arg(long, value_enum, default_value = "session")]
    isolation: Sharing,
    /// What follows a cancel that the server has not answered after 10 s
    #[arg(long, value_enum, default_value = "leave", value_name = "WHAT")]
    unconfirmed: Silence,
    /// The server's address, where it speaks HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    url: Option<String>,
    /// The server's command, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Sharing {
    /// Every client that begins with `initialize` has its own, all others share one
    Session,
    /// All share one
    Shared,
    /// Every call has its own
    Call,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Silence {
    /// It was told; that is all that is known
    Leave,
    /// Its process is ended as soon as no other call is in flight there
    Restart,
    /// Its process is killed; needs `--isolation call`
    KillCall,
}

/// Serves what the server has, until a signal or the end of stdin where that is served.
///
/// # Errors
/// A ledger or a listener that cannot be used; nothing was served then.
pub(crate) async fn run(wrap: Wrap) -> Result<()> {
    let target = match &wrap.url {
        Some(url) => McpTarget::Url { url: checked(url)?, headers: Vec::new() },
        None => McpTarget::Command { argv: wrap.command.clone(), cwd: None, env: Vec::new() },
    };
    if wrap.admin.is_some() {
        tracing::warn!("this version has no admin listener: `--admin` is accepted and nothing listens there");
    }
    let ledger = match &wrap.ledger {
        Some(ledger) => ledger.clone(),
        None => {
            let place = place(&target)?;
            let directory = place.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(directory).with_context(|| {
                format!(
                    "failed to make the directory of the ledger, {}; name another with --ledger",
                    directory.display()
                )
            })?;
            format!("sqlite:{}", place.display())
        }
    };
    let then = match (wrap.unconfirmed, wrap.isolation) {
        (Silence::Leave, _) => Then::Leave,
        (Silence::Restart, _) => Then::Restart,
        (Silence::KillCall, Sharing::Call) => Then::KillCall,
        (Silence::KillCall, _) => {
            bail!("`--unconfirmed kill_call` ends a process that others may use; add `--isolation call`")
        }
    };
    if wrap.url.is_some() && then != Then::Leave {
        bail!("the process of a server at a URL is not ours to end; leave out `--unconfirmed`");
    }
    let isolation = match wrap.isolation {
        Sharing::Session => Isolation::Session,
        Sharing::Shared => Isolation::Shared,
        Sharing::Call => Isolation::Call,
    };
    let server = McpServer {
        timeout: wrap.timeout,
        isolation: Some(isolation),
        unconfirmed: Unconfirmed { then, ..Unconfirmed::default() },
        ..McpServer::new(&name(&target), target)
    };
    let config = config::wrapping(server, wrap.http, ledger);
    serve_config(&config, false, wrap.grace).await
}

fn checked(url: &str) -> Result<String> {
    let parsed =
        url::Url::parse(url).with_context(|| format!("`{url}` is no URL: write http://HOST:PORT/mcp"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        bail!("`{url}` is no HTTP URL: write http://HOST:PORT/mcp");
    }
    Ok(url.to_owned())
}

/// What the server is called in the ledger and the log: its program, or its host.
fn name(target: &McpTarget) -> String {
    match target {
        McpTarget::Command { argv, .. } => {
            let runner = ["npx", "uvx", "node", "python", "python3", "bunx", "deno", "sh", "bash", "env"];
            let base = |word: &String| {
                Path::new(word)
                    .file_name()
                    .map_or_else(|| word.clone(), |name| name.to_string_lossy().into_owned())
            };
            let words =
                argv.iter().filter(|word| !word.starts_with('-') && !runner.contains(&base(word).as_str()));
            words.map(base).next().or_else(|| argv.first().map(base)).unwrap_or_else(|| "server".to_owned())
        }
        McpTarget::Url { url, .. } => url::Url::parse(url)
            .ok()
            .and_then(|url| {
                let host = url.host_str()?.to_owned();
                Some(url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
            })
            .unwrap_or_else(|| "server".to_owned()),
    }
}

/// Where the ledger of a wrapped server is: never the working directory, which is the client's.
fn place(target: &McpTarget) -> Result<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let state = state.or_else(home).context(
        "failed to find a place for the ledger: neither XDG_STATE_HOME nor HOME is set; name one with --ledger sqlite:PATH",
    )?;
    let mut hash = Sha256::new();
    match target {
        McpTarget::Command { argv, .. } => argv.iter().for_each(|word| {
            hash.update(word.as_bytes());
            hash.update([0]);
        }),
        McpTarget::Url { url, .. } => hash.update(url.as_bytes()),
    }
    let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(state.join("countermand").join(format!("{hash}.db")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> String {
        let argv = words.iter().map(|word| (*word).to_owned()).collect();
        name(&McpTarget::Command { argv, cwd: None, env: Vec::new() })
    }

    #[test]
    fn a_server_is_called_by_what_it_is_and_not_by_what_runs_it() {
        assert_eq!(
            named(&["npx", "-y", "@modelcontextprotocol/server-everything", "stdio"]),
            "server-everything"
        );
        assert_eq!(named(&["/usr/bin/python3", "/opt/x/server.py"]), "server.py");
        assert_eq!(named(&["uvx", "mcp-server-fetch"]), "mcp-server-fetch");
        assert_eq!(named(&["python3"]), "python3");
        let url =
            McpTarget::Url { url: "https://mcp.example.org/mcp?key=secret".to_owned(), headers: Vec::new() };
        assert_eq!(name(&url), "mcp.example.org");
        let url = McpTarget::Url { url: "http://127.0.0.1:8080/mcp".to_owned(), headers: Vec::new() };
        assert_eq!(name(&url), "127.0.0.1:8080");
    }
}
