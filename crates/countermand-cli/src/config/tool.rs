//! Tools: a kind, and what stands beside it.

use super::{
    checked::Tool,
    command::read_command,
    fields::{Fields, Reader, suggest},
    http::read_http,
    input::{self, Arguments},
    job::{self, read_job},
    kind::Made,
    node::{Data, Entry, Node},
    presets::Presets,
    program::read_undo,
    request::read_request,
    shapes,
    siblings::{Siblings, on_disconnect, on_reissue},
    telling::on_orphan,
};
use countermand::{
    core::WhenCompleted,
    definition::{
        CancelDefinition, Effect, HttpUpstream, LocalUpstream, ToolDefinition, UndoDefinition,
        UpstreamDefinition, Work,
    },
    notify::OnOrphan,
    template::RequestTemplate,
};
use std::collections::{BTreeMap, BTreeSet};

/// The tool that countermand adds itself.
pub const BUILT_IN: &str = "cancellation_status";

/// The longest name that MCP allows.
const LONGEST_NAME: usize = 128;

/// The kinds of this version.
const KINDS: [&str; 3] = ["job", "http", "command"];
/// Kinds that are known, and not there yet: opening the tool has reported them.
const LATER: [&str; 2] = ["sql", "steps"];

/// What the tools of a file share.
pub struct Shared<'a> {
    /// The upstreams; `None` for one that has errors of its own.
    pub upstreams: BTreeMap<String, Option<HttpUpstream>>,
    /// The names of existing MCP servers, which no tool names.
    pub servers: BTreeSet<String>,
    /// The presets.
    pub presets: Presets<'a>,
    /// `defaults`.
    pub defaults: Option<&'a Node>,
    /// Who is told of the orphans of tools that do not say.
    pub on_orphan: Option<OnOrphan>,
}

/// Reads `tools.NAME`.
pub fn read_tool(reader: &Reader<'_>, entry: &Entry, shared: &Shared<'_>) -> Option<Tool> {
    let name = check_name(reader, entry);
    let fields = reader.open(&entry.value, &shapes::TOOL)?;
    let text = |name: &str| fields.get(name).and_then(|node| reader.name(node));
    let (title, description) = (text("title"), text("description"));
    let annotations = fields.get("annotations").and_then(|node| read_annotations(reader, node));
    let args = input::read_input(reader, fields.get("input"));
    let output = fields.get("output").and_then(|node| input::read_schema(reader, node, "output"));
    let upstream = match fields.get("command") {
        Some(_) => no_upstream(reader, &fields),
        None => read_upstream(reader, &fields, shared).map(UpstreamDefinition::Http),
    };
    let (kind, node) = one_kind(reader, &fields)?;
    let node = match kind {
        "command" => node.clone(),
        kind => shared.presets.fill_in(reader, kind, node)?,
    };
    let made = match kind {
        "job" => read_job(reader, &node, &args),
        "command" => read_command(reader, &node, &args, output.is_some()),
        _ => read_http(reader, &node, &args),
    };
    let siblings = Siblings { tool: fields, defaults: shared.defaults };
    if kind == "command" {
        check_siblings_of_command(reader, &siblings);
    }
    let on_disconnect = siblings.get("on_disconnect").and_then(|(node, _)| on_disconnect(reader, node));
    let on_reissue = siblings.get("on_reissue").and_then(|(node, _)| on_reissue(reader, node));
    let on_orphan = match siblings.get("on_orphan") {
        Some((node, _)) => on_orphan(reader, node),
        None => shared.on_orphan.clone(),
    };
    let timeout = siblings.get("timeout").and_then(|(node, _)| Some((node, reader.duration(node)?)));
    let made = made?;
    if let Some((node, timeout)) = timeout
        && timeout > made.policy.lifetime
    {
        let help = "write a longer `lifetime:`, or a shorter `timeout:`";
        reader.warn(node.at, "the lifetime ends before this timeout does", help);
    }
    let timeout = timeout.map_or(made.default_timeout, |(_, timeout)| timeout);
    let definition = finish(reader, &entry.name, upstream, made, &siblings, &node, &args);
    let (definition, accepted) = definition?;
    let input = if args.declared { args.schema } else { input::undeclared(&definition) };
    if !args.declared && input.get("properties").is_some() {
        let help = "write `input:`, a JSON Schema: without it nothing is validated, and a model must guess";
        reader.warn(entry.at, "this tool has no `input`", help);
    }
    // What `defaults` say means nothing for a read, which has no operation.
    let on_reissue = on_reissue.filter(|_| has_operation(&definition.work)).unwrap_or_default();
    Some(Tool {
        name: name?,
        title,
        description,
        annotations,
        input,
        output,
        definition,
        timeout,
        on_disconnect,
        on_reissue,
        on_orphan,
        accepted,
    })
}

