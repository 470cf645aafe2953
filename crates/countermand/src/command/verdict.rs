//! What the end of a program means.

use super::run::Run;
use crate::{
    definition::{CommandDefinition, ExitDefinition, OutputFormat},
    process::Exit,
};
use countermand_core::{
    Row,
    event::{End, StatusAnswer, Trouble},
    ports::{Payload, Read},
};
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

/// Where a row keeps why there is no result.
const NO_RESULT: &str = "no_result";

/// What a status read says of a program of which nothing lives.
pub(super) fn ended(command: &CommandDefinition, row: &Row, run: &Run, exit: Exit) -> Read {
    let mut saved = Map::new();
    saved.insert("exit".into(), Value::String(exit.to_string()));
    let mut payload = None;
    let (end, error) = match how(&command.exit, exit) {
        How::Stopped => (End::Cancelled, None),
        // It was told to stop as soon as we knew of it, and so it is what was wanted, or a failure that has its reason.
        How::Unknown if row.cancel_wanted() => (End::Cancelled, None),
        How::Unknown => (End::Failed, Some(UNKNOWN.to_owned())),
        How::Completed => {
            match result(command, run) {
                Ok(result) => payload = Some(result),
                Err(why) => drop(saved.insert(NO_RESULT.into(), Value::String(why))),
            }
            (End::Completed, None)
        }
        How::Failed(why) => {
            let said =
                run.capture.last_words().map_or_else(String::new, |words| format!("; it said last: {words}"));
            (End::Failed, Some(format!("{why}{said}")))
        }
    };
    Read { answer: StatusAnswer::Ended { end, error, saved }, progress: None, payload }
}

const UNKNOWN: &str =
    "it was ended, since the gateway that had started it had gone; how far it had come is not known";

/// Why there is no result of a row that has completed.
pub(super) fn no_result(row: &Row) -> Trouble {
    let known = row.detail.get(NO_RESULT).and_then(Value::as_str);
    Trouble::new(known.unwrap_or("it was written to a gateway that has gone"))
}

enum How {
    Completed,
    Failed(String),
    Stopped,
    Unknown,
}

fn how(codes: &ExitDefinition, exit: Exit) -> How {
    match (exit.status, exit.code()) {
        (None, _) => How::Unknown,
        _ if exit.stopped => How::Stopped,
        (_, Some(code)) if codes.ok.contains(&code) => How::Completed,
        (_, code) => {
            let meaning = code.and_then(|code| codes.failed.get(&code));
            How::Failed(meaning.map_or_else(|| exit.to_string(), |meaning| format!("{meaning} ({exit})")))
        }
    }
}

/// What it has written, as what the tool says it is.
fn result(command: &CommandDefinition, run: &Run) -> Result<Payload, String> {
    let (written, max) = (run.capture.written(), command.max_bytes);
    let Some(stdout) = run.capture.take_stdout() else {
        return Err(format!("it wrote {written} bytes, and no more than {max} are handed on (`max_bytes`)"));
    };
    match &command.result {
        OutputFormat::Text => Ok(match String::from_utf8(stdout) {
            Ok(text) => Payload::Text { media_type: "text/plain".into(), text },
            Err(bytes) => {
                Payload::Bytes { media_type: "application/octet-stream".into(), bytes: bytes.into_bytes() }
            }
        }),
        OutputFormat::Json(value) => {
            let json: Value = serde_json::from_slice(&stdout)
                .map_err(|error| format!("what it wrote to standard output is no JSON ({error})"))?;
            let path = JsonPath::parse(value)
                .map_err(|error| format!("`value: {value}` is no JSONPath: {error}"))?;
            let found = path.query(&json).first().cloned();
            found.map(Payload::Json).ok_or_else(|| format!("what it wrote has nothing at `value: {value}`"))
        }
    }
}
