//! `ops watch`: what changes, as it does, until Ctrl-C; or what happens to one operation, until it is settled.

use super::{
    Where, as_json, find,
    follow::{Change, Family},
    ids, rfc3339, sentence, show,
    states::States,
    table::{clip, one_line},
    times,
};
use crate::{reader_is_gone, terminal_width, try_print};
use anyhow::Result;
use clap::Args;
use countermand::{
    clock::SystemClock,
    core::{Phase, Row, Timestamp, ports::Ledger as _},
};
use std::{fmt::Display, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};
use unicode_width::UnicodeWidthStr as _;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// With less room than this nothing is worth beginning.
const A_WORD: usize = 8;

/// What to watch.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Only this operation, until it is settled: its id, or the beginning or ending of it
    #[arg(conflicts_with_all = ["state", "limit"])]
    id: Option<String>,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    states: States,
    /// Of what is there at first, at most so many, the newest
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// One JSON object a change: the operation as `list --json` shows it
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(watch: Watch) -> Result<()> {
    let mut pause = Pause { interrupt: signal(SignalKind::interrupt())? };
    match &watch.id {
        Some(id) => one(&watch, id, &mut pause).await,
        None => all(watch, &mut pause).await,
    }
}

/// What ends a watch, between two looks.
struct Pause {
    interrupt: Signal,
}

impl Pause {
    /// Waits for the next look; false where there is to be none.
    async fn over(&mut self) -> bool {
        let interrupted = tokio::time::timeout(LOOK_EVERY, self.interrupt.recv()).await.is_ok();
        !interrupted && !reader_is_gone()
    }
}

async fn all(watch: Watch, pause: &mut Pause) -> Result<()> {
    let mut family = Family::open(&watch.place)?;
    let at_first = if watch.states.are_named() { watch.states.clone() } else { States::unsettled() };
    let mut lines = Lines { json: watch.json, clock: SystemClock::new(), tool: 0 };
    let mut first = family.first(&at_first, watch.limit).await?;
    first.reverse();
    for row in &first {
        if !lines.print_row(row)? {
            return Ok(());
        }
    }
    while pause.over().await {
        for change in family.changes().await {
            if !lines.print_change(&change, &watch.states)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Prints what there is and what changes. Each function is false once nobody reads it any more.
struct Lines {
    json: bool,
    clock: SystemClock,
    /// The widest tool so far.
    tool: usize,
}

impl Lines {
    fn print_row(&mut self, row: &Row) -> Result<bool> {
        if self.json {
            return print_line(as_json(row));
        }
        let error = row.last_error.as_deref().unwrap_or_default();
        let line = self.line(row.updated_at, row, row.phase.as_str(), error);
        print_line(line)
    }

    fn print_change(&mut self, change: &Change, states: &States) -> Result<bool> {
        let row = &change.row;
        if self.json {
            let meant = states.have(row.phase) || change.before.is_some_and(|phase| states.have(phase));
            return if meant { print_line(as_json(row)) } else { Ok(true) };
        }
        let mut before = change.before;
        for (at, entry) in change.entries.iter().enumerate() {
            let meant = states.have(entry.phase) || before.is_some_and(|phase| states.have(phase));
            let phases = match before {
                Some(before) if before == entry.phase => before.to_string(),
                before => format!("{} → {}", before.map_or("-", Phase::as_str), entry.phase),
            };
            before = Some(entry.phase);
            // What the upstream said; else what is wrong with the row, which is known of its last line only.
            let is_last = at + 1 == change.entries.len();
            let error = row.last_error.as_deref().filter(|_| is_last && super::is_alarming(row.phase));
            let text = entry.note.as_deref().or(error).unwrap_or_default();
            if meant && !print_line(self.line(entry.at, row, &phases, text))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Time, id, tool, phases, cause and what went wrong: cut to a terminal, whole for a program.
    fn line(&mut self, at: Timestamp, row: &Row, phases: &str, text: &str) -> String {
        let width = terminal_width().map(usize::from);
        let (at, id) = match width {
            Some(_) => (times::short(at, self.clock.at()), ids::ending(row.id, ids::SHORTEST)),
            None => (rfc3339(at), row.id.to_string()),
        };
        let (tool, text) = (one_line(&row.tool), one_line(text));
        self.tool = self.tool.max(tool.width());
        let tool = format!("{tool}{}", " ".repeat(self.tool - tool.width()));
        let cause = row.cause.map(|cause| cause.as_str()).filter(|cause| !text.starts_with(cause));
        let (at, id, tool, cause) = (at.as_str(), id.as_str(), tool.as_str(), cause.unwrap_or_default());
        let whole = spaced(&[at, id, tool, phases, cause, &text]);
        let Some(width) = width.filter(|width| *width < whole.width()) else { return whole };
        // What went wrong is worth more than the cause, which an earlier line has; and the phases more than all that is before them.
        let before: [&[&str]; 3] = [&[at, id, tool, phases], &[at, id, phases], &[id, phases]];
        let fits = before.iter().map(|cells| spaced(cells)).find(|cells| cells.width() <= width);
        let fits = fits.unwrap_or_else(|| spaced(before[2]));
        if fits.width() + A_WORD > width {
            return clip(&fits, width);
        }
        clip(&spaced(&[&fits, &text]), width)
    }
}

fn spaced(cells: &[&str]) -> String {
    cells.iter().filter(|cell| !cell.is_empty()).copied().collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn print_line(line: impl Display) -> Result<bool> {
    try_print(format_args!("{line}\n"))
}

/// Follows one operation. It need not be driven: what is awaited may be a gateway.
async fn one(watch: &Watch, id: &str, pause: &mut Pause) -> Result<()> {
    let found = find::one(&watch.place, id).await?;
    let mut row = found.row;
    let at = if row.upstream.is_empty() { String::new() } else { format!(" at {}", row.upstream) };
    if !watch.json && !print_line(format_args!("{}: {}{at}", row.id, row.tool))? {
        return Ok(());
    }
    let mut told = 0;
    loop {
        if told < row.version {
            let goes_on = if watch.json {
                print_line(as_json(&row))?
            } else {
                let history = found.ledger.history(row.id).await?;
                let upto = usize::try_from(row.version).unwrap_or(usize::MAX);
                let from = usize::try_from(told).unwrap_or(usize::MAX);
                let new: Vec<_> = history.into_iter().take(upto).skip(from).collect();
                try_print(format_args!("{}", show::timeline(&row, &new, row.phase.is_settled())))?
            };
            told = row.version;
            if !goes_on {
                return Ok(());
            }
        }
        if row.phase.is_settled() {
            break;
        }
        if !pause.over().await {
            return Ok(());
        }
        match found.ledger.get(row.id).await {
            Ok(newest) => row = newest,
            Err(error @ countermand::core::ports::LedgerError::Absent { .. }) => return Err(error.into()),
            Err(error) => tracing::warn!("{error}; it is read again"),
        }
    }
    if !watch.json {
        print_line(sentence(&row))?;
    }
    Ok(())
}
