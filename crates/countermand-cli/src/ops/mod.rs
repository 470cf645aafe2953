//! `countermand ops`: what an operator sees and does, with and without a running gateway.

mod times;
mod ids;
mod table;
mod find;
mod act;
mod states;
mod list;
mod undo;
mod show;
mod follow;
mod watch;
mod cancel;
mod retry;
mod resolve;

use crate::{config, teller};
use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use countermand::{
    core::{Now, Phase, Row, event::Event, step},
    engine::Teller,
    ledger::{LedgerUrl, OpenError, OpenMode, SqliteLedger, siblings},
};
use std::path::{Path, PathBuf};

pub(crate) use crate::{
    answer::{rfc3339, sentence},
    print,
    shown::as_json,
};

/// As many rows as there can be.
const ALL: usize = i64::MAX as usize;

/// The subcommands of `ops`.
#[derive(Debug, Subcommand)]
pub(crate) enum Ops {
    /// Lists operations, newest first
    List(list::List),
    /// Shows one operation and its timeline
    Show(show::Show),
    /// Shows what changes, as it does
    Watch(watch::Watch),
    /// Cancels an operation, through the gateway or without one
    Cancel(cancel::Cancel),
    /// Tries again what was given up, through the gateway or without one
    Retry(retry::Retry),
    /// Settles by your word what could not be settled
    Resolve(resolve::Resolve),
}

/// Which ledger is meant.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Where {
    /// The config file whose ledger is meant
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The ledger, such as sqlite:countermand.db
    #[arg(long, value_name = "URL")]
    ledger: Option<String>,
}

/// Runs one of them. Its answer goes to stdout.
///
/// # Errors
/// What could not be read, found or done.
pub(crate) async fn run(ops: Ops) -> Result<()> {
    match ops {
        Ops::List(list) => list::run(list).await,
        Ops::Show(show) => show::run(show).await,
        Ops::Watch(watch) => watch::run(watch).await,
        Ops::Cancel(cancel) => cancel::run(cancel).await,
        Ops::Retry(retry) => retry::run(retry).await,
        Ops::Resolve(resolve) => resolve::run(resolve).await,
    }
}

impl Where {
    fn path(&self) -> Result<PathBuf> {
        let url = match (&self.config, &self.ledger) {
            (_, Some(url)) => url.clone(),
            (Some(file), None) => config::load_from_env(file)?.ledger,
            (None, None) => unreachable!("clap asks for one of them"),
        };
        Ok(LedgerUrl::parse(&url, Path::new("."))?.path().to_owned())
    }

    /// Who tells of what could not be stopped; only a config knows whom.
    fn teller(&self) -> Result<Option<Teller>> {
        let config = self.config.as_deref().map(config::load_from_env).transpose()?;
        Ok(config.as_ref().map(teller::of))
    }

    /// Every ledger of the family, to read: two gateways on one config write two of them.
    fn open_all(&self) -> Result<Vec<(PathBuf, SqliteLedger)>> {
        let path = self.path()?;
        let mut found: Vec<PathBuf> = siblings(&path);
        if !found.contains(&path) {
            found.insert(0, path);
        }
        let opened = found.into_iter().map(|path| match SqliteLedger::open(&path, OpenMode::Operator) {
            Ok(ledger) => Ok(Some((path, ledger))),
            // A gateway has just made it, or died there: no operation was ever in it.
            Err(OpenError::TooOld { found: 0, .. }) => Ok(None),
            Err(error) => Err(advised(error)),
        });
        opened.filter_map(Result::transpose).collect()
    }
}

/// A ledger that is not there may be the wrong one; any other error says itself what to do.
fn advised(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Missing { .. } => {
            anyhow!("{error}. Start one on it first, or name the right ledger with -c or --ledger")
        }
        error => error.into(),
    }
}

/// Tells what an operation has come to: in a sentence, or as one JSON object.
fn answer(json: bool, row: &Row, more: &str) -> Result<()> {
    if json {
        return print(format_args!("{}\n", as_json(row)));
    }
    print(format_args!("{}\n", format!("{}: {} {more}", row.id, sentence(row)).trim_end()))
}

/// The phases in which an event has a meaning, in words, and whether the row's own is one of them. What decides is asked.
fn legal_in(row: &Row, event: &Event) -> (String, bool) {
    let is_legal = |phase: Phase| step(Row { phase, ..row.clone() }, event.clone(), Now::default()).is_ok();
    let phases: Vec<_> =
        Phase::ALL.iter().filter(|phase| is_legal(**phase)).map(|phase| format!("`{phase}`")).collect();
    (phases.join(", "), is_legal(row.phase))
}

/// Who goes on with an operation, and when.
fn when(acted: &act::Acted) -> String {
    match act::next_request(&acted.row) {
        _ if !acted.gateway => " as soon as a gateway runs on its ledger".to_owned(),
        Some(at) => format!(", next at {}", rfc3339(at)),
        None => String::new(),
    }
}

/// Whether an operation in this phase deserves attention at one glance.
pub(crate) fn is_alarming(phase: Phase) -> bool {
    matches!(phase, Phase::Orphaned | Phase::NeedsIntervention | Phase::CompensationFailed)
}
