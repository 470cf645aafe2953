//! The YAML document as a tree that knows where everything stands.
//!
//! A tree rather than one struct per shape: every error of a file is reported, not only the first;
//! a field may be a string or a mapping without losing its position; presets merge into what
//! overrides them, each value keeping the place where it was written.

use super::{
    mask::Masked,
    report::{Problem, Source, Span},
};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value as Json;
use serde_saphyr::{MessageFormatter as _, Spanned};
use std::fmt;

/// From which likeness on a word is taken for another, misspelt.
pub const LIKE: f64 = 0.8;

/// How much one word looks like another, from 0 to 1. A slip of one letter is enough for likeness,
/// which short words would not reach by the share of what they have in common.
pub fn likeness(one: &str, other: &str) -> f64 {
    let share = strsim::jaro_winkler(one, other);
    let slip = other.len() > 2 && strsim::osa_distance(one, other) == 1;
    if slip { share.max(LIKE) } else { share }
}

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it stands.
    pub at: Span,
    /// Where its key stands, where it has one.
    pub key: Option<Span>,
    /// What it is.
    pub data: Data,
}

/// What a value can be.
#[derive(Debug, Clone)]
pub enum Data {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, and how it was written.
    Number(serde_json::Number, String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in order.
    Map(Vec<Entry>),
}

/// A field of a mapping.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub at: Span,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// Reads a document.
    ///
    /// # Errors
    /// Where it is not YAML, or one of its mappings has a key twice.
    pub fn parse(source: &Source) -> Result<Self, Problem> {
        let options = serde_saphyr::options! {
            strict_booleans: true,
            leading_zero_numbers_as_strings: true,
            underscored_numbers_as_strings: true,
        };
        let masked = Masked::new(source.text());
        let mut root: Self = serde_saphyr::from_str_with_options(&masked.text, options)
            .map_err(|error| not_yaml(&error, source, &masked))?;
        root.put_back(source.text(), &masked);
        Ok(root)
    }

    /// Where to point when something about it as a whole is wrong: its key, or itself.
    pub fn head(&self) -> Span {
        self.key.unwrap_or(self.at)
    }

    /// The value of a field; none where it is missing or null.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Data::Map(entries) = &self.data else { return None };
        let entry = entries.iter().find(|entry| entry.name == name)?;
        (!matches!(entry.value.data, Data::Null)).then_some(&entry.value)
    }

    /// Whether it has a field whose name looks like this one: a typo that has been reported.
    pub fn has_like(&self, name: &str) -> bool {
        let Data::Map(entries) = &self.data else { return false };
        entries.iter().any(|entry| entry.name != name && likeness(&entry.name, name) >= LIKE)
    }

    /// Whether it is a mapping without fields.
    pub fn entries_are_empty(&self) -> bool {
        matches!(&self.data, Data::Map(entries) if entries.is_empty())
    }

    /// What a JSON pointer leads to, or the last node on its way.
    pub fn pointer(&self, pointer: &str) -> &Self {
        let mut node = self;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = match &node.data {
                Data::Map(entries) => entries.iter().find(|e| e.name == step).map(|e| &e.value),
                Data::List(items) => step.parse::<usize>().ok().and_then(|n| items.get(n)),
                _ => None,
            };
            let Some(next) = next else { break };
            node = next;
        }
        node
    }

    /// A scalar as it was written.
    pub fn scalar(&self) -> Option<String> {
        match &self.data {
            Data::Text(text) => Some(text.clone()),
            Data::Number(_, spelling) => Some(spelling.clone()),
            Data::Bool(truth) => Some(truth.to_string()),
            Data::Null | Data::List(_) | Data::Map(_) => None,
        }
    }

    /// What it is, in words.
    pub fn what(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a boolean",
            Data::Number(..) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Json {
        match &self.data {
            Data::Null => Json::Null,
            Data::Bool(truth) => Json::Bool(*truth),
            Data::Number(number, _) => Json::Number(number.clone()),
            Data::Text(text) => Json::String(text.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => {
                Json::Object(entries.iter().map(|e| (e.name.clone(), e.value.to_json())).collect())
            }
        }
    }

    /// The span of a piece of its text, by byte offset into the text. Exact where the text stands
    /// in the file as it is; else (escapes, folded lines) the whole value.
    pub fn piece(&self, source: &str, offset: usize, len: usize) -> Span {
        let Data::Text(text) = &self.data else { return self.at };
        let written = source.get(self.at.start..self.at.end).unwrap_or_default();
        match written.find(text.as_str()) {
            Some(begin) => {
                let start = self.at.start + begin + offset.min(text.len());
                Span::new(start, (start + len).min(self.at.start + begin + text.len()))
            }
            None => self.at,
        }
    }

    /// Puts back what the parser was not shown, and what it does not tell: how numbers were written,
    /// since `1.0` is the number 1, but the state `1.0`.
    fn put_back(&mut self, source: &str, masked: &Masked) {
        self.at = masked.place(self.at);
        self.key = self.key.map(|key| masked.place(key));
        match &mut self.data {
            Data::Text(text) => masked.unmask(text),
            Data::Number(_, spelling) => {
                let written = source.get(self.at.start..self.at.end).map(str::trim).unwrap_or_default();
                if !written.is_empty() {
                    *spelling = written.to_owned();
                }
            }
            Data::List(items) => items.iter_mut().for_each(|item| item.put_back(source, masked)),
            Data::Map(entries) => {
                for entry in entries {
                    masked.unmask(&mut entry.name);
                    entry.at = masked.place(entry.at);
                    entry.value.put_back(source, masked);
                }
            }
            Data::Null | Data::Bool(_) => {}
        }
    }
}

fn not_yaml(error: &serde_saphyr::Error, source: &Source, masked: &Masked) -> Problem {
    let error = error.without_snippet();
    let end = source.text().len();
    let at = error.location().map_or(Span::new(end, end), |location| match location.span().byte_offset() {
        Some(_) => masked.place(span(&location)),
        None => {
            let start = source.offset(location.line(), location.column());
            Span::new(start, start)
        }
    });
    let mut said = serde_saphyr::UserMessageFormatter.format_message(error).into_owned();
    masked.unmask(&mut said);
    Problem::new(at, format!("not valid YAML: {said}"))
}

fn span(location: &serde_saphyr::Location) -> Span {
    let start = location.span().byte_offset().unwrap_or(0) as usize;
    Span::new(start, start + location.span().byte_len().unwrap_or(0) as usize)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Data>::deserialize(deserializer)?;
        Ok(Self { at: span(&spanned.defined), key: None, data: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Data, E> {
        Ok(Data::Bool(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Data, E> {
        Ok(Data::Number(number.into(), number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Data, E> {
        Ok(Data::Number(number.into(), number.to_string()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Data, E> {
        serde_json::Number::from_f64(number)
            .map(|exact| Data::Number(exact, number.to_string()))
            .ok_or_else(|| E::custom("only finite numbers have a meaning here"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Data, E> {
        Ok(Data::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Data, E> {
        Ok(Data::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Data, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Data::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<Spanned<String>>()? {
            let at = span(&name.defined);
            let mut value: Node = map.next_value()?;
            value.key = Some(at);
            entries.push(Entry { name: name.value, at, value });
        }
        Ok(Data::Map(entries))
    }
}
