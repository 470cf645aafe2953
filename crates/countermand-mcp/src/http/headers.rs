//! The `Mcp-*` headers of 2026-07-28: what a request says about itself outside its body must be what is inside.

use crate::message::Request;
use crate::params::Params;
use crate::{Revision, RpcError};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use serde_json::Value;
use std::borrow::Cow;

pub(super) const VERSION: &str = "MCP-Protocol-Version";
/// What a session's client proves itself by.
pub(super) const SESSION: &str = "Mcp-Session-Id";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";

fn mismatch(why: impl std::fmt::Display) -> RpcError {
    RpcError::header_mismatch(format!("Header mismatch: {why}"))
}

/// The one value of a header. Two would let a proxy and us read two different ones.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format_args!("{name} is there twice")));
    }
    value.to_str().map(Some).map_err(|_| mismatch(format_args!("{name} contains invalid characters")))
}

/// A value that may be wrapped as `=?base64?…?=`.
fn decoded<'h>(name: &str, value: &'h str) -> Result<Cow<'h, str>, RpcError> {
    match value.strip_prefix("=?base64?").and_then(|value| value.strip_suffix("?=")) {
        None => Ok(Cow::Borrowed(value)),
        Some(wrapped) => BASE64_STANDARD
            .decode(wrapped)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .map(Cow::Owned)
            .ok_or_else(|| mismatch(format_args!("{name} is not valid Base64"))),
    }
}

fn required(headers: &HeaderMap, name: &str) -> Result<String, RpcError> {
    match single(headers, name)? {
        Some(value) => decoded(name, value).map(Cow::into_owned),
        None => Err(mismatch(format_args!(
            "the {name} header is missing; protocol versions served here: {}, the older ones in a session that `initialize` begins",
            Revision::ALL.map(Revision::as_str).join(", ")
        ))),
    }
}

/// Checks the headers of a request that stands alone, and says which revision it is served under.
pub(super) fn check(
    headers: &HeaderMap,
    request: &Request<'_>,
    params: &Params<'_>,
) -> Result<Revision, RpcError> {
    let version = single(headers, VERSION)?;
    let version = match version {
        Some(version) => version.to_owned(),
        None => required(headers, VERSION)?,
    };
    let revision = Revision::from_date(&version);
    match (params.revision(), revision) {
        (Some(inside), _) if inside != version => {
            return Err(mismatch(format_args!("{VERSION} is {version}, the body says {inside}")));
        }
        (_, None) => return Err(RpcError::unsupported_revision(&version, &Revision::ALL)),
        (_, Some(revision)) if !revision.is_stateless() => {
            return Err(RpcError::invalid_request(format!(
                "Invalid request: in {revision} a request belongs to a session; send `initialize` first, and its {SESSION} with each request"
            )));
        }
        _ => {}
    }
    let method = single(headers, METHOD)?;
    if method != Some(request.method.as_ref()) {
        let method = method.unwrap_or("missing");
        return Err(mismatch(format_args!("{METHOD} is {method}, the body says {}", request.method)));
    }
    let named = match request.method.as_ref() {
        "tools/call" | "prompts/get" => params.text("name"),
        "resources/read" => params.text("uri"),
        _ => None,
    };
    if let Some(inside) = named {
        let outside = required(headers, NAME)?;
        if outside != inside {
            return Err(mismatch(format_args!("{NAME} is {outside}, the body says {inside}")));
        }
    }
    let revision = revision.unwrap_or(Revision::V2026_07_28);
    params.require_metadata(revision)?;
    Ok(revision)
}

/// Whether a request names a stateless revision in its headers or its body.
pub(super) fn stands_alone(headers: &HeaderMap, params: &Params<'_>) -> bool {
    let outside = headers.get(VERSION).and_then(|version| version.to_str().ok()).map(Cow::Borrowed);
    [outside, params.revision()]
        .into_iter()
        .flatten()
        .any(|version| Revision::from_date(&version).is_some_and(Revision::is_stateless))
}

/// Checks one argument that its tool wants mirrored in `Mcp-Param-NAME`.
pub(super) fn check_param(headers: &HeaderMap, name: &str, inside: Option<&Value>) -> Result<(), RpcError> {
    let header = format!("Mcp-Param-{name}");
    let outside = match single(headers, &header)? {
        Some(value) => Some(decoded(&header, value)?),
        None => None,
    };
    match (outside, inside.filter(|value| !value.is_null())) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(mismatch(format_args!("the {header} header is missing"))),
        (Some(outside), Some(inside)) if same(&outside, inside) => Ok(()),
        (Some(_), Some(_)) => Err(mismatch(format_args!("{header} is not what the body says"))),
        (Some(_), None) => Err(mismatch(format_args!("{header} is there, its argument is not"))),
    }
}

/// Numbers are compared as numbers: `42.0` is `42`.
fn same(outside: &str, inside: &Value) -> bool {
    match inside {
        Value::String(text) => text == outside,
        Value::Bool(flag) => outside == if *flag { "true" } else { "false" },
        Value::Number(number) => {
            number.to_string() == outside
                || outside.parse::<f64>().is_ok_and(|outside| number.as_f64() == Some(outside))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn param(header: Option<&str>, inside: Option<Value>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert("Mcp-Param-Region", header.parse().unwrap());
        }
        check_param(&headers, "Region", inside.as_ref()).is_ok()
    }

    #[test]
    fn a_mirrored_argument_must_be_the_same_and_there() {
        assert!(param(Some("eu"), Some(json!("eu"))));
        assert!(param(Some("42.0"), Some(json!(42))));
        assert!(param(Some("true"), Some(json!(true))));
        assert!(param(None, None) && param(None, Some(Value::Null)));
        assert!(!param(Some("us"), Some(json!("eu"))));
        assert!(!param(None, Some(json!("eu"))));
        assert!(!param(Some("eu"), None));
    }

    #[test]
    fn a_wrapped_value_is_unwrapped_before_it_is_compared() {
        assert!(param(Some("=?base64?SGVsbG8sIOS4lueVjA==?="), Some(json!("Hello, 世界"))));
        assert!(param(Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="), Some(json!("=?base64?literal?="))));
        assert!(!param(Some("=?base64?!!?="), Some(json!("x"))));
    }
}
