//! Completions and man pages, made of what the command line says of itself.

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;

/// What the command is called, whatever the file is.
const NAME: &str = "countermand";

/// For which shell.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Where to.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write one page for each subcommand into this directory, instead of the main page to stdout
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the completion script of a shell.
///
/// # Errors
/// Stdout cannot be written.
pub(crate) fn completions(completions: &Completions, command: &Command) -> Result<()> {
    let mut shown = without_hidden(command);
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut shown, NAME, &mut script);
    crate::print(format_args!("{}", String::from_utf8(script)?))
}

/// Prints the main page, or writes all of them.
///
/// # Errors
/// Where they cannot be written.
pub(crate) fn man(man: &Man, command: &Command) -> Result<()> {
    let shown = without_hidden(command);
    let Some(directory) = &man.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(shown).render(&mut page)?;
        return crate::print(format_args!("{}", String::from_utf8(page)?));
    };
    let failed = || format!("failed to write man pages into {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(shown, directory).with_context(failed)
}

/// What nobody is told of is not offered either; the generators do not all agree on that.
fn without_hidden(command: &Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .args(command.get_arguments())
        .subcommands(command.get_subcommands().filter(|sub| !sub.is_hide_set()))
        .subcommand_required(true)
        .propagate_version(true)
}
