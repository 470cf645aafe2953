//! Requests: `METHOD path`, query, headers, body.

use super::{
    fields::Reader,
    node::{Data, Node},
    report::{Problem, Span},
    scope::{Scope, read_template},
    secret,
};
use countermand::template::{
    BodyTemplate, HeaderTemplate, Name, Place, RequestTemplate, Template, ValueTemplate,
};
use serde_json::Value as Json;

/// Reads the request fields of a mapping whose other fields are the caller's; a plain text is
/// `METHOD path` alone.
pub fn read_request<'a>(reader: &Reader<'a>, node: &'a Node, scope: &Scope<'_>) -> Option<RequestTemplate> {
    let line = if let Data::Text(_) = node.data { Some(node) } else { node.get("request") };
    let Some(line) = line else {
        let help = format!("write `request: {}`", example(scope.of));
        reader.missing(node, "request", format!("the {} request is missing", scope.of), help);
        return None;
    };
    let (method, target) = read_line(reader, line, scope)?;
    let query = values(reader, node.get("query"), scope);
    let headers = read_headers(reader, node.get("headers"), scope);
    let body = read_body(reader, node, scope)?;
    let request = RequestTemplate { method, target, query, headers, body };
    let faults = request.check();
    for fault in &faults {
        let (at, offset) = place(node, line, &fault.place);
        let at = match offset {
            Some(offset) => at.piece(reader.source.text(), offset + fault.error.offset, usize::MAX / 2),
            None => at.at,
        };
        reader.sink.error(Problem::new(at, fault.error.message.clone()));
    }
    warn_of_optional(reader, line, &request, scope);
    faults.is_empty().then_some(request)
}

fn example(of: &str) -> &'static str {
    match of {
        "create" => "POST /jobs",
        "cancel" | "force" => "DELETE /jobs/${op.id}",
        "status" | "result" => "GET /jobs/${op.id}",
        _ => "GET /path",
    }
}

/// `METHOD path`.
fn read_line(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>) -> Option<(String, Template)> {
    let line = reader.name(node)?;
    let method = line.split_whitespace().next().unwrap_or_default();
    let rest = line.trim_start()[method.len()..].trim();
    let is_method = !method.is_empty() && method.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    if !is_method || rest.is_empty() {
        let help = if is_method {
            format!("write `{} /path`", method.to_ascii_uppercase())
        } else {
            format!("write `METHOD /path`, such as `{}`", example(scope.of))
        };
        reader.error(node.at, format!("`{line}` is no request: it lacks a method or a path"), help);
        return None;
    }
    let offset = line.find(rest).unwrap_or_default();
    let target = read_template(reader, node, rest, offset, scope)?;
    if rest.contains(char::is_whitespace) {
        reader.error(node.at, "a path has no spaces", "write `%20`, or name parameters under `query:`");
        return None;
    }
    Some((method.to_ascii_uppercase(), target))
}

/// The node of a place in a request, and where its template begins in the node's text.
fn place<'n>(node: &'n Node, line: &'n Node, place: &Place) -> (&'n Node, Option<usize>) {
    let within = |field: &str, steps: &str| node.get(field).unwrap_or(line).pointer(steps);
    let escape = |step: &str| step.replace('~', "~0").replace('/', "~1");
    let found = match place {
        Place::Target => {
            let text = line.scalar().unwrap_or_default();
            let rest = text.trim_start().split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
            return (line, text.find(rest));
        }
        Place::Query(name) => within("query", &format!("/{}", escape(name))),
        Place::Header(name) => within("headers", &format!("/{}", escape(name))),
        Place::Form(name) => within("form", &format!("/{}", escape(name))),
        Place::Body(steps) => {
            within("body", &steps.iter().map(|s| format!("/{}", escape(s))).collect::<String>())
        }
        Place::Text | Place::Argument(_) | Place::Variable(_) | Place::Stdin => line,
    };
    (found, matches!(found.data, Data::Text(_)).then_some(0))
}

fn read_body(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>) -> Option<BodyTemplate> {
    match (node.get("body"), node.get("form")) {
        (Some(_), Some(form)) => {
            reader.error(
                form.head(),
                "a request has a `body` or a `form`, not both",
                "leave one of them out",
            );
            None
        }
        (Some(body), None) => value(reader, body, scope).map(BodyTemplate::Json),
        (None, Some(form)) => Some(BodyTemplate::Form(values(reader, Some(form), scope))),
        (None, None) => Some(BodyTemplate::None),
    }
}

fn values<'a>(
    reader: &Reader<'a>,
    node: Option<&'a Node>,
    scope: &Scope<'_>,
) -> Vec<(String, ValueTemplate)> {
    let entries = reader.optional_entries(node);
    entries.iter().filter_map(|e| Some((e.name.clone(), value(reader, &e.value, scope)?))).collect()
}

/// Reads any value; its strings may hold placeholders.
pub fn value(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>) -> Option<ValueTemplate> {
    Some(match &node.data {
        Data::Null => ValueTemplate::Plain(Json::Null),
        Data::Bool(truth) => ValueTemplate::Plain(Json::Bool(*truth)),
        Data::Number(number, _) => ValueTemplate::Plain(Json::Number(number.clone())),
        Data::Text(text) => ValueTemplate::Text(read_template(reader, node, text, 0, scope)?),
        Data::List(items) => {
            ValueTemplate::Array(items.iter().filter_map(|item| value(reader, item, scope)).collect())
        }
        Data::Map(entries) => ValueTemplate::Object(
            entries.iter().filter_map(|e| Some((e.name.clone(), value(reader, &e.value, scope)?))).collect(),
        ),
    })
}

fn read_headers<'a>(
    reader: &Reader<'a>,
    node: Option<&'a Node>,
    scope: &Scope<'_>,
) -> Vec<(String, HeaderTemplate)> {
    let mut headers = Vec::new();
    for entry in reader.optional_entries(node) {
        let header = if secret::is_secret(&entry.value) {
            secret::secret(reader, &entry.value).map(HeaderTemplate::Secret)
        } else {
            reader.text(&entry.value).and_then(|text| {
                let template = read_template(reader, &entry.value, &text, 0, scope)?;
                let literal = template.placeholders().next().is_none();
                secret::warn_of_plain_secret(reader, &entry.value, &entry.name, literal);
                Some(HeaderTemplate::Text(template))
            })
        };
        headers.extend(header.map(|header| (entry.name.clone(), header)));
    }
    headers
}

/// An argument in the path must be there: a query parameter can be dropped, a segment cannot.
fn warn_of_optional(reader: &Reader<'_>, line: &Node, request: &RequestTemplate, scope: &Scope<'_>) {
    for placeholder in request.target.placeholders() {
        let Name::Arg(path) = &placeholder.name else { continue };
        let [name] = path.as_slice() else { continue };
        let required = scope.args.schema["required"].as_array();
        if !required.is_some_and(|all| all.iter().any(|one| one == name)) {
            let at: Span = line.at;
            reader.warn(
                at,
                format!("the argument `{name}` is optional, and the path needs it: a call without it fails"),
                format!("add `{name}` to `input.required`, or move it to `query:`"),
            );
        }
    }
}
