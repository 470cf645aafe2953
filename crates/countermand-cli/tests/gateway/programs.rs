//! Programs as tools: real processes, judged by their own deaths.

mod crashes;
mod ends;
mod outputs;
mod stops;
mod undo;

use crate::stage::{Caller, Door, Pending, Stage};
use countermand_testkit::witness::{self, Mode, Witnesses, quoted};
use serde_json::{Value, json};
use std::time::Duration;

/// A deadline for what must happen.
const SOON: Duration = Duration::from_secs(20);

#[test]
#[ignore = "the process that the other tests start"]
fn is_a_witness() {
    witness::be_one().unwrap();
}

/// A stage with a tool for each kind of program.
struct Programs {
    stage: Stage,
    witnesses: Witnesses,
    /// Where their socket is.
    _place: tempfile::TempDir,
}

impl Programs {
    /// `more` are further tools; `SH` in them stands for `[sh, -c,`, `WITNESS` for the command line of a plain one in a shell.
    async fn with(more: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let witnesses = Witnesses::listen(place.path()).unwrap();
        let argv = |mode| witnesses.argv(mode, "programs::is_a_witness").unwrap();
        let mut tools: String = Mode::ALL
            .into_iter()
            .map(|mode| {
                let (name, run) = (mode.word(), json!(argv(mode)));
                format!("  {name}:\n    command: {{ run: {run}, stop: {{ signal: INT, grace: 300ms }} }}\n")
            })
            .collect();
        let in_shell = quoted(&argv(Mode::Plain)).replace('\'', "''");
        tools += &more.replace("WITNESS", &in_shell).replace("SH ", "[sh, -c, ");
        let stage = Stage::with_more("", &tools).await;
        Self { stage, witnesses, _place: place }
    }

    async fn new() -> Self {
        Self::with("").await
    }

    /// Waits until that many have told their number, in all.
    async fn arrived(&self, count: usize) {
        let arrived = tokio::time::timeout(SOON, self.witnesses.arrived(count)).await;
        assert!(arrived.is_ok(), "{count} should be there: {:?}", self.witnesses.all());
    }

    /// Waits until none lives.
    async fn gone(&self) {
        let gone = tokio::time::timeout(SOON, self.witnesses.gone()).await;
        assert!(gone.is_ok(), "somebody lives: {:?}", self.witnesses.all());
    }

    fn alive(&self) -> usize {
        self.witnesses.all().iter().filter(|witness| witness.lives).count()
    }
}

/// Every row, once none is unsettled.
async fn all_settled(stage: &Stage) -> Vec<Value> {
    stage.operations_when("no unsettled row", |rows| rows.iter().all(|row| row["settled"] == true)).await
}

/// The one operation's row, settled.
async fn settled(stage: &Stage) -> Value {
    stage.settled(1).await.remove(0)
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// Whether control groups can be made where the tests run: the gateway makes its own beneath ours.
fn has_cgroups() -> bool {
    use countermand::process::{Containment, Runner};
    Runner::new(Containment::Cgroup).unwrap().containment() == Containment::Cgroup
}
