//! The cases of `demo --all` with an existing MCP server: what that was told, by its own record.

use super::{
    cases::{Case, ms},
    theatre::Theatre,
};
use anyhow::{Context as _, Result, ensure};
use countermand_testkit::{
    client::message,
    server::{How, Recorder},
};
use serde_json::json;
use std::path::Path;
use tokio::time::Instant;

/// Two servers of the demo, the same program: one as it is, and one whose calls have a process each.
const UPSTREAMS: &str = r#"
  tools:
    mcp: { command: COMMAND, tools: { prefix: shared_ } }
  calls:
    mcp: { command: COMMAND, tools: { prefix: own_ }, isolation: call, unconfirmed: { after: 1s, then: kill_call } }
"#;

/// The part of the config that has them.
pub(super) fn upstreams(us: &Path, recorder: &Recorder) -> String {
    let command = json!([us, "demo-server", "--recorder", recorder.socket()]);
    UPSTREAMS.replace("COMMAND", &command.to_string())
}

pub(super) fn all() -> Vec<Case> {
    vec![
        Case { name: "of an MCP server that obeys", play: |theatre| Box::pin(obeys(theatre)) },
        Case { name: "of an MCP server that does not", play: |theatre| Box::pin(does_not(theatre)) },
    ]
}

/// Starts a tool of a server, and waits until it works; what the server calls the request.
async fn start(theatre: &mut Theatre, tool: &str, tag: &str) -> Result<(u64, serde_json::Value)> {
    let id = theatre.id();
    theatre.client.send(&message::call(id, tool, json!({ "tag": tag }))).await;
    let theirs = theatre.recorder()?.working(tag).await;
    Ok((id, theirs))
}

async fn obeys(theatre: &mut Theatre) -> Result<String> {
    let (id, theirs) = start(theatre, "shared_obedient", "obeys").await?;
    let cancelled = Instant::now();
    theatre.client.send(&message::cancelled(id, Some("the user pressed stop"))).await;
    let recorder = theatre.recorder()?;
    recorder.cancelled(&theirs).await;
    let took = ms(cancelled);
    let worked = recorder.first("the end of the work", |event| event.worked("obeys").is_some()).await;
    ensure!(worked.worked("obeys") == Some(How::Obeyed), "it worked to its end");
    Ok(format!("its request {theirs}, our {id}: it was told {took} after the cancel, and stopped"))
}

async fn does_not(theatre: &mut Theatre) -> Result<String> {
    let (id, theirs) = start(theatre, "own_stubborn", "does not").await?;
    let recorder = theatre.recorder()?;
    let pid = recorder.first("its work", |event| event.works("does not")).await.pid;
    let cancelled = Instant::now();
    theatre.client.send(&message::cancelled(id, Some("the user pressed stop"))).await;
    let recorder = theatre.recorder()?;
    recorder.cancelled(&theirs).await;
    let told = ms(cancelled);
    let gone = |events: &[countermand_testkit::server::Event]| {
        events
            .iter()
            .any(|event| event.pid == pid && event.kind == countermand_testkit::server::EventKind::Ended)
    };
    recorder.wait("the end of its process", gone).await;
    Ok(format!(
        "it was told {told} after the cancel and worked on; its process was gone after {}",
        ms(cancelled)
    ))
}

impl Theatre {
    fn recorder(&self) -> Result<&Recorder> {
        self.recorder.as_ref().context("the demo has no MCP servers")
    }
}
