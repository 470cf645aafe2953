//! The kind `job`: create, status, result, cancel, find.

use super::{
    extract,
    fields::{Fields, Reader},
    input::Arguments,
    kind::{Made, Saved, bounds, policy},
    lost::{Create, read_lost},
    node::{Data, Node},
    request::read_request,
    scope::Scope,
    shapes,
    status::read_status,
};
use countermand::{
    core::{Kind, Policy},
    definition::{CancelDefinition, CreateDefinition, IdSource, JobDefinition, ResultDefinition, Work},
};
use std::{collections::BTreeSet, time::Duration};

/// When a forced cancel takes over, where the config does not say.
pub const DEFAULT_FORCE_AFTER: Duration = Duration::from_secs(10);

/// Reads `job`.
pub fn read_job(reader: &Reader<'_>, node: &Node, args: &Arguments) -> Option<Made> {
    let fields = reader.open(node, &shapes::JOB)?;
    let create_node = needed(reader, &fields, "create", "create: { request: POST /jobs, id: $.id }");
    let status_node =
        needed(reader, &fields, "status", "status: { request: GET /jobs/${op.id}, state: $.status }");
    let saved = saved(create_node, status_node);
    let none = BTreeSet::new();
    let after = Scope {
        args,
        of: "status",
        operation: true,
        id: Ok(()),
        undo: false,
        create: false,
        saved: &saved.early,
        maybe_saved: &saved.late,
    };
    let before = Scope {
        of: "create",
        id: Err("the upstream tells it in its answer: write `${op.key}` or `${op.name}` for a name of ours"),
        create: true,
        saved: &none,
        maybe_saved: &none,
        ..after
    };
    let create_fields = create_node.and_then(|node| match node.data {
        Data::Text(_) => None,
        _ => reader.open(node, &shapes::CREATE),
    });
    let bounds = bounds(reader, &fields, create_fields.as_ref());
    let mut policy = policy(Kind::Job, bounds);
    let create = create_node.and_then(|node| read_create(reader, node, create_fields, &before));
    let status = status_node.and_then(|node| read_status(reader, node, &after, &mut policy));
    let late: BTreeSet<_> = saved.early.union(&saved.late).cloned().collect();
    let result = fields.get("result").map(|node| {
        read_result(reader, node, &Scope { of: "result", saved: &late, maybe_saved: &none, ..after })
    });
    let cancel = read_cancel(reader, &fields, &Scope { of: "cancel", ..after }, &mut policy);
    let lost = create.as_ref().zip(create_node).map(|(create, node)| {
        let create = Create {
            request: &create.request,
            node,
            own_id: matches!(create.id, IdSource::Ours(_)),
            needs_id: true,
            status: status.as_ref().map(|status| &status.request),
        };
        read_lost(reader, &fields, &create, args, &mut policy)
    });
    let (find, accepted) = lost?;
    let result = match result {
        Some(result) => Some(result?),
        None => None,
    };
    let job = JobDefinition { create: create?, status: status?, result, cancel: cancel?, find };
    Some(Made { work: Work::Job(Box::new(job)), default_timeout: policy.lifetime, policy, accepted })
}

fn needed<'a>(reader: &Reader<'_>, fields: &Fields<'a>, name: &str, example: &str) -> Option<&'a Node> {
    let node = fields.get(name);
    if node.is_none() {
        reader.missing(fields.node, name, format!("`{name}` is missing"), format!("write `{example}`"));
    }
    node
}

/// The names that create and status save; what they mean is checked where they are read.
pub fn saved(create: Option<&Node>, status: Option<&Node>) -> Saved {
    let names = |node: Option<&Node>| match node.and_then(|node| node.get("save")).map(|save| &save.data) {
        Some(Data::Map(entries)) => entries.iter().map(|entry| entry.name.clone()).collect(),
        _ => BTreeSet::new(),
    };
    Saved { early: names(create), late: names(status) }
}

