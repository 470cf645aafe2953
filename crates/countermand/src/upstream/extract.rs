//! What is taken out of an answer: ids, states, saved values, results.

use super::answer::Answer;
use crate::definition::Extract;
use countermand_core::UpstreamId;
use http::{HeaderMap, HeaderName, header};
use serde_json::{Map, Value};
use serde_json_path::JsonPath;
use std::collections::BTreeMap;
use url::Url;

/// A JSONPath that was read.
#[derive(Debug, Clone)]
pub(super) struct Path {
    path: JsonPath,
    source: String,
}

impl Path {
    pub(super) fn new(source: &str) -> Result<Self, String> {
        crate::template::check_json_path(source).map_err(|error| error.message)?;
        let path = JsonPath::parse(source).map_err(|error| error.to_string())?;
        Ok(Self { path, source: source.to_owned() })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The first node that is not null.
    pub(super) fn first<'v>(&self, body: &'v Value) -> Option<&'v Value> {
        self.path.query(body).into_iter().find(|node| !node.is_null())
    }

    /// What it names: one node of a path that can name only one, else an array of all.
    pub(super) fn value(&self, body: Value) -> Option<Value> {
        if self.source == "$" {
            return Some(body);
        }
        let nodes = self.path.query(&body).all();
        if names_one(&self.source) {
            return nodes.first().map(|node| (*node).clone());
        }
        Some(Value::Array(nodes.into_iter().cloned().collect()))
    }
}

/// Whether a path is a singular query: only names and indexes.
fn names_one(source: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    let mut before = ' ';
    for c in source.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if matches!(c, '*' | '?' | ',' | ':') || (c == '.' && before == '.') => return false,
            None => {}
        }
        before = c;
    }
    true
}

/// A thing to take out of an answer.
#[derive(Debug, Clone)]
pub(super) enum Pick {
    Json(Path),
    Header(HeaderName),
}

impl Pick {
    pub(super) fn new(extract: &Extract) -> Result<Self, String> {
        match extract {
            Extract::JsonPath(path) => Path::new(path).map(Self::Json),
            Extract::Header(name) => HeaderName::from_bytes(name.as_bytes())
                .map(Self::Header)
                .map_err(|_| format!("`{name}` is no header name")),
        }
    }

    pub(super) fn needs_body(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// The value; `None` where there is none, or null.
    pub(super) fn of(&self, answer: &Answer, body: Option<&Value>) -> Option<Value> {
        match self {
            Self::Json(path) => path.first(body?).cloned(),
            Self::Header(_) => self.of_head(&answer.headers, &answer.url),
        }
    }

    /// The value, where the head alone holds it.
    pub(super) fn of_head(&self, headers: &HeaderMap, asked: &Url) -> Option<Value> {
        match self {
            Self::Json(_) => None,
            Self::Header(name) => {
                let text = headers.get(name)?.to_str().ok()?;
                Some(Value::String(resolved(name, text, asked)))
            }
        }
    }
}

/// A relative `Location` counts from the URL that was asked. A bare word stays: it is an id.
fn resolved(name: &HeaderName, text: &str, asked: &Url) -> String {
    let is_location = matches!(*name, header::LOCATION | header::CONTENT_LOCATION);
    if !is_location || text.starts_with('/') || !text.contains('/') || Url::parse(text).is_ok() {
        return text.to_owned();
    }
    asked.join(text).map_or_else(|_| text.to_owned(), String::from)
}

/// What `save` names.
#[derive(Debug, Clone, Default)]
pub(super) struct Picks(Vec<(String, Pick)>);

impl Picks {
    pub(super) fn new(save: &BTreeMap<String, Extract>) -> Result<Self, String> {
        save.iter()
            .map(|(name, extract)| Ok((name.clone(), Pick::new(extract)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Those values that are there.
    pub(super) fn of(&self, answer: &Answer, body: Option<&Value>) -> Map<String, Value> {
        self.0.iter().filter_map(|(name, pick)| Some((name.clone(), pick.of(answer, body)?))).collect()
    }
}

/// An id: a text or a number, never empty.
pub(super) fn id_of(value: &Value) -> Option<UpstreamId> {
    match value {
        Value::String(text) if !text.is_empty() => Some(UpstreamId(text.clone())),
        Value::Number(number) => Some(UpstreamId(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_of_names_and_indexes_gives_one_value_and_any_other_an_array() {
        let body = json!({"rows": [{"id": 1}], "a:b": 2});
        let value = |path: &str| Path::new(path).unwrap().value(body.clone());
        assert_eq!(value("$"), Some(body.clone()));
        assert_eq!(value("$.rows[0].id"), Some(json!(1)));
        assert_eq!(value("$['a:b']"), Some(json!(2)));
        assert_eq!(value("$.rows[*].id"), Some(json!([1])));
        assert_eq!(value("$..id"), Some(json!([1])));
        assert_eq!(value("$.rows[?@.id==7]"), Some(json!([])));
        assert_eq!(value("$.none"), None);
    }

    #[test]
    fn only_texts_and_numbers_are_ids() {
        assert_eq!(id_of(&json!(17)), Some("17".into()));
        assert_eq!(id_of(&json!("a")), Some("a".into()));
        for none in [json!(""), json!(true), json!({}), json!([]), json!(null)] {
            assert_eq!(id_of(&none), None);
        }
    }

    #[test]
    fn a_relative_location_counts_from_what_was_asked() {
        let asked = Url::parse("http://h/api/jobs").unwrap();
        assert_eq!(resolved(&header::LOCATION, "jobs/7", &asked), "http://h/api/jobs/7");
        assert_eq!(resolved(&header::LOCATION, "/jobs/7", &asked), "/jobs/7");
        assert_eq!(resolved(&header::LOCATION, "7", &asked), "7");
        assert_eq!(resolved(&header::ETAG, "W/7", &asked), "W/7");
    }
}
