//! An operation as JSON: what `ops --json` prints, and what `on_orphan` is told.

use crate::answer::rfc3339;
use countermand::core::Row;
use serde_json::{Value, json};

/// Every key always present, null when empty.
pub(crate) fn as_json(row: &Row) -> Value {
    json!({
        "id": row.id,
        "call": row.call,
        "session": row.session,
        "request_id": row.request_id,
        "principal": row.principal,
        "tool": row.tool,
        "upstream": Some(&row.upstream).filter(|upstream| !upstream.is_empty()),
        "kind": row.kind,
        "phase": row.phase,
        "was": row.was,
        "desired": row.desired,
        "cause": row.cause,
        "reason": row.reason,
        "outcome": row.outcome,
        "upstream_id": row.upstream_id,
        "key": row.key,
        "attempts": row.attempts,
        "next_at": row.next_at.map(rfc3339),
        "last_error": row.last_error,
        "on_disconnect": row.on_disconnect,
        "disconnect_at": row.disconnect_at.map(rfc3339),
        "hard_deadline": rfc3339(row.hard_deadline),
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
        "settled": row.phase.is_settled(),
    })
}