fn check_name(reader: &Reader<'_>, entry: &Entry) -> Option<String> {
    let name = &entry.name;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(allowed) {
        let help = "write 1 to 128 letters, digits, `_`, `-`, `.` or `/`";
        reader.error(entry.at, format!("`{name}` is no name for a tool"), help);
        return None;
    }
    if name == BUILT_IN {
        let help = "choose another name: it tells what became of cancelled calls";
        reader.error(entry.at, format!("`{name}` is a tool that countermand adds itself"), help);
        return None;
    }
    Some(name.clone())
}

fn read_annotations(reader: &Reader<'_>, node: &Node) -> Option<serde_json::Value> {
    for entry in reader.entries(node)? {
        if entry.name.ends_with("Hint") {
            reader.truth(&entry.value);
        } else if entry.name == "title" {
            reader.text(&entry.value);
        }
    }
    Some(node.to_json())
}

fn read_upstream(reader: &Reader<'_>, fields: &Fields<'_>, shared: &Shared<'_>) -> Option<HttpUpstream> {
    let known = shared.upstreams.keys().map(String::as_str);
    let Some(node) = fields.get("upstream") else {
        if LATER.iter().any(|kind| fields.get(kind).is_some()) {
            return None;
        }
        let help = match shared.upstreams.keys().next() {
            Some(name) => format!("add `upstream: {name}`"),
            None => "add one under `upstreams:`, and name it here: `upstream: NAME`".to_owned(),
        };
        reader.missing(fields.node, "upstream", "`upstream` is missing: where do its requests go?", help);
        return None;
    };
    let name = reader.name(node)?;
    match shared.upstreams.get(&name) {
        Some(upstream) => upstream.clone(),
        None if shared.servers.contains(&name) => {
            let message = format!(
                "`{name}` is an MCP server: its tools appear as they are, and it is no upstream of others"
            );
            reader.error(node.at, message, "leave this tool out, or name an HTTP upstream");
            None
        }
        None => {
            let help = match suggest(&name, known) {
                none if none == "there are none" => "add it under `upstreams:`".to_owned(),
                help => help,
            };
            reader.error(node.at, format!("there is no upstream `{name}`"), help);
            None
        }
    }
}

/// A command is done here.
fn no_upstream(reader: &Reader<'_>, fields: &Fields<'_>) -> Option<UpstreamDefinition> {
    if let Some(node) = fields.get("upstream") {
        reader.error(node.head(), "a command has no upstream: it runs here", "leave `upstream` out");
        return None;
    }
    Some(UpstreamDefinition::Local(LocalUpstream::default()))
}

/// What means something else for what runs here, or nothing.
fn check_siblings_of_command(reader: &Reader<'_>, siblings: &Siblings<'_>) {
    if let Some((node, false)) = siblings.get("mark") {
        let help = "leave it out: a mark is for what cannot be stopped";
        reader.error(node.head(), "`mark` has no meaning for a command: it is stopped", help);
    }
    if let Some((node, _)) = siblings.get("on_disconnect")
        && matches!(&node.data, Data::Text(word) if word == "detach")
    {
        let help = "it goes on without its client, and ends with the gateway: nothing else keeps its output";
        reader.warn(node.at, "a detached command does not outlive the gateway", help);
    }
}

fn one_kind<'a>(reader: &Reader<'_>, fields: &Fields<'a>) -> Option<(&'static str, &'a Node)> {
    let kinds: Vec<_> = KINDS.iter().filter_map(|kind| Some((*kind, fields.get(kind)?))).collect();
    let later = LATER.iter().any(|kind| fields.get(kind).is_some());
    match kinds.as_slice() {
        [one] if !later => Some(*one),
        [] if later => None,
        [] => {
            if !KINDS.iter().any(|kind| fields.node.has_like(kind)) {
                let help = "add `job: …`, `http: …` or `command: …`";
                reader.error(fields.head(), "what does this tool do? It has no kind", help);
            }
            None
        }
        [_] => None,
        [_, second, ..] => {
            let help = format!("leave one of `{}` and `{}` out", kinds[0].0, second.0);
            reader.error(second.1.head(), "a tool has exactly one kind", help);
            None
        }
    }
}

/// Whether a call of it is kept in the ledger.
fn has_operation(work: &Work) -> bool {
    !matches!(work, Work::Http(http) if http.effect == Effect::None)
}

