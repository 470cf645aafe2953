//! Messages, as this server reads and writes them: values, and raw text where every byte must stay.

use serde_json::{Value, value::RawValue};
use std::io::{self, Write as _};

/// A message that arrived, in pieces.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Heard<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

impl Heard<'_> {
    /// The params as a value; an empty object where there are none.
    pub(super) fn value(&self) -> Value {
        self.params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// The params as they were written.
    pub(super) fn raw(&self) -> &str {
        self.params.map_or("null", RawValue::get)
    }
}

/// Writes one line.
pub(super) fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

pub(super) fn result(id: &str, raw: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{raw}}}"#)
}

pub(super) fn error(id: &str, raw: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{raw}}}"#)
}

pub(super) fn notification(method: &str, raw: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{raw}}}"#)
}
