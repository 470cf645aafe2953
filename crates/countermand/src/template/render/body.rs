//! The JSON body: values are put into it as values, never spliced as text.

use super::scalar;
use crate::template::{Part, Place, RenderError, Scope, Template, ValueTemplate};
use serde_json::{Map, Value};

/// The value; `None` where it is dropped, because an argument is absent.
pub(super) fn render(value: &ValueTemplate, scope: &Scope<'_>) -> Result<Option<Value>, RenderError> {
    fill(value, scope, &mut Vec::new())
}

fn fill(
    value: &ValueTemplate,
    scope: &Scope<'_>,
    steps: &mut Vec<String>,
) -> Result<Option<Value>, RenderError> {
    match value {
        ValueTemplate::Plain(plain) => Ok(Some(plain.clone())),
        ValueTemplate::Text(template) => fill_text(template, scope, steps),
        ValueTemplate::Array(items) => {
            let mut filled = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                steps.push(index.to_string());
                filled.extend(fill(item, scope, steps)?);
                steps.pop();
            }
            Ok(Some(Value::Array(filled)))
        }
        ValueTemplate::Object(fields) => {
            let mut filled = Map::new();
            for (name, value) in fields {
                steps.push(name.clone());
                if let Some(value) = fill(value, scope, steps)? {
                    filled.insert(name.clone(), value);
                }
                steps.pop();
            }
            Ok(Some(Value::Object(filled)))
        }
    }
}

fn fill_text(template: &Template, scope: &Scope<'_>, steps: &[String]) -> Result<Option<Value>, RenderError> {
    let place = Place::Body(steps.to_vec());
    if let Some(placeholder) = template.whole() {
        return Ok(scope.value(&place, placeholder)?.map(|value| value.into_owned()));
    }
    let mut text = String::new();
    for part in template.parts() {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Placeholder(placeholder) => {
                let Some(value) = scope.value(&place, placeholder)? else { return Ok(None) };
                match scalar(&value) {
                    Ok(Some(scalar)) => text.push_str(&scalar),
                    Ok(None) => return Ok(None),
                    Err(_) => text.push_str(&value.to_string()),
                }
            }
        }
    }
    Ok(Some(Value::String(text)))
}
