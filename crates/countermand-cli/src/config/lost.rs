//! How an operation is found again whose create was sent and whose answer was lost.

use super::{
    checked::Accepted,
    extract,
    fields::{Fields, Reader},
    input::Arguments,
    node::{Data, Node},
    request::read_request,
    scope::{Scope, is_key, names_key},
    shapes,
};
use countermand::{
    core::{Lookup, Policy},
    definition::FindDefinition,
    template::{HeaderTemplate, Name, RequestTemplate},
};
use std::{collections::BTreeSet, time::Duration};

/// The window of an `Idempotency-Key` whose upstream's documentation nobody has read: shorter than
/// any that we know of.
pub const ASSUMED_KEY_WINDOW: Duration = Duration::from_secs(300);

/// The create whose answer may be lost.
#[derive(Debug, Clone, Copy)]
pub struct Create<'a> {
    /// Its request.
    pub request: &'a RequestTemplate,
    /// Its fields.
    pub node: &'a Node,
    /// Whether its id is one that we make.
    pub own_id: bool,
    /// Whether a look-up must tell the id.
    pub needs_id: bool,
    /// The status read, which finds what has our own id.
    pub status: Option<&'a RequestTemplate>,
}

/// Reads `find`, `key_window` and `lost_id` into the rules; one of them there must be.
pub fn read_lost(
    reader: &Reader<'_>,
    kind: &Fields<'_>,
    create: &Create<'_>,
    args: &Arguments,
    policy: &mut Policy,
) -> (Option<FindDefinition>, Accepted) {
    let mut accepted = Accepted { write_only: names_write_only(create.request, args), ..Accepted::default() };
    let find = match kind.get("find") {
        Some(node) => read_find(reader, node, create, args),
        None => own_id_find(create).map(|find| (find, Lookup::Consistent)),
    };
    policy.find = find.as_ref().map(|(_, lookup)| *lookup);
    policy.key_window = key_window(reader, kind, create, &mut accepted);
    let lost_id = kind.get("lost_id").and_then(|node| reader.word(node, &[("accept", ())]));
    let found = kind.get("find").is_some() || policy.find.is_some() || policy.key_window.is_some();
    if !found && kind.get("key_window").is_none() {
        accepted.lost_id = lost_id.is_some();
        if kind.get("lost_id").is_none() {
            reader.error(
                create.node.head(),
                "when the create's answer is lost, nothing could tell whether it was created, or stop it",
                if accepted.write_only {
                    "add `find:` (a create with writeOnly arguments cannot be sent again), or accept it with `lost_id: accept`"
                } else {
                    "add `find:` (a look-up by `${op.key}`), or send `${op.key}` and add `key_window:`, or accept it with `lost_id: accept`"
                },
            );
        }
    } else if let Some(node) = kind.get("lost_id") {
        reader.warn(
            node.head(),
            "`lost_id: accept` is not needed: a lost create can be found",
            "leave it out",
        );
    }
    (find.map(|(find, _)| find), accepted)
}

fn key_window(
    reader: &Reader<'_>,
    kind: &Fields<'_>,
    create: &Create<'_>,
    accepted: &mut Accepted,
) -> Option<Duration> {
    let named = create.request.names().into_iter().any(is_key);
    if let Some(node) = kind.get("key_window") {
        let window = reader.duration(node)?;
        if !named {
            reader.error(
                node.head(),
                "the create never sends the key that this window is for",
                "add `headers: { Idempotency-Key: \"${op.key}\" }` to the create",
            );
            return None;
        }
        if accepted.write_only {
            reader.warn(
                node.head(),
                "the create has writeOnly arguments, which are never kept: it cannot be sent again within its window",
                "leave `key_window` out",
            );
            return None;
        }
        return Some(window);
    }
    if accepted.write_only {
        return None;
    }
    let (header, _) = create.request.headers.iter().find(|(name, value)| {
        name.eq_ignore_ascii_case("idempotency-key")
            && matches!(value, HeaderTemplate::Text(template) if names_key(template))
    })?;
    let at = create.node.get("headers").map_or(create.node, |headers| headers.pointer(&format!("/{header}")));
    reader.warn(
        at.head(),
        "how long the upstream honours this key is not said: 5 minutes are assumed",
        "add `key_window:` as its documentation says; a key that is sent again after its window starts a second one",
    );
    accepted.assumed_window = true;
    Some(ASSUMED_KEY_WINDOW)
}

fn names_write_only(request: &RequestTemplate, args: &Arguments) -> bool {
    let names = request.names();
    names.iter().any(
        |name| matches!(name, Name::Arg(path) if path.first().is_some_and(|a| args.write_only.contains(a))),
    )
}

/// What has our own id is found by reading its status: any 2xx is a hit.
fn own_id_find(create: &Create<'_>) -> Option<FindDefinition> {
    let status = create.status.filter(|_| create.own_id)?;
    let needs_more = status.names().into_iter().any(|name| matches!(name, Name::Saved(_)));
    (!needs_more).then(|| FindDefinition { request: status.clone(), id: None })
}

fn read_find(
    reader: &Reader<'_>,
    node: &Node,
    create: &Create<'_>,
    args: &Arguments,
) -> Option<(FindDefinition, Lookup)> {
    let none = BTreeSet::new();
    let scope = Scope {
        args,
        of: "find",
        operation: true,
        id: if create.own_id {
            Ok(())
        } else {
            Err("a look-up is for what has no known id: write `${op.key}` or `${op.name}`")
        },
        undo: false,
        create: false,
        saved: &none,
        maybe_saved: &none,
    };
    let request = read_request(reader, node, &scope);
    let fields = match node.data {
        Data::Text(_) => None,
        _ => Some(reader.open(node, &shapes::FIND)?),
    };
    let get = |name: &str| fields.and_then(|fields| fields.get(name));
    let eventual = get("eventual").and_then(|node| reader.truth(node)).unwrap_or(false);
    let id = match get("id") {
        Some(node) => Some(extract::find_id(reader, node, &scope)?),
        None => None,
    };
    let request = request?;
    if id.is_none() && create.needs_id && !create.own_id {
        reader.error(node.head(), "a look-up must say where the id is", "add `id: \"$.jobs[0].id\"`");
        return None;
    }
    let by_key = request.names().into_iter().any(|name| is_key(name) || *name == Name::Id);
    if !by_key && !id.as_ref().is_some_and(names_key) {
        reader.error(
            node.head(),
            "a look-up that does not name our key could find somebody else's operation",
            "name `${op.key}` (or `${op.name}`) in its request, or in a filter of its `id`",
        );
        return None;
    }
    if id.is_none() && !request.target.names().any(|name| is_key(name) || *name == Name::Id) {
        reader.warn(
            node.head(),
            "any 2xx counts as found here: right for one thing's own path, wrong for a list that may be empty",
            "add `id:`, a JSONPath that matches nothing in an empty list",
        );
    }
    let lookup = if eventual { Lookup::Eventual } else { Lookup::Consistent };
    Some((FindDefinition { request, id }, lookup))
}
