//! Pieces of raw JSON: what a proxy takes out of a message or puts into it, and leaves the rest as it was written.

use countermand_mcp::{raw_elements, raw_members, raw_object};
use serde_json::value::RawValue;

/// The members of an object, in order.
pub(super) type Members = Vec<(String, Box<RawValue>)>;

/// The members of an object; none where it is none.
pub(super) fn members(raw: Option<&RawValue>) -> Members {
    raw.and_then(raw_members).unwrap_or_default()
}

/// The member of that name.
pub(super) fn get<'a>(members: &'a Members, name: &str) -> Option<&'a RawValue> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| &**value)
}

/// The text of that member, where it is one.
pub(super) fn text(members: &Members, name: &str) -> Option<String> {
    get(members, name).and_then(|value| serde_json::from_str(value.get()).ok())
}

/// Sets a member, in its place where there is one.
pub(super) fn set(members: &mut Members, name: &str, value: Box<RawValue>) {
    match members.iter_mut().find(|(member, _)| member == name) {
        Some((_, there)) => *there = value,
        None => members.push((name.to_owned(), value)),
    }
}

/// Removes a member, and returns it.
pub(super) fn take(members: &mut Members, name: &str) -> Option<Box<RawValue>> {
    let at = members.iter().position(|(member, _)| member == name)?;
    Some(members.remove(at).1)
}

/// The object of those members.
pub(super) fn object(members: &Members) -> Box<RawValue> {
    raw_object(members.iter().map(|(name, value)| (name.as_str(), value)))
}

/// The elements of an array; none where it is none.
pub(super) fn elements(raw: Option<&RawValue>) -> Vec<Box<RawValue>> {
    raw.and_then(raw_elements).unwrap_or_default()
}

/// The array of those elements.
pub(super) fn list<'a>(elements: impl IntoIterator<Item = &'a RawValue>) -> Box<RawValue> {
    let elements: Vec<&str> = elements.into_iter().map(RawValue::get).collect();
    json(&format!("[{}]", elements.join(",")))
}

/// JSON that was made of JSON.
pub(super) fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The JSON string of a text.
pub(super) fn quoted(text: &str) -> Box<RawValue> {
    json(&serde_json::Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_is_changed_and_the_rest_stays_as_it_was_written() {
        let raw = json(r#"{"name": "a", "n": 1.0, "x": { "y" :[ ] }}"#);
        let mut all = members(Some(&raw));
        assert_eq!(text(&all, "name").as_deref(), Some("a"));
        set(&mut all, "name", quoted("p_\"a"));
        set(&mut all, "new", json("[]"));
        assert_eq!(take(&mut all, "n").map(|n| n.get().to_owned()).as_deref(), Some("1.0"));
        assert_eq!(object(&all).get(), r#"{"name":"p_\"a","x":{ "y" :[ ] },"new":[]}"#);
    }

    #[test]
    fn a_list_is_taken_apart_and_put_together() {
        let raw = json(r#"[ {"a": 1.0}, 2 ]"#);
        let all = elements(Some(&raw));
        assert_eq!(list(all.iter().map(|element| &**element)).get(), r#"[{"a": 1.0},2]"#);
        assert!(elements(Some(&json("{}"))).is_empty() && elements(None).is_empty());
    }
}
