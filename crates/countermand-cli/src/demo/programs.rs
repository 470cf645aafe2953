//! The cases of `demo --all` with a program: what the kernel's own list of processes must show.

use super::{
    cases::{Case, ms},
    theatre::Theatre,
};
use anyhow::{Result, ensure};
use countermand_testkit::client::message;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The variable that the demo's program has in its environment.
const MARK: &str = "COUNTERMAND_DEMO";

/// A shell, and two that it starts in the background.
const PROCESSES: usize = 3;

/// How long it may take until as many live as should.
const PATIENCE: Duration = Duration::from_secs(10);

/// The tool of the demo, as the config has it.
pub(super) const TOOL: &str = r#"
  run_script:
    description: Runs a slow script that starts processes of its own.
    input:
      type: object
      properties: { tag: { type: string } }
      required: [tag]
    command:
      run: [sh, -c, "sleep 600 & sleep 600 & wait"]
      env: { COUNTERMAND_DEMO: "${args.tag}" }
      stop: { grace: 2s }
      lifetime: 10m
"#;

pub(super) fn all() -> Vec<Case> {
    vec![
        Case { name: "while a program ran", play: |theatre| Box::pin(ran(theatre)) },
        Case { name: "of a program, gateway killed", play: |theatre| Box::pin(killed(theatre)) },
    ]
}

/// The processes that have this mark.
fn alive(tag: &str) -> usize {
    let entry = format!("{MARK}={tag}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let marked = processes.filter(|process| {
        let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|one| one == entry.as_bytes())
    });
    marked.count()
}

/// Waits until so many live.
async fn live(tag: &str, count: usize) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = alive(tag);
        if now == count {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{now} processes live instead of {count}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts the program; its mark is this demo's alone.
async fn start(theatre: &mut Theatre, name: &str) -> Result<(u64, String)> {
    let (id, tag) = (theatre.id(), format!("{name}-{}", std::process::id()));
    theatre.client.send(&message::call(id, "run_script", json!({ "tag": tag }))).await;
    live(&tag, PROCESSES).await?;
    Ok((id, tag))
}

async fn ran(theatre: &mut Theatre) -> Result<String> {
    let (id, tag) = start(theatre, "ran").await?;
    let cancelled = Instant::now();
    theatre.client.send(&message::cancelled(id, Some("the user pressed stop"))).await;
    live(&tag, 0).await?;
    Ok(format!("its {PROCESSES} processes were gone {} after the cancel", ms(cancelled)))
}

async fn killed(theatre: &mut Theatre) -> Result<String> {
    let (_, tag) = start(theatre, "killed").await?;
    theatre.kill_gateway().await;
    let restarted = Instant::now();
    theatre.restart_gateway().await?;
    live(&tag, 0).await?;
    Ok(format!("what it had started was found by its name, and gone {} after the restart", ms(restarted)))
}
