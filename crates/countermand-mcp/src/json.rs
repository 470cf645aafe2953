//! Raw JSON: the members of an object without a typed round trip, and text that fits on one line.

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The members of one JSON object, each value as it was written.
///
/// A name that occurs twice is an error: two readers that resolve it differently would see two messages.
#[derive(Debug)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    pub(crate) fn of(raw: &'a RawValue) -> serde_json::Result<Self> {
        serde_json::from_str(raw.get())
    }

    /// The value of that name. A `null` is a value.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// The value of that name, unless it is `null`.
    pub(crate) fn given(&self, name: &str) -> Option<&'a RawValue> {
        self.get(name).filter(|value| value.get() != "null")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
                names.sort_unstable();
                match names.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(_) => Err(de::Error::custom("a member name occurs twice")),
                    None => Ok(Members(members)),
                }
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

/// The members of a JSON object in order, each value as it was written; `None` for any other value, and for an object
/// with a name that occurs twice.
pub fn raw_members(raw: &RawValue) -> Option<Vec<(String, Box<RawValue>)>> {
    let members = Members::of(raw).ok()?;
    Some(members.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The JSON object of those members, as they are and in that order. Nothing keeps a name from occurring twice.
pub fn raw_object<'a, V: AsRef<RawValue> + 'a>(
    members: impl IntoIterator<Item = (&'a str, V)>,
) -> Box<RawValue> {
    let members: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{}:{}", quoted(name), value.as_ref().get()))
        .collect();
    // Made of JSON alone, it is JSON.
    RawValue::from_string(format!("{{{}}}", members.join(","))).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The elements of a JSON array; `None` for any other value.
pub fn raw_elements(raw: &RawValue) -> Option<Vec<Box<RawValue>>> {
    serde_json::from_str(raw.get()).ok()
}

/// The text of a JSON string; `None` for any other value.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|Text(text)| text)
}

pub(crate) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// The same JSON without line breaks. They can only stand between tokens: inside a string JSON escapes them.
pub(crate) fn single_line(json: &str) -> Cow<'_, str> {
    if json.bytes().any(|byte| byte == b'\n' || byte == b'\r') {
        Cow::Owned(json.replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(json)
    }
}

/// The JSON string of that text.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn members_keep_their_values_as_written() {
        let object = raw(r#"{"a": 1.0, "b": {"c" : [ ]}, "n": null}"#);
        let members = Members::of(&object).unwrap();
        assert_eq!(members.get("a").unwrap().get(), "1.0");
        assert_eq!(members.get("b").unwrap().get(), r#"{"c" : [ ]}"#);
        assert!(members.get("n").is_some() && members.given("n").is_none());
    }

    #[test]
    fn a_name_that_occurs_twice_is_refused_even_when_escaped() {
        assert!(Members::of(&raw(r#"{"name":1,"name":2}"#)).is_err());
        assert!(Members::of(&raw(r#"{"name":1,"n\u0061me":2}"#)).is_err());
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        assert_eq!(single_line("{\n\"a\":\r\n\"x\\n\"}"), "{ \"a\":  \"x\\n\"}");
    }
}
