//! What a caller is told: results, and truthful words where there is none.

use base64::Engine as _;
use countermand::{
    core::{
        Cause, Kind, Outcome, Phase, Row, Timestamp,
        ports::Payload,
        words::{self, Said},
    },
    engine::View,
};
use serde_json::{Map, Value, json, value::RawValue};

/// The member of a result's `_meta` that names the operations of a call.
pub(crate) const OPERATIONS: &str = "dev.countermand/operations";

/// A point in time, RFC 3339 in UTC.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros()).map(|t| t.to_string()).unwrap_or_default()
}

/// A result that carries what the upstream returned.
pub(crate) fn payload(payload: &Payload, uri: &str, row: Option<&Row>) -> Box<RawValue> {
    let mut result = Map::new();
    if let Payload::Json(value @ Value::Object(_)) = payload {
        result.insert("structuredContent".into(), value.clone());
    }
    result.insert("content".into(), json!([content(payload, uri)]));
    result.insert("isError".into(), false.into());
    finish(result, row)
}

/// A result that carries what the upstream returned although it is not what the tool promises: nothing is lost, and no
/// client takes it for what it is not.
pub(crate) fn misfit(payload: &Payload, uri: &str, wrong: &[String], row: Option<&Row>) -> Box<RawValue> {
    let of = row.map(|row| format!(" This was {}.", named(row))).unwrap_or_default();
    let text = format!(
        "It finished, but what the upstream returned does not fit the tool's output schema; it follows as it came.{of}\n{}",
        wrong.join("\n")
    );
    let mut result = Map::new();
    result.insert("content".into(), json!([{ "type": "text", "text": text }, content(payload, uri)]));
    result.insert("isError".into(), true.into());
    finish(result, row)
}

fn content(payload: &Payload, uri: &str) -> Value {
    match payload {
        Payload::Json(value) => {
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            json!({ "type": "text", "text": text })
        }
        Payload::Text { text, .. } => json!({ "type": "text", "text": text }),
        Payload::Bytes { media_type, bytes } => json!({
            "type": "resource",
            "resource": {
                "uri": uri,
                "mimeType": media_type,
                "blob": base64::engine::general_purpose::STANDARD.encode(bytes),
            },
        }),
    }
}

/// A result that says what went wrong.
pub(crate) fn error(text: &str, row: Option<&Row>) -> Box<RawValue> {
    let mut result = Map::new();
    result.insert("content".into(), json!([{ "type": "text", "text": text }]));
    result.insert("isError".into(), true.into());
    finish(result, row)
}

/// A result of structured content, and the same in words.
pub(crate) fn structured(text: &str, value: Value) -> Box<RawValue> {
    let mut result = Map::new();
    result.insert("content".into(), json!([{ "type": "text", "text": text }]));
    result.insert("structuredContent".into(), value);
    result.insert("isError".into(), false.into());
    finish(result, None)
}

fn finish(mut result: Map<String, Value>, row: Option<&Row>) -> Box<RawValue> {
    if let Some(row) = row {
        result.insert("_meta".into(), json!({ OPERATIONS: [operation(row)] }));
    }
    serde_json::value::to_raw_value(&result).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// An operation as its caller may see it.
pub(crate) fn operation(row: &Row) -> Value {
    let said = words::describe(row);
    json!({
        "id": row.id.to_string(),
        "tool": row.tool,
        "upstream": Some(&row.upstream).filter(|upstream| !upstream.is_empty()),
        "upstream_id": row.upstream_id,
        "kind": row.kind,
        "phase": row.phase,
        "outcome": row.outcome,
        "status": said.as_str(),
    })
}

/// How an operation is named to a person: ours, and the upstream's id where there is one.
pub(crate) fn named(row: &Row) -> String {
    // What is done here has no upstream.
    let at = if row.upstream.is_empty() { String::new() } else { format!(" at {}", row.upstream) };
    match &row.upstream_id {
        Some(id) => format!("operation {} ({} {id}{at})", row.id, row.kind),
        None => format!("operation {} ({}{at})", row.id, row.kind),
    }
}

/// What is said of a cancel's state, with the time where there is one.
pub(crate) fn sentence(row: &Row) -> String {
    match words::describe(row) {
        Said::CannotBeStopped { ends_by } => {
            format!("The upstream cannot stop it; it is watched until {} at the latest.", rfc3339(ends_by))
        }
        Said::ClientAway { until } => format!(
            "Its client has left; it runs on upstream and is cancelled at {} unless the client is back.",
            rfc3339(until)
        ),
        Said::Detached { ends_by } => format!(
            "It runs on upstream without its client; its lifetime ends it at {} at the latest.",
            rfc3339(ends_by)
        ),
        said => said.sentence().to_owned(),
    }
}

/// What a call is told that somebody else than its client has ended.
pub(crate) fn ended_by(cause: Cause, row: Option<&Row>, timeout: std::time::Duration) -> String {
    let why = match cause {
        Cause::Deadline => match row {
            // A request to an MCP server has no lifetime of its own.
            Some(row) if row.policy.kind != Kind::Mcp && row.policy.lifetime <= timeout => {
                format!("its lifetime of {} is over", spoken(row.policy.lifetime))
            }
            _ => format!("it took longer than its timeout of {}", spoken(timeout)),
        },
        Cause::Operator => "an operator cancelled it".to_owned(),
        Cause::Shutdown => "the gateway is shutting down".to_owned(),
        Cause::ClientCancelled | Cause::ClientDisconnected | Cause::SessionEnded => {
            "its client left".to_owned()
        }
    };
    match row {
        None => format!("The call was ended: {why}. Nothing runs upstream because of it."),
        Some(row) => {
            let trouble = row.last_error.as_deref();
            let trouble = trouble.map(|error| format!(" Its last trouble: {error}.")).unwrap_or_default();
            format!(
                "The call was ended: {why}. {}{trouble} This concerns {}; `cancellation_status` tells what becomes of it.",
                sentence(row),
                named(row)
            )
        }
    }
}

/// What a call is told whose operation came to an end without a result.
pub(crate) fn without_result(view: &View) -> String {
    let row = &view.row;
    let detail = row.last_error.as_deref().map(|error| format!(" ({error})")).unwrap_or_default();
    let named = named(row);
    match (row.phase, row.outcome) {
        _ if words::never_arrived(row) => format!(
            "It was not there upstream when its create could no longer arrive (`horizon`), so it counts as not started{detail}. This was {named}."
        ),
        (Phase::Failed, None) | (Phase::NeverCreated, _) => {
            format!("Nothing was started upstream{detail}. This was {named}.")
        }
        (Phase::Failed, _) if row.upstream_id.is_none() => {
            format!("It was not started, and nothing of it runs upstream{detail}. This was {named}.")
        }
        (_, Some(Outcome::Failed)) => format!("It failed upstream{detail}. This was {named}."),
        (_, Some(Outcome::Cancelled)) => {
            format!("It was cancelled upstream, not by this call{detail}. This was {named}.")
        }
        (_, Some(Outcome::Gone)) => format!("It is gone upstream{detail}. This was {named}."),
        (Phase::Orphaned, _) => format!(
            "Its state upstream is not known, and it may still run there{detail}. It is looked for and retried: {named}."
        ),
        _ => format!("{}{detail} This is {named}.", sentence(row)),
    }
}

/// A duration as people write it.
pub(crate) fn spoken(duration: std::time::Duration) -> String {
    match jiff::SignedDuration::try_from(duration) {
        Ok(duration) => format!("{duration:#}"),
        Err(_) => format!("{} s", duration.as_secs()),
    }
}
