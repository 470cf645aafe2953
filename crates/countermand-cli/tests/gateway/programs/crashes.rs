//! The gateway dies at each point that the life of a program passes, and once more while the next start recovers: nothing
//! of the program is left, its row is settled, and nobody else is signalled.

use super::{Caller, Door, Programs, settled};
use countermand::crash;
use countermand_testkit::client::{StdioClient, message};
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf, process::Stdio};

/// What the client does in the first life.
#[derive(Debug, Clone, Copy)]
enum Plot {
    /// It cancels once the program runs.
    Cancels,
    /// It waits for a program that ends by itself.
    Waits,
}

const TOOLS: &str = r#"
  lives:
    command: { run: SH 'WITNESS & wait'], stop: { grace: 300ms } }
    compensate: [ { run: [touch, DIR/undone] } ]
  ends_soon:
    command: [echo, done]
"#;

struct Life {
    programs: Programs,
    place: tempfile::TempDir,
}

impl Life {
    async fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let programs = Programs::with(&TOOLS.replace("DIR", &place.path().display().to_string())).await;
        Self { programs, place }
    }

    fn mark(&self) -> PathBuf {
        self.place.path().join("mark")
    }

    /// A gateway that dies at this point, or that notes each.
    fn gateway(&self, point: &str) -> StdioClient {
        let mut command = self.programs.stage.serve(&[]);
        command.env(crash::POINT, point).env(crash::MARK, self.mark()).stdin(Stdio::piped());
        StdioClient::spawn(command).unwrap()
    }

    fn passed(&self) -> Vec<String> {
        let mark = std::fs::read_to_string(self.mark()).unwrap_or_default();
        mark.lines().map(str::to_owned).collect()
    }

    /// Plays until the gateway is gone, or all has been said.
    async fn play(&self, plot: Plot, client: &mut StdioClient) {
        client.initialize("2025-11-25").await;
        let tool = if matches!(plot, Plot::Cancels) { "lives" } else { "ends_soon" };
        client.send(&message::call(1, tool, json!({}))).await;
        let came = async {
            match plot {
                Plot::Cancels => {
                    // It may never start.
                    tokio::select! {
                        _ = self.programs.witnesses.arrived(1) => {}
                        _ = client.exit() => return,
                    }
                    client.send(&message::cancelled(1, None)).await;
                }
                Plot::Waits => {}
            }
            tokio::select! {
                _ = client.exit() => {}
                _ = self.programs.stage.settled(1) => {}
            }
        };
        tokio::time::timeout(super::SOON, came).await.expect("it dies, or all is done");
    }

    /// The next life: everything is settled, and nothing lives.
    async fn ends_well(&self, plot: Plot, after: &str) {
        let next = Caller::at(Door::Stdio, &self.programs.stage).await;
        let rows = self
            .programs
            .stage
            .operations_when("nothing unsettled", |rows| rows.iter().all(|row| row["settled"] == true))
            .await;
        assert!(rows.len() <= 1, "{after}: {rows:#?}");
        self.programs.gone().await;
        let started = !self.programs.witnesses.all().is_empty();
        for row in &rows {
            let phase = row["phase"].as_str().unwrap();
            let fine: &[&str] = match plot {
                // What may have run is undone.
                Plot::Cancels if started => &["compensated"],
                Plot::Cancels => &["never_created", "compensated"],
                Plot::Waits => &["completed", "cancelled", "never_created"],
            };
            assert!(fine.contains(&phase), "{after}: {row:#}");
        }
        self.programs.stage.finish(next, &[1]).await;
    }
}

/// Every point that such a life passes, as a trace of it tells.
async fn points_of(plot: Plot) -> BTreeSet<String> {
    let life = Life::new().await;
    let mut client = life.gateway("trace");
    life.play(plot, &mut client).await;
    settled(&life.programs.stage).await;
    client.close_input();
    client.read_to_end().await;
    client.exit().await;
    let points: BTreeSet<String> = life.passed().into_iter().collect();
    assert!(points.len() > 10, "{points:?}");
    points
}

async fn dies_at_each_point(plot: Plot) {
    let mut died = 0;
    for point in points_of(plot).await {
        let life = Life::new().await;
        let mut client = life.gateway(&point);
        life.play(plot, &mut client).await;
        if life.passed() != [point.clone()] {
            // Not every life passes every point: a read may be dropped, an answer may be faster.
            client.close_input();
            client.read_to_end().await;
            client.exit().await;
        } else {
            client.exit().await;
            died += 1;
        }
        life.ends_well(plot, &point).await;
    }
    assert!(died > 10, "it died only {died} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_point_of_a_cancelled_program_s_life_nothing_is_left() {
    dies_at_each_point(Plot::Cancels).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_each_point_of_a_program_that_ends_by_itself_nothing_is_left() {
    dies_at_each_point(Plot::Waits).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_once_more_while_the_next_start_ends_what_was_left_the_one_after_does() {
    for point in [
        "before_cancel_call",
        "after_cancel_call",
        "before_status_call",
        "after_seen_ended_commit",
        "before_undo_call",
    ] {
        let life = Life::new().await;
        let mut client = life.gateway("before_created_commit");
        life.play(Plot::Cancels, &mut client).await;
        client.exit().await;
        std::fs::remove_file(life.mark()).unwrap();
        let mut again = life.gateway(point);
        tokio::time::timeout(super::SOON, again.exit())
            .await
            .unwrap_or_else(|_| panic!("it passes no {point}: {}", again.stderr()));
        assert_eq!(life.passed(), [point]);
        life.ends_well(Plot::Cancels, point).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_has_the_number_of_a_dead_one_is_left_alone() {
    let life = Life::new().await;
    let mut client = life.gateway("after_created_commit");
    client.initialize("2025-11-25").await;
    client.send(&message::call(1, "ends_soon", json!({}))).await;
    client.exit().await;
    // As if the number of its process had gone to another one since: this test.
    let ledger = rusqlite::Connection::open(life.programs.stage.ledger_file()).unwrap();
    let id = format!("{}:1", std::process::id());
    assert_eq!(ledger.execute("UPDATE operations SET upstream_id = ?1", [id]).unwrap(), 1);
    drop(ledger);
    life.ends_well(Plot::Waits, "a number that was used again").await;
}
