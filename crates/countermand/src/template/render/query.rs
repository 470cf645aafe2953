//! Query parameters and form fields: names and values encoded, arrays repeated, absent ones dropped.

use super::{DATA, scalar, text};
use crate::template::{Place, RenderError, Scope, Template, ValueTemplate};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

/// `name=value&…`; empty where nothing is left.
pub(super) fn render(
    fields: &[(String, ValueTemplate)],
    scope: &Scope<'_>,
    place: impl Fn(String) -> Place,
) -> Result<String, RenderError> {
    let mut pairs = Vec::new();
    for (name, value) in fields {
        let mut values = Vec::new();
        collect(value, scope, &place(name.clone()), &mut values)?;
        let name = utf8_percent_encode(name, DATA);
        pairs.extend(values.iter().map(|value| format!("{name}={}", utf8_percent_encode(value, DATA))));
    }
    Ok(pairs.join("&"))
}

fn collect(
    value: &ValueTemplate,
    scope: &Scope<'_>,
    place: &Place,
    into: &mut Vec<String>,
) -> Result<(), RenderError> {
    match value {
        ValueTemplate::Text(template) => template_values(template, scope, place, into),
        ValueTemplate::Plain(plain) => values(plain, into)
            .map_err(|kind| RenderError::at(place, format!("{kind} cannot stand in {place}"))),
        ValueTemplate::Array(items) => items.iter().try_for_each(|item| match item {
            ValueTemplate::Array(_) => {
                Err(RenderError::at(place, format!("an array in an array cannot stand in {place}")))
            }
            item => collect(item, scope, place, into),
        }),
        ValueTemplate::Object(_) => Err(RenderError::at(place, format!("an object cannot stand in {place}"))),
    }
}

fn template_values(
    template: &Template,
    scope: &Scope<'_>,
    place: &Place,
    into: &mut Vec<String>,
) -> Result<(), RenderError> {
    let Some(placeholder) = template.whole() else {
        into.extend(text(template, place, scope)?);
        return Ok(());
    };
    let Some(value) = scope.value(place, placeholder)? else { return Ok(()) };
    values(&value, into)
        .map_err(|kind| RenderError::of(place, placeholder, format!("{kind} cannot stand in {place}")))
}

/// The texts of a scalar, or of an array's scalars; nothing for null.
fn values(value: &Value, into: &mut Vec<String>) -> Result<(), &'static str> {
    match value {
        Value::Array(items) => {
            for item in items {
                into.extend(scalar(item).map_err(|_| "an array of arrays or objects")?.map(Into::into));
            }
        }
        value => into.extend(scalar(value)?.map(Into::into)),
    }
    Ok(())
}
