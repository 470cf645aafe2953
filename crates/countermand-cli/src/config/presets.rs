//! Presets: a kind that a tool starts from, and whose every field it may override.

use super::{
    fields::{Reader, suggest},
    node::{Data, Entry, Node},
    shapes,
};
use std::{cell::RefCell, collections::BTreeSet};

/// Fields of a kind that may be a plain request line.
const SHORTHANDS: [&str; 5] = ["create", "status", "result", "cancel", "find"];

/// The presets of the file.
pub struct Presets<'a> {
    entries: &'a [Entry],
    used: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Presets<'a> {
    /// Reads `presets`. What is in them is checked where they are used.
    pub fn read(reader: &Reader<'a>, node: Option<&'a Node>) -> Self {
        let entries = reader.optional_entries(node);
        for entry in entries {
            if let Some(fields) = reader.open(&entry.value, &shapes::PRESET)
                && fields.get("job").is_some() == fields.get("http").is_some()
            {
                reader.error(
                    entry.at,
                    "a preset has exactly one kind",
                    "write `job: …` or `http: …` under it",
                );
            }
        }
        Self { entries, used: RefCell::default() }
    }

    /// The kind of a tool with its preset filled in; `None` where the preset does not exist.
    pub fn fill_in(&self, reader: &Reader<'_>, kind: &str, node: &Node) -> Option<Node> {
        let Some(wanted) = node.get("preset") else { return Some(node.clone()) };
        let name = reader.name(wanted)?;
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            let help = if self.entries.is_empty() {
                format!(
                    "define it under `presets: {{ {name}: {{ {kind}: … }} }}`; this version brings none along"
                )
            } else {
                suggest(&name, self.entries.iter().map(|entry| entry.name.as_str()))
            };
            reader.error(wanted.at, format!("there is no preset `{name}`"), help);
            return None;
        };
        self.used.borrow_mut().insert(&entry.name);
        let Some(base) = entry.value.get(kind) else {
            reader.error(
                wanted.at,
                format!("the preset `{name}` is none of a `{kind}`"),
                "use it under its own kind",
            );
            return None;
        };
        if let Some(nested) = base.get("preset") {
            reader.error(nested.head(), "a preset cannot start from another", "write its fields out");
            return None;
        }
        let mut over = node.clone();
        if let Data::Map(entries) = &mut over.data {
            entries.retain(|entry| entry.name != "preset");
        }
        Some(merge(&spelled_out(base), &spelled_out(&over)))
    }

    /// Warns of presets that nothing uses: nobody has checked them.
    pub fn warn_of_unused(&self, reader: &Reader<'_>) {
        for entry in self.entries {
            if !self.used.borrow().contains(entry.name.as_str()) {
                let help = "use it with `preset: NAME`, or leave it out: it has not been checked";
                reader.warn(entry.at, format!("no tool uses the preset `{}`", entry.name), help);
            }
        }
    }
}

/// `result: GET /x` becomes `result: { request: GET /x }`, so that both merge.
fn spelled_out(node: &Node) -> Node {
    let mut node = node.clone();
    if let Data::Map(entries) = &mut node.data {
        for entry in entries.iter_mut().filter(|entry| SHORTHANDS.contains(&entry.name.as_str())) {
            if let Data::Text(_) = entry.value.data {
                let line = Node { key: None, ..entry.value.clone() };
                let field = Entry { name: "request".to_owned(), at: line.at, value: line };
                entry.value.data = Data::Map(vec![field]);
            }
        }
    }
    node
}

/// Mappings merge field by field; everything else is replaced. Of alternatives only the later one stays.
fn merge(base: &Node, over: &Node) -> Node {
    let (Data::Map(base_entries), Data::Map(over_entries)) = (&base.data, &over.data) else {
        return over.clone();
    };
    let has = |name: &str| over_entries.iter().any(|entry| entry.name == name);
    let replaced = |name: &str| match name {
        "body" => has("form"),
        "form" => has("body"),
        "unsupported" => has("request"),
        _ => has("unsupported"),
    };
    let kept = base_entries.iter().filter(|entry| has(&entry.name) || !replaced(&entry.name));
    let mut entries: Vec<Entry> = kept
        .map(|entry| match over_entries.iter().find(|o| o.name == entry.name) {
            Some(o) => Entry { value: merge(&entry.value, &o.value), ..o.clone() },
            None => entry.clone(),
        })
        .collect();
    entries.extend(over_entries.iter().filter(|o| !base_entries.iter().any(|b| b.name == o.name)).cloned());
    Node { at: over.at, key: over.key, data: Data::Map(entries) }
}
