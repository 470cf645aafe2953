//! Headers: printable ASCII in one line, or nothing is sent.

use super::{RenderedHeader, text};
use crate::template::{HeaderTemplate, Place, RenderError, Scope};
use http::{HeaderName, HeaderValue, header};

pub(super) fn render(
    headers: &[(String, HeaderTemplate)],
    scope: &Scope<'_>,
) -> Result<Vec<(HeaderName, RenderedHeader)>, RenderError> {
    let mut rendered = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let place = Place::Header(name.clone());
        let header = check_name(name).map_err(|problem| RenderError::at(&place, problem))?;
        let value = match value {
            HeaderTemplate::Secret(secret) => RenderedHeader::Secret(secret.clone()),
            HeaderTemplate::Text(template) => {
                let Some(text) = text(template, &place, scope)? else { continue };
                RenderedHeader::Value(value_of(&text).map_err(|problem| RenderError::at(&place, problem))?)
            }
        };
        rendered.push((header, value));
    }
    Ok(rendered)
}

fn value_of(text: &str) -> Result<HeaderValue, &'static str> {
    if text.chars().any(|c| c.is_ascii_control() && c != '\t') {
        return Err("it would hold a line break or another control character, which a header cannot");
    }
    if !text.is_ascii() {
        return Err(
            "it would hold characters outside ASCII, which a header cannot: send them in the query or the body",
        );
    }
    HeaderValue::from_str(text).map_err(|_| "it is no header value")
}

/// Reads a header's name, and refuses those that frame the message.
pub(crate) fn check_name(name: &str) -> Result<HeaderName, String> {
    let header =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no header name"))?;
    let framing = [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
        header::UPGRADE,
        header::TE,
        header::TRAILER,
    ];
    if framing.contains(&header) {
        return Err(format!("`{name}` belongs to the connection: leave it out"));
    }
    Ok(header)
}
