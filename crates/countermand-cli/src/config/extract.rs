//! What is taken out of responses: JSONPaths, headers, ids, states.

use super::{
    fields::Reader,
    node::{Data, Node},
    scope::{Scope, is_key, names_key, read_template},
    shapes,
};
use countermand::{
    definition::{Extract, IdSource, StateSource},
    template::{Template, TemplateError, check_id_path, check_json_path},
};
use std::collections::BTreeMap;

/// A JSONPath.
pub fn path(reader: &Reader<'_>, node: &Node) -> Option<String> {
    let text = reader.text(node)?;
    match check_json_path(&text) {
        Ok(()) => Some(text),
        Err(error) => {
            path_error(reader, node, &error);
            None
        }
    }
}

/// Reports a JSONPath that cannot be read.
fn path_error(reader: &Reader<'_>, node: &Node, error: &TemplateError) {
    let offset = error.offset;
    let at = node.piece(reader.source.text(), offset, usize::MAX / 2);
    let at = if at.start == at.end { node.at } else { at };
    reader.error(at, error.message.clone(), "`$` is the whole body, `$.jobs[0].id` a part of it (RFC 9535)");
}

/// A JSONPath, or `{ header: NAME }`.
pub fn extract(reader: &Reader<'_>, node: &Node) -> Option<Extract> {
    match node.data {
        Data::Map(_) => {
            let fields = reader.open(node, &shapes::HEADER)?;
            match fields.get("header") {
                Some(name) => reader.name(name).map(Extract::Header),
                None => {
                    reader.error(fields.head(), "`header` is missing", "write `{ header: Location }`");
                    None
                }
            }
        }
        _ => path(reader, node).map(Extract::JsonPath),
    }
}

/// What a response is searched for by name.
pub fn save(reader: &Reader<'_>, node: Option<&Node>) -> BTreeMap<String, Extract> {
    let entries = reader.optional_entries(node);
    entries.iter().filter_map(|e| Some((e.name.clone(), extract(reader, &e.value)?))).collect()
}

/// Where a created job's id comes from: the response, or us.
pub fn id(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>) -> Option<IdSource> {
    let text = node.scalar().unwrap_or_default();
    if !text.contains("${") {
        return extract(reader, node).map(IdSource::Response);
    }
    let template = read_template(reader, node, &text, 0, scope)?;
    if names_key(&template) && only_keys(&template) {
        return Some(IdSource::Ours(template));
    }
    reader.error(
        node.at,
        "an id of ours is made of our key, so that no two operations share it",
        "write `${op.key}` or `${op.name}`",
    );
    None
}

/// Where a look-up's answer has the id; may filter by our key.
pub fn find_id(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>) -> Option<Template> {
    let text = reader.text(node)?;
    let template = read_template(reader, node, &text, 0, scope)?;
    if !only_keys(&template) {
        reader.error(node.at, "a look-up can filter by our key only", "write `${op.key}` or `${op.name}`");
        return None;
    }
    match check_id_path(&template) {
        Ok(()) => Some(template),
        Err(error) => {
            path_error(reader, node, &error);
            None
        }
    }
}

fn only_keys(template: &Template) -> bool {
    template.names().all(is_key)
}

/// Where a job's state is. The status code may bring its own lists of states with it.
pub fn state<'a>(reader: &Reader<'a>, node: &'a Node) -> Option<(StateSource, Option<&'a Node>)> {
    match &node.data {
        Data::Text(text) if text == "http_status" => Some((StateSource::HttpStatus, None)),
        Data::Map(_) => {
            let fields = reader.open(node, &shapes::HTTP_STATUS)?;
            match fields.get("http_status").map(|n| (&n.data, n)) {
                None | Some((Data::Bool(true), _)) => Some((StateSource::HttpStatus, None)),
                Some((Data::Map(_), lists)) => Some((StateSource::HttpStatus, Some(lists))),
                Some((_, other)) => {
                    reader.error(other.at, "this means nothing here", "write `state: http_status`");
                    None
                }
            }
        }
        Data::List(items) if items.is_empty() => {
            reader.error(node.head(), "one JSONPath at least is needed here", "write `state: $.status`");
            None
        }
        Data::List(items) => {
            let paths: Vec<_> = items.iter().filter_map(|item| path(reader, item)).collect();
            (paths.len() == items.len()).then_some((StateSource::Paths(paths), None))
        }
        _ => path(reader, node).map(|path| (StateSource::Paths(vec![path]), None)),
    }
}
