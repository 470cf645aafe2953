//! The shape of results: what a revision adds to them, without re-typing the rest.

use crate::json::{Members, is_object};
use crate::{Answer, Revision, RpcError, message};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An answer to one call, ready for the wire.
pub(crate) struct Encoded {
    /// On one line.
    pub(crate) json: String,
    /// The error's code, if it is one.
    pub(crate) error: Option<i64>,
}

/// Writes the answer to `id` as `revision` wants it.
pub(crate) fn encode(id: &RawValue, result: &Result<Box<RawValue>, RpcError>, revision: Revision) -> Encoded {
    let failed =
        |error: &RpcError| Encoded { json: message::write_error(Some(id), error), error: Some(error.code) };
    match result {
        Err(error) => failed(error),
        Ok(result) => match shape(result, revision) {
            Some(result) => Encoded { json: message::write_result(id, &result), error: None },
            None => {
                failed(&RpcError::new(RpcError::INTERNAL_ERROR, "Internal error: a result must be an object"))
            }
        },
    }
}

/// Results of 2026-07-28 say what they are; one that already does is left alone. `None` if it is no object.
fn shape(result: &RawValue, revision: Revision) -> Option<Cow<'_, str>> {
    if !is_object(result) {
        return None;
    }
    if !revision.is_stateless() || Members::of(result).ok()?.get("resultType").is_some() {
        return Some(Cow::Borrowed(result.get()));
    }
    let rest = result.get()[1..].trim_start();
    let comma = if rest.starts_with('}') { "" } else { "," };
    Some(Cow::Owned(format!(r#"{{"resultType":"complete"{comma}{rest}"#)))
}

impl Answer {
    pub(crate) fn encode(&self, id: &RawValue, revision: Revision) -> Encoded {
        encode(id, &self.result, revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(json: &str, revision: Revision) -> Option<String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        shape(&raw, revision).map(Cow::into_owned)
    }

    #[test]
    fn the_result_type_is_spliced_in_and_the_rest_is_as_it_was() {
        let new = Revision::V2026_07_28;
        assert_eq!(
            shaped(r#"{ "content" : [1.0]}"#, new).unwrap(),
            r#"{"resultType":"complete","content" : [1.0]}"#
        );
        assert_eq!(shaped("{ }", new).unwrap(), r#"{"resultType":"complete"}"#);
        let own = r#"{"resultType":"input_required"}"#;
        assert_eq!(shaped(own, new).unwrap(), own);
        let nested = r#"{"content":[{"resultType":1}]}"#;
        assert!(shaped(nested, new).unwrap().starts_with(r#"{"resultType":"complete","#));
    }

    #[test]
    fn older_peers_get_it_as_it_is() {
        assert_eq!(shaped(r#"{"a":1}"#, Revision::V2025_11_25).unwrap(), r#"{"a":1}"#);
    }

    #[test]
    fn a_result_that_is_no_object_is_none() {
        assert_eq!(shaped("[]", Revision::V2026_07_28), None);
    }
}
