//! JSON-RPC envelopes: what one message is, and how ours are written. Ids, params and results stay raw.

use crate::RpcError;
use crate::json::{Members, quoted, single_line, text};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A request id as a key: the string `"1"` is not the number `1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    Text(String),
    /// As written. MCP ids are integers, which have one spelling.
    Number(String),
}

impl Id {
    /// `None` for whatever cannot be an id: `null`, objects, arrays, booleans.
    pub(crate) fn of(raw: &RawValue) -> Option<Self> {
        match raw.get().bytes().next()? {
            b'"' => Some(Self::Text(text(raw)?.into_owned())),
            // One that is too large for any reader could not be answered.
            b'-' | b'0'..=b'9' if raw.get().parse().is_ok_and(f64::is_finite) => {
                Some(Self::Number(raw.get().to_owned()))
            }
            _ => None,
        }
    }
}

/// One message of a client.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Request(Request<'a>),
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// An answer. We ask clients nothing; servers we do.
    Response(Response<'a>),
}

/// An answer: to what, and a result or an error.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// `None` where it is missing or `null`.
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) outcome: Result<&'a RawValue, &'a RawValue>,
}

#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<&'a RawValue>,
}

/// A message that is none, and what to answer.
#[derive(Debug)]
pub(crate) struct Malformed {
    /// The id, where one could be read.
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) error: RpcError,
}

impl Malformed {
    fn parse(why: impl std::fmt::Display) -> Self {
        let error = RpcError::new(RpcError::PARSE_ERROR, format!("Parse error: {why}"));
        Self { id: None, error }
    }

    fn invalid(id: Option<&RawValue>, why: &str) -> Self {
        let id = id.filter(|raw| Id::of(raw).is_some()).map(ToOwned::to_owned);
        Self { id, error: RpcError::invalid_request(format!("Invalid request: {why}")) }
    }
}

/// Reads one message.
pub(crate) fn parse(bytes: &[u8]) -> Result<Message<'_>, Malformed> {
    let json = std::str::from_utf8(bytes).map_err(|_| Malformed::parse("not UTF-8"))?;
    if json.trim_start().starts_with('[') {
        return Err(Malformed::invalid(None, "batches are not part of MCP; send one message at a time"));
    }
    let members: Members<'_> = serde_json::from_str(json).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Malformed::invalid(None, &error.to_string()),
        _ => Malformed::parse(error),
    })?;
    let id = members.get("id");
    if members.get("jsonrpc").and_then(text).as_deref() != Some("2.0") {
        return Err(Malformed::invalid(id, "`jsonrpc` must be \"2.0\""));
    }
    let Some(method) = members.get("method") else {
        // Some servers write both, and `null` for the one that it is not.
        let error = members.given("error").map(Err);
        let outcome = error.or(members.get("result").map(Ok)).or(members.get("error").map(Err));
        return match outcome {
            Some(outcome) => Ok(Message::Response(Response { id: members.given("id"), outcome })),
            None => Err(Malformed::invalid(id, "`method` is missing")),
        };
    };
    let Some(method) = text(method) else {
        return Err(Malformed::invalid(id, "`method` must be a string"));
    };
    let params = members.get("params");
    match id {
        None => Ok(Message::Notification { method, params }),
        Some(id) if Id::of(id).is_some() => Ok(Message::Request(Request { id, method, params })),
        Some(_) => Err(Malformed::invalid(None, "`id` must be a string or a number that can be read")),
    }
}

/// An answer with a result, on one line.
pub(crate) fn write_result(id: &RawValue, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, id.get(), single_line(result))
}

/// An answer with an error, on one line. Without an id it is `null`.
pub(crate) fn write_error(id: Option<&RawValue>, error: &RpcError) -> String {
    let id = id.map_or("null", RawValue::get);
    let (code, message) = (error.code, quoted(&error.message));
    match &error.data {
        Some(data) => {
            let data = single_line(data.get());
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message},"data":{data}}}}}"#
            )
        }
        None => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#),
    }
}

/// A request of ours, on one line.
pub(crate) fn write_request(id: u64, method: &str, params: Option<&RawValue>) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{}{}}}"#, quoted(method), write_params(params))
}

/// A notification, on one line.
pub(crate) fn write_notification(method: &str, params: Option<&RawValue>) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":{}{}}}"#, quoted(method), write_params(params))
}

fn write_params(params: Option<&RawValue>) -> String {
    params.map_or_else(String::new, |params| format!(r#","params":{}"#, single_line(params.get())))
}

/// A progress notification, on one line. `None` where a number is not finite, which JSON cannot write.
pub(crate) fn write_progress(
    token: &RawValue,
    progress: f64,
    total: Option<f64>,
    message: Option<&str>,
) -> Option<String> {
    use std::fmt::Write as _;
    let mut json = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":{}"#,
        token.get(),
        number(progress)?
    );
    if let Some(total) = total {
        let _ = write!(json, r#","total":{}"#, number(total)?);
    }
    if let Some(message) = message {
        let _ = write!(json, r#","message":{}"#, quoted(message));
    }
    json.push_str("}}");
    Some(json)
}

/// A whole number is written as one: `1`, not `1.0`.
fn number(value: f64) -> Option<String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !value.is_finite() {
        None
    } else if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        let whole = value as i64;
        Some(whole.to_string())
    } else {
        Some(serde_json::Value::from(value).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(json: &str) -> (Option<String>, i64) {
        let malformed = parse(json.as_bytes()).unwrap_err();
        (malformed.id.map(|id| id.get().to_owned()), malformed.error.code)
    }

    #[test]
    fn what_is_no_json_is_a_parse_error_and_what_is_no_request_an_invalid_one() {
        assert_eq!(error_of("{"), (None, -32700));
        assert_eq!(error_of("nonsense"), (None, -32700));
        assert_eq!(error_of("7"), (None, -32600));
        assert_eq!(error_of("[]"), (None, -32600));
        assert_eq!(error_of("{}"), (None, -32600));
        assert_eq!(error_of(r#"{"jsonrpc":"1.0","id":"a","method":"m"}"#), (Some("\"a\"".into()), -32600));
        assert_eq!(error_of(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#), (None, -32600));
        assert_eq!(error_of(r#"{"jsonrpc":"2.0","id":3,"method":4}"#), (Some("3".into()), -32600));
        assert_eq!(error_of(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#), (None, -32600));
        assert_eq!(parse(b"{\"a\":\"\xff\"}").unwrap_err().error.code, -32700);
    }

    #[test]
    fn an_id_is_typed() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        assert_ne!(Id::of(&raw("\"1\"")), Id::of(&raw("1")));
        assert_eq!(Id::of(&raw("\"a\"")), Id::of(&raw("\"\\u0061\"")));
        assert_eq!(Id::of(&raw("null")), None);
        assert_eq!(Id::of(&raw("true")), None);
        assert_eq!(Id::of(&raw("1e335")), None);
        assert_ne!(Id::of(&raw("1e33")), None);
    }

    #[test]
    fn whole_progress_is_written_without_a_fraction() {
        let token = RawValue::from_string("\"t\"".to_owned()).unwrap();
        let json = write_progress(&token, 1.0, Some(2.5), Some("a \"b\"")).unwrap();
        assert!(
            json.ends_with(r#"{"progressToken":"t","progress":1,"total":2.5,"message":"a \"b\""}}"#),
            "{json}"
        );
        assert_eq!(write_progress(&token, f64::NAN, None, None), None);
    }

    #[test]
    fn an_answer_is_one_line_whatever_the_result_looked_like() {
        let id = RawValue::from_string("1".to_owned()).unwrap();
        assert_eq!(write_result(&id, "{\n}"), r#"{"jsonrpc":"2.0","id":1,"result":{ }}"#);
    }
}
