//! The kind `http`: one request, without an effect or with one.

use super::{
    extract,
    fields::{Fields, Reader},
    input::Arguments,
    kind::{Made, bounds, policy},
    lost::{Create, read_lost},
    node::{Data, Node},
    request::read_request,
    scope::Scope,
    shapes,
};
use countermand::{
    core::Kind,
    definition::{Effect, HttpDefinition, Work},
};
use std::{collections::BTreeSet, time::Duration};

/// How long a call of one request may take, where the config does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Fields that only an operation has.
const OF_OPERATIONS: [&str; 7] = ["id", "find", "key_window", "lost_id", "shield", "horizon", "lifetime"];

/// Reads `http`.
pub fn read_http(reader: &Reader<'_>, node: &Node, args: &Arguments) -> Option<Made> {
    let fields = match node.data {
        Data::Text(_) => Fields { node },
        _ => reader.open(node, &shapes::HTTP)?,
    };
    let method = method(node);
    let effect = effect(reader, &fields, &method)?;
    let none = BTreeSet::new();
    let scope = Scope {
        args,
        of: "http",
        operation: effect == Effect::Once,
        id: Err("the upstream tells it in its answer: write `${op.key}` for a name of ours"),
        undo: false,
        create: true,
        saved: &none,
        maybe_saved: &none,
    };
    let request = read_request(reader, node, &scope);
    let value = match fields.get("value") {
        Some(node) => extract::path(reader, node)?,
        None => "$".to_owned(),
    };
    let bounds = bounds(reader, &fields, Some(&fields));
    let mut policy = policy(Kind::Http, bounds);
    let id = match fields.get("id") {
        Some(node) => Some(extract::extract(reader, node)?),
        None => None,
    };
    let request = request?;
    let (find, accepted) = match effect {
        Effect::None => {
            refuse_operations(reader, &fields);
            Default::default()
        }
        Effect::Once => {
            let create = Create { request: &request, node, own_id: false, needs_id: false, status: None };
            read_lost(reader, &fields, &create, args, &mut policy)
        }
    };
    let default_timeout =
        if effect == Effect::Once { DEFAULT_TIMEOUT.min(policy.lifetime) } else { DEFAULT_TIMEOUT };
    let http = HttpDefinition { request, value, effect, find, id };
    Some(Made { work: Work::Http(Box::new(http)), policy, default_timeout, accepted })
}

fn method(node: &Node) -> String {
    let line = node.get("request").and_then(Node::scalar).or_else(|| node.scalar()).unwrap_or_default();
    line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase()
}

/// A read says so by its method; whatever else must say.
fn effect(reader: &Reader<'_>, fields: &Fields<'_>, method: &str) -> Option<Effect> {
    let reads = matches!(method, "GET" | "HEAD");
    match fields.get("effect") {
        Some(node) => reader.word(node, &[("none", Effect::None), ("once", Effect::Once)]),
        None if reads || method.is_empty() => Some(Effect::None),
        None => {
            let at = fields.get("request").map_or(fields.node.at, |line| line.at);
            reader.error(
                at,
                format!("does this {method} change something upstream? It must be said"),
                "add `effect: once` (kept in the ledger, found again when its answer is lost) or `effect: none` (may be aborted)",
            );
            None
        }
    }
}

fn refuse_operations(reader: &Reader<'_>, fields: &Fields<'_>) {
    for name in OF_OPERATIONS {
        if let Some(node) = fields.get(name) {
            let help = if name == "lifetime" {
                "write `timeout:` beside `http:`, or `effect: once`"
            } else {
                "leave it out, or say `effect: once`"
            };
            reader.error(
                node.head(),
                format!("`{name}` has no meaning for a request without an effect"),
                help,
            );
        }
    }
}
