//! Requests to fill in, and the two ways in which the tests do it.

use countermand::template::{BodyTemplate, RenderError, Rendered, RequestTemplate, Scope, ValueTemplate};
use serde_json::{Map, Value};
use std::borrow::Cow;
use url::Url;

pub(crate) fn request(target: &str) -> RequestTemplate {
    RequestTemplate {
        method: "POST".into(),
        target: target.parse().unwrap(),
        query: Vec::new(),
        headers: Vec::new(),
        body: BodyTemplate::None,
    }
}

pub(crate) fn text(template: &str) -> ValueTemplate {
    ValueTemplate::Text(template.parse().unwrap())
}

pub(crate) fn render(request: &RequestTemplate, args: &Value) -> Result<Rendered, RenderError> {
    let empty = Map::new();
    let scope = Scope::of_call(args.as_object().unwrap_or(&empty));
    request.render(&Url::parse("http://127.0.0.1:9100/api").unwrap(), &scope)
}

pub(crate) fn with_id(request: &RequestTemplate, id: &str) -> Result<Rendered, RenderError> {
    let args = Map::new();
    let mut scope = Scope::of_call(&args);
    scope.id = Some(Cow::Borrowed(id));
    request.render(&Url::parse("http://127.0.0.1:9100/api").unwrap(), &scope)
}
