//! Steps that are commands, run one after the other; the first that fails ends the run.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// A named command.
pub(crate) struct Step {
    name: &'static str,
    command: Command,
}

impl Step {
    pub(crate) fn new(name: &'static str, command: Command) -> Self {
        Self { name, command }
    }

    pub(crate) fn env(mut self, vars: &[(&str, &str)]) -> Self {
        self.command.envs(vars.iter().copied());
        self
    }
}

/// The cargo that runs us.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), args)
}

/// A program, in the workspace's root.
pub(crate) fn program<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(root());
    command
}

pub(crate) fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).map(Into::into).unwrap_or_default()
}

pub(crate) fn run_all<const N: usize>(steps: [Step; N]) -> Result<()> {
    for mut step in steps {
        println!("\n== {}", step.name);
        let status = step
            .command
            .status()
            .with_context(|| format!("failed to start {:?}", step.command.get_program()))?;
        if !status.success() {
            bail!("{} failed: {status}", step.name);
        }
    }
    Ok(())
}
