//! Everything at once, for a while: calls of every tool over every door, cancels, disconnects, resumes, faults, restarts;
//! then the books must balance. What is done follows from a seed; when it is done depends on the machine.

mod act;
mod dice;
mod faults;
mod run;

use dice::Dice;
use run::Soak;
use std::time::Duration;

/// The tools that the soak has beside those of the stage.
const TOOLS: &str = r#"
  with_grace: { input: *input, upstream: reports, job: *job, on_disconnect: { grace: 1s } }
  strict: { input: *input, upstream: reports, job: *job, on_disconnect: cancel }
  shared: { input: *input, upstream: reports, job: *job, on_disconnect: { grace: 1s }, on_reissue: attach }
  undone: { input: *input, upstream: reports, job: *job, on_disconnect: cancel, compensate: [ { request: DELETE /rows, query: { tag: "${args.tag}" } } ], when_completed: compensate }
  search_with_grace: { input: *input, upstream: reports, http: { request: GET /slow, query: { tag: "${args.tag}" } }, on_disconnect: { grace: 1s } }
"#;

/// All of them.
const ALL: [&str; 15] = [
    "run_report",
    "with_undo",
    "quick_timeout",
    "short_life",
    "detached",
    "keyless",
    "no_cancel",
    "search",
    "quick",
    "order",
    "with_grace",
    "strict",
    "shared",
    "undone",
    "search_with_grace",
];

async fn soak(seed: u64, lasts: Duration) {
    println!("seed {seed}, {} s", lasts.as_secs());
    Soak::new(Dice::new(seed)).await.run(lasts).await;
}

/// For a minute, unless it is told for how long and from which seed: `cargo xtask soak` and `cargo xtask ci` do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once_leaves_no_job_that_nobody_knows_of_and_nothing_held() {
    let told = |name: &str| std::env::var(name).ok().map(|text| text.parse::<f64>().expect(name));
    let minutes = told("COUNTERMAND_SOAK_MINUTES").unwrap_or(1.0);
    let seed = told("COUNTERMAND_SOAK_SEED").map_or(20_261_129, |seed| seed as u64);
    soak(seed, Duration::from_secs_f64(minutes * 60.0)).await;
}
