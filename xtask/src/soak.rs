//! Calls, cancels, disconnects, faults and restarts for as long as one likes.

use crate::run::{Step, cargo, run_all};
use anyhow::{Context, Result, bail};

const TEST: &str = "soak::as_long_as_it_is_told_to";

/// Runs it; where it fails it prints the seed, and what was done last.
pub(crate) fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let (mut minutes, mut seed) = ("30".to_owned(), None);
    while let Some(option) = args.next() {
        let value = args.next().with_context(|| format!("`{option}` has no value"));
        match option.as_str() {
            "--minutes" => minutes = number(value?)?,
            "--seed" => seed = Some(number(value?)?),
            _ => bail!("usage: cargo xtask soak [--minutes N] [--seed S]"),
        }
    }
    let mut vars = vec![("COUNTERMAND_SOAK_MINUTES", minutes.as_str())];
    vars.extend(seed.as_deref().map(|seed| ("COUNTERMAND_SOAK_SEED", seed)));
    let test = ["test", "-p", "countermand-cli", "--test", "gateway", "--"];
    let test = test.into_iter().chain([TEST, "--exact", "--ignored", "--nocapture"]);
    run_all([Step::new("soak", cargo(test)).env(&vars)])
}

fn number(text: String) -> Result<String> {
    text.parse::<f64>().with_context(|| format!("`{text}` is no number"))?;
    Ok(text)
}
