//! The fake as a process of its own, for tests that kill everything else.

use std::io::{Read, Write};
use std::net::SocketAddr;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::server::FakeUpstream;

/// Starts a fake at `listen` (port 0: a free one), says where in one line of JSON on stdout, and runs until stdin ends or
/// SIGTERM comes.
///
/// # Errors
/// If it cannot listen there, or stdout is closed.
pub async fn run_process(listen: SocketAddr) -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let fake = FakeUpstream::listen(listen).await?;
    {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", json!({ "listening": fake.base_url() }))?;
        stdout.flush()?;
    }
    // A thread, because tokio's stdin would keep the runtime from ending after a SIGTERM.
    let (ended, stdin_ended) = oneshot::channel::<()>();
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut ignored = [0; 512];
        while std::io::stdin().read(&mut ignored).is_ok_and(|read| read > 0) {}
        drop(ended);
    })?;
    tokio::select! {
        _ = stdin_ended => {}
        _ = terminated.recv() => {}
    }
    fake.shutdown().await;
    Ok(())
}
