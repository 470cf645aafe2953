//! `ops cancel`: through the gateway that drives the row, or, where none runs, by driving it ourselves.

use super::{Where, as_json, find, sentence};
use crate::engines;
use anyhow::{Result, bail};
use clap::Args;
use countermand::{
    core::{
        Cause, OperationId, Row,
        event::Event,
        ports::{Action, Ledger, Request},
    },
    ledger::{OpenError, OpenMode, SqliteLedger},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long the command follows a cancel before it leaves it to the gateway, or the next one.
const FOLLOWED_FOR: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often a command that waits for a gateway looks whether that one still lives.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(1);

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The operation's id, or the beginning of it
    id: String,
    #[command(flatten)]
    place: Where,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Do not wait for the outcome
    #[arg(long)]
    no_wait: bool,
    /// The operation as one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn cancel(cancel: Cancel) -> Result<()> {
    let found = find::one(&cancel.place, &cancel.id).await?;
    let id = found.row.id;
    if found.row.phase.is_settled() {
        return tell(&cancel, &found.row, "It is settled already; there is nothing to cancel.");
    }
    let row = match SqliteLedger::open(&found.path, OpenMode::Gateway) {
        Ok(ledger) => drive(Arc::new(ledger), id, cancel.no_wait).await?,
        Err(OpenError::Locked { .. }) => {
            let action = Action::Cancel { note: cancel.note.clone() };
            found.ledger.file_request(Request { operation: id, action }).await?;
            if cancel.no_wait { found.row } else { follow(&found, id).await? }
        }
        Err(error) => return Err(error.into()),
    };
    if row.phase.is_settled() || cancel.no_wait {
        return tell(&cancel, &row, "");
    }
    tell(&cancel, &row, "")?;
    bail!(
        "operation {id} has not settled yet; the cancel stays wanted and is retried. Look again with `countermand ops show {id}`"
    )
}

/// No gateway runs: this process holds the lock, and drives the one row.
async fn drive(ledger: Arc<SqliteLedger>, id: OperationId, no_wait: bool) -> Result<Row> {
    let engine = engines::of(ledger.clone());
    engine.tell(id, Event::CancelWanted { cause: Cause::Operator, reason: None }).await?;
    let until = Instant::now() + FOLLOWED_FOR;
    let mut row = ledger.get(id).await?;
    while !row.phase.is_settled() && Instant::now() < until && !(no_wait && row.cancel_wanted()) {
        tokio::time::sleep(LOOK_EVERY).await;
        row = ledger.get(id).await?;
    }
    engine.shutdown(Duration::ZERO).await;
    Ok(row)
}

/// Whoever has the lock has been asked, and is watched. Should it end before the row is settled, or be another
/// command that drives another row, this process goes on as soon as the lock is free.
async fn follow(found: &find::Found, id: OperationId) -> Result<Row> {
    let until = Instant::now() + FOLLOWED_FOR;
    let mut try_again = Instant::now() + TAKE_OVER_EVERY;
    loop {
        let row = found.ledger.get(id).await?;
        if row.phase.is_settled() || Instant::now() >= until {
            return Ok(row);
        }
        if Instant::now() >= try_again {
            match SqliteLedger::open(&found.path, OpenMode::Gateway) {
                Ok(ledger) => return drive(Arc::new(ledger), id, false).await,
                Err(OpenError::Locked { .. }) => try_again = Instant::now() + TAKE_OVER_EVERY,
                Err(error) => return Err(error.into()),
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn tell(cancel: &Cancel, row: &Row, more: &str) -> Result<()> {
    if cancel.json {
        return super::print(format_args!("{}\n", as_json(row)));
    }
    super::print(format_args!("{}: {} {more}\n", row.id, sentence(row)))
}
