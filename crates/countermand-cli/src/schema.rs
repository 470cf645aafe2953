//! The JSON Schema of the config file, for editors: made from the tables that the reader reads by.
//!
//! It knows shapes, not meanings: what a placeholder may name, or which fields exclude each other,
//! `countermand check` tells.

use crate::config::shapes::{self, Holds, Shape};
use serde_json::{Map, Value, json};

/// Shapes that a tool may override a preset in: there `null` takes a field away.
const OVERRIDABLE: [&str; 8] = ["Job", "Http", "Create", "Status", "Result", "Cancel", "Force", "Find"];

/// The JSON Schema of the config file.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    let mut root = object(&shapes::ROOT, &mut definitions);
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("countermand");
    root["$defs"] = Value::Object(definitions);
    root
}

/// A mapping with known fields; the shapes that it names are added to the definitions.
fn object(shape: &Shape, definitions: &mut Map<String, Value>) -> Value {
    let nullable = OVERRIDABLE.contains(&shape.name);
    let mut properties = Map::new();
    for field in shape.all().filter(|field| !matches!(field.holds, Holds::Later)) {
        let holds = value(&field.holds, definitions);
        let mut property = if nullable { json!({ "anyOf": [holds, { "type": "null" }] }) } else { holds };
        if let Some(property) = property.as_object_mut() {
            property.insert("description".to_owned(), json!(field.doc));
        }
        properties.insert(field.name.to_owned(), property);
    }
    let mut schema = json!({
        "type": "object",
        "description": shape.doc,
        "additionalProperties": false,
        "properties": properties,
    });
    for (rule, alternatives) in rules(shape.name) {
        schema[rule] = alternatives.iter().map(|field| json!({ "required": [field] })).collect();
    }
    schema
}

/// What the fields of a shape demand of each other, as far as a schema can say it shortly.
fn rules(shape: &str) -> &'static [(&'static str, &'static [&'static str])] {
    match shape {
        "Tool" => &[("oneOf", &["job", "http", "command"])],
        "Preset" => &[("oneOf", &["job", "http"])],
        "Command" | "Program" => &[("anyOf", &["run"])],
        "Upstream" => &[("oneOf", &["http", "mcp"])],
        "McpServer" => &[("oneOf", &["command", "url"])],
        "HttpUpstream" => &[("oneOf", &["base_url", "url"])],
        "Secret" => &[("oneOf", &["env", "file", "exec"])],
        "Header" => &[("anyOf", &["header"])],
        "OnOrphan" => &[("oneOf", &["command", "webhook"])],
        "Grace" => &[("anyOf", &["grace"])],
        _ => &[],
    }
}

fn value(holds: &Holds, definitions: &mut Map<String, Value>) -> Value {
    match holds {
        Holds::Text => json!({ "type": ["string", "number", "boolean"] }),
        Holds::Word(words) => json!({ "enum": words }),
        Holds::Bool => json!({ "type": "boolean" }),
        Holds::Count => json!({ "type": "integer", "minimum": 1 }),
        Holds::Size => {
            json!({ "type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]+ ?([KMG]i)?B?$" })
        }
        Holds::Duration => {
            json!({ "type": "string", "examples": ["500ms", "30s", "10m", "2h 30m", "24h", "PT30S"] })
        }
        Holds::Path => json!({ "type": "string", "pattern": "^\\$" }),
        Holds::Any | Holds::Later => json!({}),
        Holds::Schema | Holds::Object => json!({ "type": "object" }),
        Holds::Shape(shape) => {
            if !definitions.contains_key(shape.name) {
                // Shapes name each other: the name is taken before its fields are looked at.
                definitions.insert(shape.name.to_owned(), Value::Null);
                let object = object(shape, definitions);
                definitions.insert(shape.name.to_owned(), object);
            }
            json!({ "$ref": format!("#/$defs/{}", shape.name) })
        }
        Holds::Map(values) => json!({ "type": "object", "additionalProperties": value(values, definitions) }),
        Holds::List(items) => json!({ "type": "array", "items": value(items, definitions) }),
        Holds::Either(alternatives) => {
            let alternatives: Vec<_> = alternatives.iter().map(|one| value(one, definitions)).collect();
            json!({ "anyOf": alternatives })
        }
    }
}
