//! `ops retry`: what was given up is tried again.

use super::{
    Where,
    act::{Until, act, next_request},
    answer, find, legal_in, rfc3339, when,
};
use anyhow::{Result, bail};
use clap::Args;
use countermand::core::{Phase, Row, ports::Action};

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// The operation's id, or the beginning or ending of it
    id: String,
    #[command(flatten)]
    place: Where,
    /// Do not wait for the outcome
    #[arg(long)]
    no_wait: bool,
    /// The operation as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(retry: Retry) -> Result<()> {
    let found = find::one(&retry.place, &retry.id).await?;
    check(&found.row)?;
    let until = if retry.no_wait { Until::Filed } else { Until::Settled };
    let acted = act(&retry.place, &found, Action::Retry, until).await?;
    answer(retry.json, &acted.row, "")?;
    let (id, phase) = (found.row.id, acted.row.phase);
    if phase.is_settled() || retry.no_wait {
        return Ok(());
    }
    if !acted.shown {
        bail!(
            "operation {id} does not show the retry: what holds its ledger has not taken it, or the log above says why"
        );
    }
    if phase.awaits_operator() {
        let why = acted.row.last_error.as_deref().unwrap_or("no reason was given");
        bail!("operation {id} was tried again, and is `{phase}` again: {why}");
    }
    bail!(
        "operation {id} has not settled yet; what it owes is tried again{}. Look again with `countermand ops show {id}`",
        when(&acted)
    )
}

fn check(row: &Row) -> Result<()> {
    let (phases, legal) = legal_in(row, &Action::Retry.event());
    let Row { id, phase, .. } = row;
    match phase {
        _ if legal => Ok(()),
        Phase::Orphaned => {
            let next = next_request(row).map(|at| format!(", next at {}", rfc3339(at))).unwrap_or_default();
            bail!("operation {id} is `orphaned`, and is retried by itself{next}: there is nothing to do")
        }
        phase if phase.is_settled() => {
            bail!("operation {id} is settled (`{phase}`): there is nothing to retry")
        }
        phase => {
            bail!("operation {id} is `{phase}`, and nothing of it was given up: a retry is for {phases}")
        }
    }
}
