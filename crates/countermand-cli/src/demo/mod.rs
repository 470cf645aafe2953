//! `countermand demo`: the main job in one go, told from the upstream's own record.

mod cases;
mod programs;
mod theatre;

use anyhow::Result;
use clap::Args;
use std::{
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
};
use theatre::Theatre;

/// How the demo goes.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Stay up afterwards, and say how to connect a client
    #[arg(long)]
    keep: bool,
    /// Every kind of tool that this version knows: programs, too
    #[arg(long)]
    all: bool,
}

/// Where the demo's slow job API listens.
#[derive(Debug, Args)]
pub(crate) struct Upstream {
    /// Its address; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    listen: SocketAddr,
}

/// Runs the slow job API until stdin ends.
///
/// # Errors
/// Where it cannot listen.
pub(crate) async fn upstream(upstream: Upstream) -> Result<()> {
    Ok(countermand_testkit::fake::run_process(upstream.listen).await?)
}

/// How the MCP server of the demo behaves.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// Tell the recorder at this socket all that is heard and done
    #[arg(long, value_name = "SOCKET")]
    recorder: Option<std::path::PathBuf>,
    /// The one revision that it speaks
    #[arg(long, value_name = "DATE", default_value = "2025-11-25")]
    revision: String,
    /// Never answer `initialize`
    #[arg(long)]
    hang: bool,
    /// End at once
    #[arg(long)]
    fail: bool,
    /// Write lines that are no messages
    #[arg(long)]
    junk: bool,
    /// Run on when the input has ended, and ignore SIGTERM
    #[arg(long)]
    stay: bool,
}

/// Runs an MCP server on stdin and stdout, until stdin ends.
///
/// # Errors
/// Where its recorder cannot be reached, or nobody reads what it says.
pub(crate) async fn server(server: Server) -> Result<()> {
    let Server { recorder, revision, hang, fail, junk, stay } = server;
    let options = countermand_testkit::server::Options { recorder, revision, hang, fail, junk, stay };
    Ok(countermand_testkit::server::run(options).await?)
}

/// Runs every case, and exits 0 only if all of them held.
///
/// # Errors
/// Where upstream or gateway could not be started.
pub(crate) async fn run(demo: Demo) -> Result<ExitCode> {
    crate::print(format_args!(
        "A slow job API, the gateway in front of it, and a client that cancels. What happened upstream, by the \
         upstream's own record:\n\n"
    ))?;
    let mut theatre = Theatre::open().await?;
    let mut held = 0;
    let mut cases = cases::all();
    if demo.all {
        cases.extend(programs::all());
    }
    for case in &cases {
        let told = (case.play)(&mut theatre).await;
        let (mark, what) = match told {
            Ok(what) => {
                held += 1;
                ("ok  ", what)
            }
            Err(error) => ("FAIL", format!("{error:#}")),
        };
        crate::print(format_args!("  {mark}  {:<34} {what}\n", case.name))?;
    }
    let books = theatre.upstream.books().await?;
    crate::print(format_args!(
        "\n{held} of {} held. The upstream's books: {} jobs created = {} completed + {} failed + {} cancelled + {} still \
         running.\n",
        cases.len(),
        books.created,
        books.completed,
        books.failed,
        books.cancelled,
        books.live
    ))?;
    let all = held == cases.len() && books.live == 0;
    if demo.keep && all {
        theatre.stay().await?;
    }
    theatre.close().await;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
