//! The command line: what can be said, and what the process answers with.
//!
//! Exit codes: 0 fine, 1 failed, 2 usage, 78 (`EX_CONFIG`) a config that cannot be used.

use crate::{check, config::ConfigErrors, demo, logs::Logs, manual, ops, schema, serve, wrap};
use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use std::{process::ExitCode, time::Duration};

/// A cancelled MCP tool call really stops upstream, or somebody is told that it did not.
#[derive(Debug, Parser)]
#[command(name = "countermand", version, about, propagate_version = true, max_term_width = 100)]
struct Cli {
    /// How logs are written to stderr
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Which logs are written: error, warn, info, debug, trace, or a filter by module
    #[arg(long, global = true, env = "COUNTERMAND_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves MCP tools in front of slow upstreams, by one config file
    Serve(serve::Serve),
    /// Stands in front of an existing MCP server, so that what is cancelled there is told, bounded and recorded
    Wrap(wrap::Wrap),
    /// Validates a config, and prints what a cancel does at each moment
    Check(check::Check),
    /// Shows the main job in one go: a slow upstream, the gateway, a client that cancels
    Demo(demo::Demo),
    /// Looks at operations, and acts on them
    #[command(subcommand)]
    Ops(ops::Ops),
    /// Prints the JSON Schema of the config, for editors
    Schema,
    /// Prints the completion script of a shell
    Completions(manual::Completions),
    /// Prints the man page, or writes one for each subcommand
    Man(manual::Man),
    /// The slow job API of the demo
    #[command(hide = true)]
    DemoUpstream(demo::Upstream),
    /// The MCP server of the demo
    #[command(hide = true)]
    DemoServer(demo::Server),
}

/// How long the last lines of the log may take to be read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let logs = match log_to_stderr(&cli) {
        Ok(logs) => logs,
        Err(error) => {
            complain(format_args!("error: {error:#}"));
            return ExitCode::from(2);
        }
    };
    countermand::upstream::install_crypto();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("error: failed to start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(cli.command));
    // What fails is told behind the log.
    logs.flush(LAST_LINES);
    let code = match ended {
        Ok(code) => code,
        Err(error) => told(&error),
    };
    // Every command has drained what it owes by now; a blocked read of stdin must not hold the process.
    runtime.shutdown_background();
    code
}

async fn run(command: Command) -> Result<ExitCode> {
    if let Err(error) = countermand::survive_file_size_limit() {
        tracing::warn!("a limit on the size of files would kill this process: {error}");
    }
    match command {
        Command::Serve(serve) => serve::run(serve).await.map(|()| ExitCode::SUCCESS),
        Command::Wrap(wrap) => wrap::run(wrap).await.map(|()| ExitCode::SUCCESS),
        Command::Check(check) => check::run(&check).map(|()| ExitCode::SUCCESS),
        Command::Demo(demo) => demo::run(demo).await,
        Command::Ops(ops) => ops::run(ops).await.map(|()| ExitCode::SUCCESS),
        Command::Schema => {
            crate::print(format_args!("{:#}\n", schema::schema()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions(shell) => {
            manual::completions(&shell, &Cli::command()).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(man) => manual::man(&man, &Cli::command()).map(|()| ExitCode::SUCCESS),
        Command::DemoUpstream(upstream) => demo::upstream(upstream).await.map(|()| ExitCode::SUCCESS),
        Command::DemoServer(server) => demo::server(server).await.map(|()| ExitCode::SUCCESS),
    }
}

/// Tells what failed, and how the process ends because of it.
fn told(error: &anyhow::Error) -> ExitCode {
    if let Some(errors) = error.downcast_ref::<ConfigErrors>() {
        complain(format_args!("{errors}"));
        return ExitCode::from(78);
    }
    complain(format_args!("error: {error:#}"));
    ExitCode::FAILURE
}

/// Writes to stderr, if anybody is there: a client that was killed has taken the other end with it, and what it has left is
/// cancelled all the same.
fn complain(words: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _nobody_reads = writeln!(std::io::stderr(), "{words}");
}

fn log_to_stderr(cli: &Cli) -> Result<Logs> {
    use std::io::IsTerminal as _;
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_new(&cli.log)?;
    let writer = Logs::to_stderr()?;
    let logs = fmt().with_env_filter(filter).with_writer(writer.clone()).log_internal_errors(false);
    let logs = logs.with_target(false);
    match cli.log_format {
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(writer)
}
