//! What of an operation has been undone, and what has not.

use crate::plan::undo_line;
use countermand::{
    core::{
        Phase, Row,
        ports::{Ledger, LedgerError},
    },
    definition::ToolDefinition,
};

/// One undo request, as it is configured, and what became of it.
pub(super) struct Undo {
    pub(super) request: String,
    pub(super) state: &'static str,
}

/// The undo requests of an operation that is, or was to be, undone; in their order.
pub(super) async fn of(ledger: &dyn Ledger, row: &Row) -> Result<Vec<Undo>, LedgerError> {
    let is_undone = matches!(row.phase, Phase::Compensating | Phase::CompensationFailed | Phase::Compensated);
    if !is_undone && row.undo_key.is_none() {
        return Ok(Vec::new());
    }
    let stored = ledger.definition(row.definition.clone()).await?;
    // One of another version: the history tells.
    let Ok(definition) = ToolDefinition::from_stored(&stored) else { return Ok(Vec::new()) };
    let undo = definition.compensate.iter().zip(0..).map(|(step, number)| {
        let state = match row.phase {
            _ if number < row.undo_next => "done",
            _ if number > row.undo_next => "not sent",
            Phase::CompensationFailed => "failed",
            Phase::Compensating if row.attempts > 0 => "failing, tried again",
            Phase::Compensating => "next",
            _ => "not done",
        };
        Undo { request: undo_line(step), state }
    });
    Ok(undo.collect())
}
