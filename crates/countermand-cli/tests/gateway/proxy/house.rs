//! A recorder, servers that tell it, and gateways in front of them.

use crate::stage::{BINARY, Outcome, command};
use countermand_testkit::server::{Event, EventKind, Recorder};
use serde_json::Value;
use std::time::Duration;
use tokio::process::Command;

/// A directory with a ledger and a recorder.
pub struct House {
    pub recorder: Recorder,
    pub dir: tempfile::TempDir,
}

impl House {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { recorder: Recorder::listen(dir.path()).unwrap(), dir }
    }

    /// The command line of a server that tells the recorder.
    pub fn server(&self, flags: &[&str]) -> Vec<String> {
        let socket = self.recorder.socket().display().to_string();
        let words = [BINARY, "demo-server", "--recorder", &socket];
        words.into_iter().chain(flags.iter().copied()).map(ToOwned::to_owned).collect()
    }

    pub fn ledger(&self) -> String {
        format!("sqlite:{}", self.dir.path().join("ledger.db").display())
    }

    /// `countermand wrap FLAGS -- SERVER`.
    pub fn wrap(&self, flags: &[&str], server: &[&str]) -> Command {
        let mut command = command(self.dir.path(), &["wrap", "--ledger", &self.ledger()]);
        command.args(flags).arg("--").args(self.server(server));
        command
    }

    /// `countermand wrap FLAGS --url URL`.
    pub fn wrap_url(&self, flags: &[&str], url: &str) -> Command {
        let mut command = command(self.dir.path(), &["wrap", "--ledger", &self.ledger(), "--url", url]);
        command.args(flags);
        command
    }

    /// `countermand ops ARGS`, on this ledger.
    pub async fn ops(&self, args: &[&str]) -> Outcome {
        let mut command = command(self.dir.path(), &["ops"]);
        command.args(args).args(["--ledger", &self.ledger()]);
        Outcome::of(command).await
    }

    /// The operations, newest first.
    pub async fn rows(&self) -> Vec<Value> {
        let text = self.ops(&["list", "--json"]).await.exited(0).stdout;
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the rows fit.
    pub async fn rows_when(&self, what: &str, fit: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut last = Vec::new();
        let waited = async {
            loop {
                last = self.rows().await;
                if fit(&last) {
                    return;
                }
                // The ledger has no events for other processes: it is read again.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(40), waited).await.is_err() {
            panic!("the ledger never showed {what}: {last:#?}");
        }
        last
    }

    /// How many processes live that were called, or that such a one has started.
    pub fn called(&self) -> usize {
        let events = self.recorder.events();
        let was_called = |pid| events.iter().any(|it| it.pid == pid && it.heard("tools/call").is_some());
        let started = |pid| {
            let of = |it: &Event| matches!(it.kind, EventKind::Started { of: Some(_), .. });
            events.iter().any(|it| it.pid == pid && of(it))
        };
        let processes = self.recorder.processes();
        processes.iter().filter(|(pid, lives)| *lives && (was_called(*pid) || started(*pid))).count()
    }

    /// Waits until the one operation is in this phase.
    pub async fn phase(&self, phase: &str) -> Value {
        self.rows_when(phase, |rows| rows.len() == 1 && rows[0]["phase"] == phase).await.remove(0)
    }
}
