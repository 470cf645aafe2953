//! Renders a request: every value is encoded for the place that it stands in.

mod body;
mod header;
mod id_path;
mod query;
mod target;

pub(crate) use header::check_name;
pub(super) use id_path::id_path_of;
pub use id_path::render_id_path;

use super::{BodyTemplate, Part, Place, RenderError, RequestTemplate, Scope, Template, ValueTemplate};
use crate::definition::SecretRef;
use http::{HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde_json::Value;
use std::borrow::Cow;
use url::Url;

/// All but the characters that no part of a URL gives a meaning to (RFC 3986, *unreserved*).
const DATA: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request that can be sent, but for its secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The method.
    pub method: Method,
    /// The URL, of the same origin as the base URL.
    pub url: Url,
    /// The headers, in order.
    pub headers: Vec<(HeaderName, RenderedHeader)>,
    /// The body.
    pub body: RenderedBody,
}

/// A header's value.
#[derive(Debug, Clone, PartialEq)]
pub enum RenderedHeader {
    /// Known.
    Value(HeaderValue),
    /// Resolved when the request is sent.
    Secret(SecretRef),
}

/// A request's body.
#[derive(Debug, Clone, PartialEq)]
pub enum RenderedBody {
    /// None.
    None,
    /// JSON.
    Json(Value),
    /// `application/x-www-form-urlencoded`.
    Form(String),
}

impl RequestTemplate {
    /// Fills the request in. `base` is the upstream's base URL.
    ///
    /// # Errors
    /// [`RenderError`] where a value cannot stand where it would have to: nothing is sent then.
    pub fn render(&self, base: &Url, scope: &Scope<'_>) -> Result<Rendered, RenderError> {
        let method = Method::from_bytes(self.method.as_bytes())
            .map_err(|_| RenderError::at(&Place::Target, format!("`{}` is no HTTP method", self.method)))?;
        let mut url = target::render(&self.target, base, scope)?;
        let added = query::render(&self.query, scope, Place::Query)?;
        if !added.is_empty() {
            let query = match url.query() {
                Some(already) if !already.is_empty() => format!("{already}&{added}"),
                _ => added,
            };
            url.set_query(Some(&query));
        }
        let body = match &self.body {
            BodyTemplate::None => RenderedBody::None,
            BodyTemplate::Json(value) => {
                body::render(value, scope)?.map_or(RenderedBody::None, RenderedBody::Json)
            }
            BodyTemplate::Form(fields) => RenderedBody::Form(query::render(fields, scope, Place::Form)?),
        };
        Ok(Rendered { method, url, headers: header::render(&self.headers, scope)?, body })
    }
}

/// A JSON value, filled in; `None` where it is dropped, because an argument is absent.
pub(super) fn value(value: &ValueTemplate, scope: &Scope<'_>) -> Result<Option<Value>, RenderError> {
    body::render(value, scope)
}

/// Fills in a text of our own, such as an id that we make.
///
/// # Errors
/// [`RenderError`] where something in it is not known.
pub fn render_text(template: &Template, scope: &Scope<'_>) -> Result<String, RenderError> {
    let place = Place::Text;
    text(template, &place, scope)?
        .ok_or_else(|| RenderError::at(&place, "it names an argument that is not given"))
}

/// The text of a template whose placeholders stand for scalars; `None` where an argument is absent or null.
pub(super) fn text(
    template: &Template,
    place: &Place,
    scope: &Scope<'_>,
) -> Result<Option<String>, RenderError> {
    let mut text = String::new();
    for part in template.parts() {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Placeholder(placeholder) => {
                let Some(value) = scope.value(place, placeholder)? else { return Ok(None) };
                match scalar(&value) {
                    Ok(Some(scalar)) => text.push_str(&scalar),
                    Ok(None) => return Ok(None),
                    Err(kind) => {
                        return Err(RenderError::of(
                            place,
                            placeholder,
                            format!("{kind} cannot stand in {place}"),
                        ));
                    }
                }
            }
        }
    }
    Ok(Some(text))
}

/// The text of a string, a number or a boolean; `None` for null; the kind of anything else.
fn scalar(value: &Value) -> Result<Option<Cow<'_, str>>, &'static str> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(Cow::Borrowed(text))),
        Value::Bool(_) | Value::Number(_) => Ok(Some(Cow::Owned(value.to_string()))),
        Value::Array(_) => Err("an array"),
        Value::Object(_) => Err("an object"),
    }
}
