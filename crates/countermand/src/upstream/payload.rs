//! What an answer hands on to the caller: JSON, text or bytes; never cut.

use super::{HttpFailure, answer::Answer, extract::Path};
use countermand_core::ports::Payload;
use http::header;
use serde_json::Value;

/// The payload of an answer, or the part of it that `value` names.
pub(super) fn payload(answer: &Answer, value: &Path) -> Result<Payload, HttpFailure> {
    if value.source() == "$" {
        return whole(answer);
    }
    let json = answer.json()?;
    value
        .value(json)
        .map(Payload::Json)
        .ok_or_else(|| answer.unusable(&format!("the answer has nothing at `value: {}`", value.source())))
}

/// The payload of an answer as it is.
pub(super) fn whole(answer: &Answer) -> Result<Payload, HttpFailure> {
    let declared = answer.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let media_type =
        declared.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let text = |media_type: String| Payload::Text {
        media_type,
        text: String::from_utf8_lossy(&answer.body).into_owned(),
    };
    if answer.body.is_empty() {
        return Ok(text("text/plain".into()));
    }
    answer.is_plain()?;
    if media_type == "application/json" || media_type.ends_with("+json") {
        return answer.json().map(Payload::Json);
    }
    if media_type.starts_with("text/") {
        return Ok(text(media_type));
    }
    if media_type.is_empty() {
        if let Ok(json) = serde_json::from_slice::<Value>(&answer.body) {
            return Ok(Payload::Json(json));
        }
        if std::str::from_utf8(&answer.body).is_ok() {
            return Ok(text("text/plain".into()));
        }
    }
    let media_type = if media_type.is_empty() { "application/octet-stream".to_owned() } else { media_type };
    Ok(Payload::Bytes { media_type, bytes: answer.body.clone() })
}
