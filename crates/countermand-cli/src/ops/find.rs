//! Finds the one operation that an id, its beginning or its ending, names.

use super::Where;
use anyhow::{Result, bail};
use countermand::{
    core::{
        Row,
        ports::{Ledger as _, Query},
    },
    ledger::SqliteLedger,
};
use std::path::PathBuf;

/// A whole id.
const WHOLE: usize = 36;

/// How many rows are read at once where an ending is looked for: no index knows endings.
const PAGE: usize = 1_000;

/// An operation, and the ledger that has it.
pub(super) struct Found {
    pub(super) row: Row,
    pub(super) path: PathBuf,
    pub(super) ledger: SqliteLedger,
}

/// The operation whose id starts with this text; where none does, the one whose id ends with it. Tables
/// show endings, for ids of one minute begin alike.
pub(super) async fn one(place: &Where, id: &str) -> Result<Found> {
    let text = id.trim().trim_start_matches('…').to_ascii_lowercase();
    for by in [By::Beginning, By::Ending] {
        if matches!(by, By::Ending) && text.len() >= WHOLE {
            break;
        }
        let mut found = Vec::new();
        for (path, ledger) in place.open_all()? {
            let mut rows = by.of(&ledger, &text).await?;
            if rows.len() > 1 {
                bail!("more than one operation's id {} `{id}`: write more of it", by.word());
            }
            found.extend(rows.pop().map(|row| Found { row, path, ledger }));
        }
        match found.pop() {
            Some(one) if found.is_empty() => return Ok(one),
            Some(_) => bail!("more than one operation's id {} `{id}`: write more of it", by.word()),
            None => {}
        }
    }
    bail!(
        "no operation's id starts with `{id}`, or ends with it: `countermand ops list` shows those there are"
    )
}

#[derive(Clone, Copy)]
enum By {
    Beginning,
    Ending,
}

impl By {
    const fn word(self) -> &'static str {
        match self {
            Self::Beginning => "starts with",
            Self::Ending => "ends with",
        }
    }

    /// The rows of a ledger that fit: all of them, or two, which is too many.
    async fn of(self, ledger: &SqliteLedger, text: &str) -> Result<Vec<Row>> {
        if matches!(self, Self::Beginning) {
            let query = Query { id_prefix: Some(text.to_owned()), limit: 2, ..Query::default() };
            return Ok(ledger.list(query).await?);
        }
        let mut fitting = Vec::new();
        let mut after = None;
        while fitting.len() < 2 {
            let rows = ledger.list(Query { limit: PAGE, after, ..Query::default() }).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.id);
            fitting.extend(rows.into_iter().filter(|row| row.id.to_string().ends_with(text)));
        }
        Ok(fitting)
    }
}
