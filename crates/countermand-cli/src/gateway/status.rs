//! `cancellation_status`: tells a caller what became of its own calls.

use super::Gateway;
use crate::answer;
use countermand::core::{
    OnDisconnect, OperationId, Principal, Row, Timestamp,
    ports::{LedgerError, Query},
};
use countermand_mcp::{Answer, Call, RpcError};
use serde_json::{Map, Value, json, value::RawValue};
use std::sync::Arc;

/// The tool's name.
pub(crate) const NAME: &str = "cancellation_status";

/// How many operations are shown at most.
const LISTED: usize = 50;

/// The tool as `tools/list` shows it.
pub(super) fn tool() -> Arc<RawValue> {
    let tool = json!({
        "name": NAME,
        "title": "Cancellation status",
        "description": "Tells what became of your own tool calls upstream: running, client away, detached, unclear, stopped, undone, finished before the cancel, cancel pending, cannot be stopped, orphaned. Use it after a call was cancelled, timed out or lost, before calling again.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "operation": { "type": "string", "description": "The id of one operation. Without it: all that has not ended, then what was cancelled or whose answer was lost, newest first." },
            },
            "additionalProperties": false,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "operations": { "type": "array", "items": shape() },
                "more": { "type": "boolean", "description": "Whether there are more than are shown." },
            },
            "required": ["operations", "more"],
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    });
    Arc::from(serde_json::value::to_raw_value(&tool).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

/// The JSON Schema of what [`operation`] makes: every key, always there.
fn shape() -> Value {
    let text = || json!({ "type": "string" });
    let maybe = || json!({ "type": ["string", "null"] });
    let when = |what: &str| json!({ "type": "string", "format": "date-time", "description": what });
    let until =
        |what: &str| json!({ "type": ["string", "null"], "format": "date-time", "description": what });
    let truth = |what: &str| json!({ "type": "boolean", "description": what });
    let keys = [
        ("id", text()),
        ("tool", text()),
        ("upstream", text()),
        ("upstream_id", maybe()),
        ("kind", text()),
        ("phase", text()),
        ("outcome", maybe()),
        ("status", text()),
        ("sentence", text()),
        ("settled", truth("Whether nothing of it can be alive upstream, and nothing is owed.")),
        ("detached", truth("Whether it runs on when its client has left.")),
        ("ends_by", until("When its lifetime ends it; null once it is settled.")),
        (
            "client_back_by",
            until("When it is cancelled unless its client is back; null where nobody is waited for."),
        ),
        ("cause", maybe()),
        ("reason", maybe()),
        ("last_error", maybe()),
        ("created_at", when("When it was recorded.")),
        ("updated_at", when("When it was last written.")),
    ];
    let required: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        keys.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

pub(super) async fn serve(gateway: &Gateway, call: &Call, arguments: &Map<String, Value>) -> Answer {
    if let Some(unknown) = arguments.keys().find(|name| *name != "operation") {
        return Answer::error(RpcError::invalid_params(format!("`{NAME}` has no argument `{unknown}`")));
    }
    match rows(gateway, call, arguments.get("operation")).await {
        Ok(found) => said(&found),
        Err(Refused::Argument(why)) => Answer::error(RpcError::invalid_params(why)),
        Err(Refused::Ledger(error)) => {
            Answer::result(answer::error(&format!("The ledger could not be read: {error}"), None))
        }
    }
}

enum Refused {
    Argument(String),
    Ledger(LedgerError),
}

/// What is shown, and whether there is more.
struct Found {
    rows: Vec<Row>,
    more: bool,
}

async fn rows(gateway: &Gateway, call: &Call, operation: Option<&Value>) -> Result<Found, Refused> {
    let principal = Principal(call.client.principal.clone());
    let Some(operation) = operation.filter(|value| !value.is_null()) else {
        return what_matters(gateway, principal).await.map_err(Refused::Ledger);
    };
    let id: OperationId = operation
        .as_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Refused::Argument("`operation` is the id of an operation, a UUID".to_owned()))?;
    let rows = match gateway.engine.ledger().get(id).await {
        // Somebody else's operation is told apart from none by nobody.
        Ok(row) if row.principal == principal => vec![row],
        Ok(_) | Err(LedgerError::Absent { .. }) => Vec::new(),
        Err(error) => return Err(Refused::Ledger(error)),
    };
    Ok(Found { rows, more: false })
}

/// What has not ended, then what its caller may not know the end of; each newest first. What was simply
/// answered is left out: it would push out what matters.
async fn what_matters(gateway: &Gateway, principal: Principal) -> Result<Found, LedgerError> {
    let unsettled =
        Query { unsettled: true, principal: Some(principal), limit: LISTED + 1, ..Query::default() };
    let untold = Query { unsettled: false, untold: true, ..unsettled.clone() };
    let mut rows = gateway.engine.list(unsettled).await?;
    if rows.len() <= LISTED {
        for row in gateway.engine.list(untold).await? {
            // One that has settled between the two reads is in both.
            match rows.iter_mut().find(|known| known.id == row.id) {
                Some(known) => *known = row,
                None => rows.push(row),
            }
        }
    }
    let more = rows.len() > LISTED;
    rows.truncate(LISTED);
    Ok(Found { rows, more })
}

fn said(found: &Found) -> Answer {
    let line = |row: &Row| {
        format!("{}: {} Tool `{}`, {}.", row.id, answer::sentence(row), row.tool, answer::named(row))
    };
    let mut lines: Vec<String> = found.rows.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("No operation of yours that is running, was cancelled or was lost is known.".to_owned());
    }
    if found.more {
        lines.push(format!("There are more: only {LISTED} are shown. Ask for another one by its id."));
    }
    let operations: Vec<Value> = found.rows.iter().map(operation).collect();
    let content = json!({ "operations": operations, "more": found.more });
    Answer::result(answer::structured(&lines.join("\n"), content))
}

fn operation(row: &Row) -> Value {
    let mut value = answer::operation(row);
    let settled = row.phase.is_settled();
    let until = |at: Option<Timestamp>| at.filter(|_| !settled).map(answer::rfc3339);
    let more = json!({
        "sentence": answer::sentence(row),
        "settled": settled,
        "detached": row.on_disconnect == OnDisconnect::Detach,
        "ends_by": until(Some(row.hard_deadline)),
        "client_back_by": until(row.disconnect_at),
        "cause": row.cause,
        "reason": row.reason,
        "last_error": row.last_error,
        "created_at": answer::rfc3339(row.created_at),
        "updated_at": answer::rfc3339(row.updated_at),
    });
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}
