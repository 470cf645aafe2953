//! How a job's state is read, and which states mean what.

use super::{
    extract,
    fields::{Fields, Reader},
    node::Node,
    request::read_request,
    scope::Scope,
    shapes,
};
use countermand::{
    core::Policy,
    definition::{StateClass, States, StatusDefinition},
};
use std::collections::{BTreeMap, BTreeSet};

/// Reads `job.status`.
pub fn read_status(
    reader: &Reader<'_>,
    node: &Node,
    scope: &Scope<'_>,
    policy: &mut Policy,
) -> Option<StatusDefinition> {
    let request = read_request(reader, node, scope);
    let fields = reader.open(node, &shapes::STATUS)?;
    polling(reader, &fields, policy);
    let path = |name: &str| fields.get(name).and_then(|node| extract::path(reader, node));
    let (progress, error) = (path("progress"), path("error"));
    let classes = [
        ("running", StateClass::Running),
        ("succeeded", StateClass::Succeeded),
        ("failed", StateClass::Failed),
        ("cancelled", StateClass::Cancelled),
    ];
    let absent = fields.get("absent").and_then(|node| reader.word(node, &classes));
    let save = extract::save(reader, fields.get("save"));
    let Some(state) = fields.get("state") else {
        reader.missing(
            fields.node,
            "state",
            "`state` is missing",
            "write `state: $.status`, or `state: http_status`",
        );
        return None;
    };
    let (state, inner) = extract::state(reader, state)?;
    let states = states(reader, &fields, inner)?;
    Some(StatusDefinition { request: request?, state, states, absent, progress, error, save })
}

fn polling(reader: &Reader<'_>, fields: &Fields<'_>, policy: &mut Policy) {
    let time = |name: &str| fields.get(name).and_then(|node| reader.duration(node));
    policy.poll_every = time("every").unwrap_or(policy.poll_every);
    policy.poll_max = policy.poll_max.max(policy.poll_every);
    if let (Some(max), Some(node)) = (time("max"), fields.get("max")) {
        if max < policy.poll_every {
            reader.error(node.at, "`max` is shorter than `every`", "write a longer time, or leave it out");
        }
        policy.poll_max = max;
    }
}

/// The lists of states; a status code's may stand under `http_status`.
fn states(reader: &Reader<'_>, fields: &Fields<'_>, inner: Option<&Node>) -> Option<States> {
    let mut seen = BTreeMap::new();
    let mut fine = true;
    let mut list = |name: &'static str| {
        let node = fields.get(name).or_else(|| inner.and_then(|inner| inner.get(name)));
        let mut states = Vec::new();
        for (node, state) in node.map(|node| reader.texts(node)).unwrap_or_default() {
            if let Some(before) = seen.insert(state.clone(), name) {
                let message = format!("the state `{state}` is in `{before}` already");
                reader.error(node.at, message, "a state means one thing: leave it out of one list");
                fine = false;
            }
            states.push(state);
        }
        states
    };
    let states = States {
        running: list("running"),
        succeeded: list("succeeded"),
        failed: list("failed"),
        cancelled: list("cancelled"),
    };
    if let Some(inner) = inner {
        let known: BTreeSet<_> = ["running", "succeeded", "failed", "cancelled"].into();
        for entry in reader.entries(inner)?.iter().filter(|e| !known.contains(e.name.as_str())) {
            let help = super::fields::suggest(&entry.name, known.iter().copied());
            reader.error(entry.at, format!("there is no field `{}` here", entry.name), help);
            fine = false;
        }
    }
    if states.succeeded.is_empty() {
        let help = "write `succeeded: [STATE]`: the states that mean that it has done its work";
        reader.missing(
            fields.node,
            "succeeded",
            "no state means that it succeeded: it would never end",
            help,
        );
        return None;
    }
    if states.failed.is_empty() && !seen.contains_key("*") {
        let help = "add `failed: [STATE]`, or `'*'` to one of the lists: everything else";
        reader.warn(fields.head(), "no state means that it failed: only its lifetime would end it", help);
    }
    fine.then_some(states)
}
