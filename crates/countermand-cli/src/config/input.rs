//! A tool's JSON Schemas: that they are valid, fetch nothing, and which arguments they name.

use super::{
    checked::compile,
    fields::{Reader, suggest},
    node::{Data, Node},
    report::{Problem, Span},
};
use countermand::{definition::ToolDefinition, template::Name};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// How deep `$ref` and `allOf` are followed for the names of arguments.
const DEPTH: usize = 16;

/// The arguments of a tool.
#[derive(Debug)]
pub struct Arguments {
    /// Their JSON Schema.
    pub schema: Json,
    /// Those that may be sent once and never kept.
    pub write_only: BTreeSet<String>,
    /// Whether the config has an `input`. Without one, the arguments are those that the requests name.
    pub declared: bool,
}

impl Arguments {
    /// Why there is no such argument, and what to write instead.
    pub fn missing(&self, path: &[String]) -> Option<(String, String)> {
        if !self.declared {
            return None;
        }
        let mut schemas = vec![&self.schema];
        for (depth, name) in path.iter().enumerate() {
            let known: Vec<_> = schemas.iter().flat_map(|s| properties(&self.schema, s, DEPTH)).collect();
            if known.is_empty() && depth > 0 {
                return None;
            }
            if !known.iter().any(|(known, _)| *known == name) {
                let dotted = path[..=depth].join(".");
                let names: BTreeSet<_> = known.iter().map(|(name, _)| name.as_str()).collect();
                let help = if names.is_empty() {
                    format!("add `{name}` to the tool's `input.properties`")
                } else {
                    format!("{}; or add it to the tool's `input.properties`", suggest(name, names))
                };
                return Some((format!("there is no argument `{dotted}`"), help));
            }
            schemas = known.into_iter().filter(|(known, _)| *known == name).map(|(_, s)| s).collect();
        }
        None
    }
}

/// The properties that a schema names, itself or by `allOf` and its like and local `$ref`s.
fn properties<'s>(root: &'s Json, schema: &'s Json, depth: usize) -> Vec<(&'s String, &'s Json)> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    let mut all: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
    for word in ["allOf", "anyOf", "oneOf"] {
        let parts = schema[word].as_array().into_iter().flatten();
        all.extend(parts.flat_map(|part| properties(root, part, depth)));
    }
    for word in ["if", "then", "else"] {
        all.extend(schema.get(word).into_iter().flat_map(|part| properties(root, part, depth)));
    }
    let local = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    if let Some(target) = local.and_then(|pointer| root.pointer(pointer)) {
        all.extend(properties(root, target, depth));
    }
    all
}

/// The schema of a tool without an `input`: the arguments that its requests name, each optional and of any type.
pub fn undeclared(definition: &ToolDefinition) -> Json {
    let requests = definition.requests().into_iter().flat_map(|(_, request)| request.names());
    let programs = definition.programs().into_iter().flat_map(|(_, program)| program.names());
    let named = requests.chain(programs).filter_map(|name| match name {
        Name::Arg(path) => path.first().cloned(),
        _ => None,
    });
    let properties: serde_json::Map<String, Json> = named.map(|name| (name, json!({}))).collect();
    if properties.is_empty() {
        json!({ "type": "object" })
    } else {
        json!({ "type": "object", "properties": properties })
    }
}

/// Reads `input`.
pub fn read_input(reader: &Reader<'_>, node: Option<&Node>) -> Arguments {
    let schema = node.and_then(|node| read_schema(reader, node, "input"));
    let schema = schema.unwrap_or_else(|| json!({ "type": "object" }));
    let write_only = properties(&schema, &schema, DEPTH)
        .into_iter()
        .filter(|(_, property)| property["writeOnly"] == json!(true))
        .map(|(name, _)| name.clone())
        .collect();
    Arguments { schema, write_only, declared: node.is_some() }
}

/// Reads a schema of an object; `None` where it is not one.
pub fn read_schema(reader: &Reader<'_>, node: &Node, field: &str) -> Option<Json> {
    reader.entries(node)?;
    let mut schema = node.to_json();
    match &schema["type"] {
        Json::Null if node.get("type").is_none() => schema["type"] = json!("object"),
        kind if kind == "object" => {}
        _ => {
            let at = node.get("type").map_or(node.head(), |n| n.at);
            reader.error(at, format!("`{field}` must describe an object"), "write `type: object`");
            return None;
        }
    }
    if let Some(at) = remote_reference(node) {
        reader.error(
            at,
            "a schema fetches nothing: this `$ref` leads out of it",
            "copy what it names under `$defs`, and write `#/$defs/NAME`",
        );
        return None;
    }
    match compile(&schema) {
        Ok(_) => Some(schema),
        Err(error) => {
            let at = node.pointer(error.instance_path().as_str());
            let at = if at.key == node.key { node.head() } else { at.at };
            reader.sink.error(Problem::new(at, format!("`{field}` is no valid JSON Schema: {error}")));
            None
        }
    }
}

/// The place of a `$ref` that is not within the schema.
fn remote_reference(node: &Node) -> Option<Span> {
    match &node.data {
        Data::Map(entries) => entries.iter().find_map(|entry| match &entry.value.data {
            Data::Text(target) if entry.name == "$ref" && !target.starts_with('#') => Some(entry.value.at),
            _ => remote_reference(&entry.value),
        }),
        Data::List(items) => items.iter().find_map(remote_reference),
        _ => None,
    }
}