/// Adds undo and mark to what the kind has made.
fn finish(
    reader: &Reader<'_>,
    tool: &str,
    upstream: Option<UpstreamDefinition>,
    made: Made,
    siblings: &Siblings<'_>,
    kind: &Node,
    args: &Arguments,
) -> Option<(ToolDefinition, super::checked::Accepted)> {
    let Made { work, mut policy, accepted, .. } = made;
    let saved = job::saved(kind.get("create"), kind.get("status"));
    let id = match &work {
        Work::Job(_) | Work::Command(_) => Ok(()),
        Work::Http(http) => {
            http.id.as_ref().map(|_| ()).ok_or("say where it is in the answer: `http: { id: $.id, … }`")
        }
    };
    if !has_operation(&work) {
        refuse_siblings(reader, siblings);
        let definition = ToolDefinition {
            tool: tool.to_owned(),
            upstream: upstream?,
            work,
            compensate: Vec::new(),
            mark: None,
            policy,
        };
        return Some((definition, accepted));
    }
    let scope = |of| job::scope_after(args, &saved, of, id);
    let sends = !matches!(work, Work::Command(_));
    let compensate = read_compensate(reader, siblings, &scope("compensate"), sends);
    let mark = siblings
        .get("mark")
        .map(|(node, from_defaults)| (node, from_defaults, read_one(reader, node, &scope("mark"))));
    policy.undo_steps = u32::try_from(compensate.len()).unwrap_or(u32::MAX);
    policy.when_completed = siblings.when_completed(reader, !compensate.is_empty());
    if let (Work::Http(_), Some((node, false)), WhenCompleted::Keep) =
        (&work, siblings.get("compensate"), policy.when_completed)
    {
        let help = "say `when_completed: compensate`, or leave `compensate` out";
        reader.warn(
            node.head(),
            "this undo is never sent: a request either completes, which is kept, or did nothing",
            help,
        );
    }
    let stoppable = policy.can_cancel || matches!(work, Work::Http(_));
    if let (Some((node, false, _)), true) = (&mark, stoppable) {
        let help = "leave it out: a mark is for a job whose `cancel` is `unsupported`";
        reader.warn(node.head(), "this mark is never sent", help);
    }
    if let Work::Job(job) = &work
        && matches!(job.cancel, CancelDefinition::Unsupported(_))
        && compensate.is_empty()
        && mark.is_none()
    {
        let at = kind.get("cancel").unwrap_or(kind).head();
        let help =
            "add `compensate:` to undo its effects, or `mark:` so that nobody takes them as authoritative";
        reader.warn(at, "after a cancel it runs on, and nothing says so upstream", help);
    }
    let mark = if stoppable { None } else { mark.and_then(|(.., request)| request) };
    policy.mark = mark.is_some();
    let upstream = upstream?;
    let definition = ToolDefinition { tool: tool.to_owned(), upstream, work, compensate, mark, policy };
    Some((definition, accepted))
}

fn refuse_siblings(reader: &Reader<'_>, siblings: &Siblings<'_>) {
    if let Some((node, false)) = siblings.get("on_reissue")
        && matches!(&node.data, Data::Text(word) if word == "attach")
    {
        let help = "leave it out: an identical read is read again";
        reader.error(
            node.at,
            "`on_reissue: attach` has no meaning for a read: it has no operation to join",
            help,
        );
    }
    for name in ["compensate", "mark", "when_completed", "on_orphan"] {
        if let Some((node, false)) = siblings.get(name) {
            let help = "leave it out, or say `effect: once`";
            reader.error(
                node.head(),
                format!("`{name}` has no meaning for a request without an effect"),
                help,
            );
        }
    }
}

fn read_compensate(
    reader: &Reader<'_>,
    siblings: &Siblings<'_>,
    scope: &super::scope::Scope<'_>,
    sends: bool,
) -> Vec<UndoDefinition> {
    let Some((node, _)) = siblings.get("compensate") else { return Vec::new() };
    match &node.data {
        Data::List(items) => items.iter().filter_map(|item| read_step(reader, item, scope, sends)).collect(),
        _ => {
            let help = "write `compensate: [ { request: DELETE /rows } ]`: undo runs in this order";
            reader.error(
                node.head(),
                format!("a list of requests or programs is needed here, not {}", node.what()),
                help,
            );
            Vec::new()
        }
    }
}

/// One step of an undo: a program, or a request where there is an upstream to send it to.
fn read_step(
    reader: &Reader<'_>,
    node: &Node,
    scope: &super::scope::Scope<'_>,
    sends: bool,
) -> Option<UndoDefinition> {
    if node.get("run").is_some()
        || (!sends && matches!(node.data, Data::Map(_)) && node.get("request").is_none())
    {
        return read_undo(reader, node, scope).map(|program| UndoDefinition::Program(Box::new(program)));
    }
    if !sends {
        let help = "write `compensate: [ { run: [PROGRAM, ARGUMENT] } ]`";
        reader.error(node.head(), "a command has no upstream to send a request to", help);
        return None;
    }
    read_one(reader, node, scope).map(UndoDefinition::Request)
}

fn read_one(reader: &Reader<'_>, node: &Node, scope: &super::scope::Scope<'_>) -> Option<RequestTemplate> {
    if !matches!(node.data, Data::Text(_)) {
        reader.open(node, &shapes::REQUEST)?;
    }
    read_request(reader, node, scope)
}
