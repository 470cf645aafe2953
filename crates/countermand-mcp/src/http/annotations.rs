//! Which arguments a tool wants mirrored in headers (`x-mcp-header`), learnt once per tool list.

use super::headers::check_param;
use crate::RpcError;
use http::HeaderMap;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of the current tools.
#[derive(Default)]
pub(super) struct Annotations(Mutex<Known>);

#[derive(Default)]
struct Known {
    tools: Vec<Arc<RawValue>>,
    mirrored: Arc<HashMap<String, Vec<Mirrored>>>,
}

/// One property of a tool's arguments that is mirrored in a header.
struct Mirrored {
    /// The names that lead to it.
    path: Vec<String>,
    /// The header's name, without its prefix.
    header: String,
}

impl Annotations {
    /// Checks the mirrored arguments of one call.
    pub(super) fn check(
        &self,
        tools: Vec<Arc<RawValue>>,
        tool: &str,
        arguments: Option<&RawValue>,
        headers: &HeaderMap,
    ) -> Result<(), RpcError> {
        let mirrored = self.of(tools);
        let Some(mirrored) = mirrored.get(tool) else { return Ok(()) };
        let arguments = match arguments {
            Some(raw) => serde_json::from_str(raw.get())
                .map_err(|error| RpcError::invalid_params(format!("Invalid params: arguments: {error}")))?,
            None => Value::Null,
        };
        mirrored.iter().try_for_each(|Mirrored { path, header }| {
            let inside = path.iter().try_fold(&arguments, |value, step| value.get(step));
            check_param(headers, header, inside)
        })
    }

    fn of(&self, tools: Vec<Arc<RawValue>>) -> Arc<HashMap<String, Vec<Mirrored>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = known.tools.len() == tools.len()
            && known.tools.iter().zip(&tools).all(|(known, tool)| Arc::ptr_eq(known, tool));
        if !same {
            known.mirrored = Arc::new(tools.iter().filter_map(|tool| annotated(tool)).collect());
            known.tools = tools;
        }
        Arc::clone(&known.mirrored)
    }
}

fn annotated(tool: &RawValue) -> Option<(String, Vec<Mirrored>)> {
    if !tool.get().contains("x-mcp-header") {
        return None;
    }
    let tool: Value = serde_json::from_str(tool.get()).ok()?;
    let mut found = Vec::new();
    collect(tool.get("inputSchema")?, &mut Vec::new(), &mut found);
    Some((tool.get("name")?.as_str()?.to_owned(), found))
}

/// Only properties that are reached through `properties` alone can be mirrored.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirrored>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str) {
            found.push(Mirrored { path: path.clone(), header: header.to_owned() });
        }
        collect(property, path, found);
        path.pop();
    }
}
