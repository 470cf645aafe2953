//! The headers that we send: what each revision wants of them, over those that the target is configured with.

use super::Link;
use crate::json::text;
use crate::peer::words::{Lost, Outgoing};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";

/// What a message is, outside of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Manner {
    /// `initialize`: no revision and no session yet.
    Opening,
    /// A message of a session, or of what passes for one.
    InSession,
    /// A request that stands alone: with these headers.
    Alone(Vec<(HeaderName, HeaderValue)>),
}

impl Manner {
    /// How a stateless request goes.
    pub(super) fn alone(ask: &Outgoing) -> Self {
        let mut headers = vec![(VERSION, HeaderValue::from_static("2026-07-28"))];
        let method = encoded(&ask.method).filter(|method| !method.is_empty());
        headers.extend(method.map(|method| (METHOD, method)));
        headers.extend(name_of(ask).and_then(|name| encoded(&name)).map(|name| (NAME, name)));
        for (name, value) in &ask.headers {
            let header = HeaderName::try_from(name).ok().filter(|name| name.as_str().starts_with(PARAM));
            match header.zip(encoded(value)) {
                Some(header) => headers.push(header),
                None => tracing::debug!("a header of a request is no Mcp-Param header and was left out"),
            }
        }
        Self::Alone(headers)
    }

    pub(super) fn is_stateless(&self) -> bool {
        matches!(self, Self::Alone(_))
    }
}

/// What `Mcp-Name` has to say.
fn name_of(ask: &Outgoing) -> Option<Cow<'_, str>> {
    let member = match ask.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return ask.name.as_deref().map(Cow::Borrowed),
    };
    let inside = || ask.params.iter().find(|(name, _)| name == member).and_then(|(_, value)| text(value));
    ask.name.as_deref().map(Cow::Borrowed).or_else(inside)
}

/// A value as a header can carry it: as it is, or wrapped in Base64.
fn encoded(value: &str) -> Option<HeaderValue> {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim_matches(' ').len() == value.len()
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain {
        HeaderValue::from_str(value).ok()
    } else {
        HeaderValue::from_str(&format!("=?base64?{}?=", BASE64_STANDARD.encode(value))).ok()
    }
}

impl Link {
    /// The headers of a request. Asks the target for its own, which are secrets.
    pub(super) fn headers(&self, manner: &Manner) -> Result<HeaderMap, Lost> {
        let own = (self.target.headers)();
        let mut headers =
            own.map_err(|why| Lost::NotSent(format!("its headers are not to be had: {why}")))?;
        for value in headers.values_mut() {
            value.set_sensitive(true);
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.remove(VERSION);
        headers.remove(SESSION);
        match manner {
            Manner::Opening => {}
            Manner::InSession => {
                let spoken = self.connection.spoken.get();
                let version = spoken.and_then(|spoken| HeaderValue::from_str(&spoken.version).ok());
                headers.extend(version.map(|version| (VERSION, version)));
                headers.extend(self.session.get().map(|session| (SESSION, session.clone())));
            }
            Manner::Alone(theirs) => {
                for (name, value) in theirs {
                    headers.insert(name, value.clone());
                }
            }
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_header_cannot_carry_is_wrapped() {
        let wrapped = |value| encoded(value).unwrap().to_str().unwrap().to_owned();
        assert_eq!(wrapped("us-west1"), "us-west1");
        assert_eq!(wrapped("a b"), "a b");
        assert_eq!(wrapped(""), "");
        assert_eq!(wrapped("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
        assert_eq!(wrapped(" padded "), "=?base64?IHBhZGRlZCA=?=");
        assert_eq!(wrapped("line1\nline2"), "=?base64?bGluZTEKbGluZTI=?=");
        assert_eq!(wrapped("=?base64?literal?="), "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
    }
}
