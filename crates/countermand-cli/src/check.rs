//! `countermand check`: validates a config and prints its cancellation plan.

use crate::{config, plan::Plan};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Which config.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The config file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// The plan as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the plan to stdout and warnings to stderr.
///
/// # Errors
/// [`ConfigErrors`](config::ConfigErrors) where the config cannot be used.
pub(crate) fn run(check: &Check) -> Result<()> {
    let config = config::load_from_env(&check.config)?;
    for warning in &config.warnings {
        eprintln!("{warning}");
    }
    let plan = Plan::of(&config);
    if check.json {
        return crate::print(format_args!("{}\n", serde_json::to_string_pretty(&plan)?));
    }
    crate::print(format_args!("{}", plan.render(crate::terminal_width().map(usize::from))))
}
