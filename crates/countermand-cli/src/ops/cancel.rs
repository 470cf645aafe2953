//! `ops cancel`.

use super::{
    Where,
    act::{Until, act},
    answer, find, when,
};
use anyhow::{Result, bail};
use clap::Args;
use countermand::core::{Row, ports::Action, words::never_arrived};

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The operation's id, or the beginning or ending of it
    id: String,
    #[command(flatten)]
    place: Where,
    /// Why, for the operation's history
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Do not wait for the outcome
    #[arg(long)]
    no_wait: bool,
    /// The operation as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(cancel: Cancel) -> Result<()> {
    let found = find::one(&cancel.place, &cancel.id).await?;
    let id = found.row.id;
    if found.row.phase.is_settled() {
        let known = "It is settled already; there is nothing to cancel.";
        let row = &found.row;
        if !never_arrived(row) {
            return answer(cancel.json, row, known);
        }
        let Row { key, upstream, .. } = row;
        let arrived = format!(
            "{known} If it has arrived since, it is at {upstream} under the key {key}: end it there."
        );
        return answer(cancel.json, row, &arrived);
    }
    let until = if cancel.no_wait { Until::Filed } else { Until::Settled };
    let acted = act(&cancel.place, &found, Action::Cancel { note: cancel.note }, until).await?;
    answer(cancel.json, &acted.row, "")?;
    if acted.row.phase.is_settled() || cancel.no_wait {
        return Ok(());
    }
    if acted.row.phase.awaits_operator() {
        bail!(
            "operation {id} is `{}`: nothing more is tried by itself. `countermand ops retry {id}` tries again, `countermand ops resolve {id}` settles it by your word",
            acted.row.phase
        );
    }
    if !acted.shown {
        bail!(
            "operation {id} does not show the cancel: what holds its ledger has not taken it, or the log above says why"
        );
    }
    bail!(
        "operation {id} has not settled yet; the cancel stays wanted and is retried{}. Look again with `countermand ops show {id}`",
        when(&acted)
    )
}
