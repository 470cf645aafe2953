//! `cancellation_status`: tells a caller what became of its own calls.

use super::{Gateway, answer};
use countermand::core::{
    OperationId, Principal, Row,
    ports::{LedgerError, Query},
};
use countermand_mcp::{Answer, Call, RpcError};
use serde_json::{Map, Value, json, value::RawValue};
use std::sync::Arc;

/// The tool's name.
pub(crate) const NAME: &str = "cancellation_status";

const LISTED: usize = 20;

/// The tool as `tools/list` shows it.
pub(super) fn tool() -> Arc<RawValue> {
    let operation = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "tool": { "type": "string" },
            "upstream": { "type": "string" },
            "upstream_id": { "type": ["string", "null"] },
            "status": { "type": "string" },
            "sentence": { "type": "string" },
            "settled": { "type": "boolean" },
            "cause": { "type": ["string", "null"] },
            "reason": { "type": ["string", "null"] },
            "created_at": { "type": "string", "format": "date-time" },
            "updated_at": { "type": "string", "format": "date-time" },
        },
        "required": ["id", "tool", "upstream", "upstream_id", "status", "sentence", "settled"],
    });
    let tool = json!({
        "name": NAME,
        "title": "Cancellation status",
        "description": "Tells what became of your own tool calls upstream: running, unclear, stopped, undone, finished before the cancel, cancel pending, cannot be stopped, orphaned. Use it after a call was cancelled, timed out or lost, before calling again.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "operation": { "type": "string", "description": "The id of one operation; without it the newest are listed." },
            },
            "additionalProperties": false,
        },
        "outputSchema": {
            "type": "object",
            "properties": { "operations": { "type": "array", "items": operation } },
            "required": ["operations"],
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    });
    Arc::from(serde_json::value::to_raw_value(&tool).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

pub(super) async fn serve(gateway: &Gateway, call: &Call, arguments: &Map<String, Value>) -> Answer {
    if let Some(unknown) = arguments.keys().find(|name| *name != "operation") {
        return Answer::error(RpcError::invalid_params(format!("`{NAME}` has no argument `{unknown}`")));
    }
    match rows(gateway, call, arguments.get("operation")).await {
        Ok(rows) => said(&rows),
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

async fn rows(gateway: &Gateway, call: &Call, operation: Option<&Value>) -> Result<Vec<Row>, Refused> {
    let principal = Principal(call.principal.clone());
    let Some(operation) = operation.filter(|value| !value.is_null()) else {
        let query = Query { principal: Some(principal), limit: LISTED, ..Query::default() };
        return gateway.engine.list(query).await.map_err(Refused::Ledger);
    };
    let id: OperationId = operation
        .as_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Refused::Argument("`operation` is the id of an operation, a UUID".to_owned()))?;
    match gateway.engine.ledger().get(id).await {
        // Somebody else's operation is told apart from none by nobody.
        Ok(row) if row.principal == principal => Ok(vec![row]),
        Ok(_) | Err(LedgerError::Absent { .. }) => Ok(Vec::new()),
        Err(error) => Err(Refused::Ledger(error)),
    }
}

fn said(rows: &[Row]) -> Answer {
    let text = if rows.is_empty() {
        "No operation of yours is known.".to_owned()
    } else {
        let line = |row: &Row| {
            format!("{}: {} Tool `{}`, {}.", row.id, answer::sentence(row), row.tool, answer::named(row))
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let operations: Vec<Value> = rows.iter().map(operation).collect();
    Answer::result(answer::structured(&text, json!({ "operations": operations })))
}

fn operation(row: &Row) -> Value {
    let mut value = answer::operation(row);
    let more = json!({
        "sentence": answer::sentence(row),
        "settled": row.phase.is_settled(),
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