fn read_create(
    reader: &Reader<'_>,
    node: &Node,
    fields: Option<Fields<'_>>,
    scope: &Scope<'_>,
) -> Option<CreateDefinition> {
    let request = read_request(reader, node, scope);
    let get = |name: &str| fields.and_then(|fields| fields.get(name));
    let save = extract::save(reader, get("save"));
    let Some(id) = get("id") else {
        let help = "add `id: $.id` (a JSONPath), `id: { header: Location }`, or `id: ${op.key}` where the API takes ours";
        reader.error(
            node.head(),
            "where is the id of what was created? Without it nothing can be cancelled",
            help,
        );
        return None;
    };
    let id = extract::id(reader, id, scope);
    Some(CreateDefinition { request: request?, id: id?, save })
}

fn read_result(reader: &Reader<'_>, node: &Node, scope: &Scope<'_>) -> Option<ResultDefinition> {
    let request = read_request(reader, node, scope);
    let value = match node.data {
        Data::Text(_) => None,
        _ => reader.open(node, &shapes::RESULT)?.get("value"),
    };
    let value = match value {
        Some(node) => extract::path(reader, node)?,
        None => "$".to_owned(),
    };
    Some(ResultDefinition { request: request?, value })
}

fn read_cancel(
    reader: &Reader<'_>,
    job: &Fields<'_>,
    scope: &Scope<'_>,
    policy: &mut Policy,
) -> Option<CancelDefinition> {
    let node = needed(
        reader,
        job,
        "cancel",
        "cancel: DELETE /jobs/${op.id}`, or `cancel: { unsupported: \"why\" }` with a `lifetime:",
    )?;
    policy.can_cancel = true;
    if let Data::Text(_) = node.data {
        let request = read_request(reader, node, scope)?;
        return Some(CancelDefinition::Request { request, force: None });
    }
    let fields = reader.open(node, &shapes::CANCEL)?;
    if let Some(why) = fields.get("unsupported") {
        policy.can_cancel = false;
        return read_unsupported(reader, job, &fields, why);
    }
    let request = read_request(reader, node, scope);
    policy.confirm_within =
        fields.get("confirm_within").and_then(|n| reader.duration(n)).unwrap_or(policy.confirm_within);
    let force = match fields.get("force") {
        None => None,
        Some(node) => {
            let after = match node.data {
                Data::Text(_) => None,
                _ => reader.open(node, &shapes::FORCE)?.get("after"),
            };
            let after = after.and_then(|n| reader.duration(n));
            policy.force_after = Some(after.unwrap_or(DEFAULT_FORCE_AFTER));
            Some(read_request(reader, node, &Scope { of: "force", ..*scope })?)
        }
    };
    Some(CancelDefinition::Request { request: request?, force })
}

/// What cannot be cancelled must be bounded by somebody who has thought about it.
fn read_unsupported(
    reader: &Reader<'_>,
    job: &Fields<'_>,
    cancel: &Fields<'_>,
    why: &Node,
) -> Option<CancelDefinition> {
    for other in ["request", "confirm_within", "force"] {
        if let Some(node) = cancel.get(other) {
            let message = format!("a cancel that is unsupported has no `{other}`");
            reader.error(node.head(), message, "leave one of them out");
        }
    }
    if job.get("lifetime").is_none() {
        reader.error(
            cancel.head(),
            "what cannot be cancelled needs a bound of its own",
            "add `lifetime:` to the job, such as `lifetime: 15m`",
        );
    }
    match &why.data {
        Data::Text(reason) if !reason.trim().is_empty() => {
            Some(CancelDefinition::Unsupported(reason.clone()))
        }
        _ => {
            reader.error(
                why.at,
                "say why it cannot be cancelled",
                "write `unsupported: \"the API has no cancel\"`",
            );
            None
        }
    }
}

/// What undo requests and marks of a job know.
pub fn scope_after<'s>(
    args: &'s Arguments,
    saved: &'s Saved,
    of: &'static str,
    id: Result<(), &'static str>,
) -> Scope<'s> {
    Scope {
        args,
        of,
        operation: true,
        id,
        undo: of == "compensate",
        create: false,
        saved: &saved.early,
        maybe_saved: &saved.late,
    }
}
