//! Calls, cancels, disconnects, faults and restarts for as long as one likes.

use crate::run::{Step, cargo, run_all};
use anyhow::{Context, Result, bail};

const TEST: &str = "soak::everything_at_once_leaves_no_job_that_nobody_knows_of_and_nothing_held";

/// Tells the test for how long.
pub(crate) const MINUTES: &str = "COUNTERMAND_SOAK_MINUTES";

/// Runs it; where it fails it prints the seed, and what was done last.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let (mut minutes, mut seed) = ("30".to_owned(), std::process::id().to_string());
    while let Some(option) = args.next() {
        let value = args.next().with_context(|| format!("`{option}` has no value"));
        match option.as_str() {
            "--minutes" => minutes = number(value?)?,
            "--seed" => seed = number(value?)?,
            _ => bail!("usage: cargo xtask soak [--minutes N] [--seed S]"),
        }
    }
    let vars = [(MINUTES, minutes.as_str()), ("COUNTERMAND_SOAK_SEED", seed.as_str())];
    let test = ["test", "-p", "countermand-cli", "--test", "gateway", "--"];
    let test = test.into_iter().chain([TEST, "--exact", "--nocapture"]);
    run_all([Step::new("soak", cargo(test)).env(&vars)])
}

fn number(text: String) -> Result<String> {
    text.parse::<f64>().with_context(|| format!("`{text}` is no number"))?;
    Ok(text)
}
