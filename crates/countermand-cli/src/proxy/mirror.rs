//! Arguments that a tool of a 2026-07-28 server wants mirrored in headers (`x-mcp-header`).

use serde_json::{Value, value::RawValue};
use std::sync::Arc;

/// The mirrored arguments of one call: the headers' names, and plain values.
pub(super) fn headers(
    tools: &[Arc<RawValue>],
    tool: &str,
    arguments: Option<&RawValue>,
) -> Vec<(String, String)> {
    let named = tools.iter().filter(|raw| raw.get().contains("x-mcp-header"));
    let parsed = named.filter_map(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let Some(found) = parsed.into_iter().find(|value| value["name"] == tool) else { return Vec::new() };
    let arguments = arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let mut headers = Vec::new();
    collect(&found["inputSchema"], &arguments, &mut headers);
    headers
}

/// Only properties that are reached through `properties` alone can be mirrored.
fn collect(schema: &Value, arguments: &Value, headers: &mut Vec<(String, String)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let argument = &arguments[name];
        let plain = match argument {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(argument.to_string()),
            _ => None,
        };
        if let Some((header, plain)) = property["x-mcp-header"].as_str().zip(plain) {
            headers.push((format!("Mcp-Param-{header}"), plain));
        }
        collect(property, argument, headers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mirrored_arguments_are_found_where_they_are_and_absent_ones_are_not() {
        let tool = json!({ "name": "t", "inputSchema": { "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "page": { "properties": { "size": { "x-mcp-header": "Size" }, "no": { "x-mcp-header": "No" } } },
        } } });
        let tools = [Arc::from(serde_json::value::to_raw_value(&tool).unwrap())];
        let arguments =
            serde_json::value::to_raw_value(&json!({ "region": "eu", "page": { "size": 7 } })).unwrap();
        let mut found = headers(&tools, "t", Some(&arguments));
        found.sort();
        let expected = [("Mcp-Param-Region", "eu"), ("Mcp-Param-Size", "7")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(headers(&tools, "other", Some(&arguments)).is_empty());
    }
}
