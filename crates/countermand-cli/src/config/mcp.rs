//! Existing MCP servers as upstreams: what the proxy needs to know of each.

use super::{
    fields::{Fields, Reader},
    node::{Data, Node},
    secret, shapes,
    siblings::on_disconnect,
};
use countermand::{core::OnDisconnect, definition::Value};
use std::{path::PathBuf, time::Duration};
use url::Url;

/// An existing MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name in the config.
    pub name: String,
    /// Where it is.
    pub target: McpTarget,
    /// What the names of its tools and prompts begin with here.
    pub prefix: String,
    /// The only tools of it that are served, by their own names; `None` for all.
    pub only: Option<Vec<String>>,
    /// Tools of it that are not served, by their own names.
    pub except: Vec<String>,
    /// Who shares a connection to it; `None` for a session's client each, and all others one.
    pub isolation: Option<Isolation>,
    /// What follows a cancel that it does not answer.
    pub unconfirmed: Unconfirmed,
    /// How long a request to it may take.
    pub timeout: Duration,
    /// What a client's disconnect means; `None` for the default of its transport and revision.
    pub on_disconnect: Option<OnDisconnect>,
    /// How long it may take to introduce itself.
    pub connect_within: Duration,
    /// Connections to it, and so processes of it, at once.
    pub connections: usize,
}

impl McpServer {
    /// How long a request may take, where nobody says.
    pub const TIMEOUT: Duration = Duration::from_secs(3600);

    /// How long a server may take to introduce itself, where nobody says: `npx` may have to fetch it first.
    pub const CONNECT_WITHIN: Duration = Duration::from_secs(60);

    /// Connections at once, where nobody says.
    pub const CONNECTIONS: usize = 100;

    /// A server of that name, with all defaults.
    pub fn new(name: &str, target: McpTarget) -> Self {
        Self {
            name: name.to_owned(),
            target,
            prefix: String::new(),
            only: None,
            except: Vec::new(),
            isolation: None,
            unconfirmed: Unconfirmed::default(),
            timeout: Self::TIMEOUT,
            on_disconnect: None,
            connect_within: Self::CONNECT_WITHIN,
            connections: Self::CONNECTIONS,
        }
    }
}

/// Where an MCP server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTarget {
    /// A program that is started here, and spoken to over its standard input and output. It gets our environment.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The working directory; else ours.
        cwd: Option<PathBuf>,
        /// Variables beside ours.
        env: Vec<(String, Value)>,
    },
    /// A server of Streamable HTTP.
    Url {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, Value)>,
    },
}

/// Who shares a connection, and so a process, of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Every client that begins with `initialize` has its own; all other requests share one.
    Session,
    /// All share one.
    Shared,
    /// Every call has its own.
    Call,
}

/// What follows a cancel that a server does not answer: silence proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unconfirmed {
    /// How long an answer is waited for.
    pub after: Duration,
    /// What is done then.
    pub then: Then,
}

impl Default for Unconfirmed {
    fn default() -> Self {
        Self { after: Duration::from_secs(10), then: Then::Leave }
    }
}

/// What is done about a server that does not answer a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Then {
    /// Nothing: it was told.
    Leave,
    /// Its process is ended as soon as no other call is in flight there; the next call starts it anew.
    Restart,
    /// Its process, which serves this call alone, is killed.
    KillCall,
}

/// Whether an upstream is an existing MCP server.
pub fn is_server(node: &Node) -> bool {
    node.get("mcp").is_some()
}

/// Reads `upstreams.NAME` of an existing MCP server.
pub fn server(reader: &Reader<'_>, name: &str, node: &Node) -> Option<McpServer> {
    let upstream = reader.open(node, &shapes::UPSTREAM)?;
    for other in ["http", "postgres", "mysql"] {
        if let Some(other) = upstream.get(other) {
            reader.error(other.head(), "an upstream is of one kind", "make it two upstreams");
        }
    }
    let fields = reader.open(upstream.get("mcp")?, &shapes::UPSTREAM_MCP)?;
    let target = target(reader, fields)?;
    let mut server = McpServer::new(name, target);
    let time = |name: &str| fields.get(name).and_then(|node| reader.duration(node));
    server.timeout = time("timeout").unwrap_or(server.timeout);
    server.connect_within = time("connect_within").unwrap_or(server.connect_within);
    server.connections =
        fields.get("connections").and_then(|node| reader.count(node)).unwrap_or(server.connections);
    server.on_disconnect = fields.get("on_disconnect").and_then(|node| on_disconnect(reader, node));
    server.isolation = fields.get("isolation").and_then(|node| {
        let words =
            [("session", Isolation::Session), ("shared", Isolation::Shared), ("call", Isolation::Call)];
        reader.word(node, &words)
    });
    if let Some(tools) = fields.get("tools").and_then(|node| reader.open(node, &shapes::MCP_TOOLS)) {
        let names = |name: &str| {
            let named = tools.get(name).map(|node| reader.texts(node))?;
            Some(named.into_iter().map(|(_, text)| text).collect::<Vec<_>>())
        };
        server.prefix = tools.get("prefix").and_then(|node| prefix(reader, node)).unwrap_or_default();
        server.only = names("only");
        server.except = names("except").unwrap_or_default();
    }
    if let Some(node) = fields.get("unconfirmed") {
        server.unconfirmed = unconfirmed(reader, node, &server);
    }
    Some(server)
}

fn target(reader: &Reader<'_>, fields: Fields<'_>) -> Option<McpTarget> {
    let misplaced = |names: &[&str], of: &str| {
        for node in names.iter().filter_map(|name| fields.get(name)) {
            reader.error(node.head(), format!("this belongs to a server that {of}"), "leave it out");
        }
    };
    match (fields.get("command"), fields.get("url")) {
        (Some(command), None) => {
            misplaced(&["headers"], "has a `url`");
            let Data::List(_) = command.data else {
                let written = command.scalar().unwrap_or_default();
                let words = written.split_whitespace().collect::<Vec<_>>().join(", ");
                let message = "a command is a list of the program and its arguments; no shell reads it";
                reader.error(command.at, message, format!("write `command: [{words}]`"));
                return None;
            };
            let argv: Vec<_> = reader.texts(command).into_iter().map(|(_, text)| text).collect();
            if argv.first().is_none_or(|program| program.trim().is_empty()) {
                reader.error(
                    command.head(),
                    "the program is missing",
                    "write `command: [PROGRAM, ARGUMENT]`",
                );
                return None;
            }
            Some(McpTarget::Command {
                argv,
                cwd: fields.get("cwd").and_then(|node| reader.name(node)).map(PathBuf::from),
                env: variables(reader, fields.get("env")),
            })
        }
        (None, Some(url)) => {
            misplaced(&["cwd", "env"], "is started by a `command`");
            let text = reader.name(url)?;
            match Url::parse(&text) {
                Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => {}
                _ => {
                    reader.error(url.at, format!("`{text}` is no HTTP URL"), "write `http://HOST:PORT/mcp`");
                    return None;
                }
            }
            Some(McpTarget::Url {
                url: text,
                headers: secret::headers(reader, fields.get("headers"), "an upstream"),
            })
        }
        (Some(_), Some(url)) => {
            reader.error(url.head(), "a server is a `command` or a `url`", "leave one of them out");
            None
        }
        (None, None) => {
            let help = "write `command: [npx, -y, some-server]` or `url: https://HOST/mcp`";
            reader.missing(fields.node, "command", "where is this server?", help);
            None
        }
    }
}

fn variables(reader: &Reader<'_>, node: Option<&Node>) -> Vec<(String, Value)> {
    let mut variables = Vec::new();
    for entry in reader.optional_entries(node) {
        if entry.name.is_empty() || entry.name.contains(['=', '\0']) {
            reader.error(
                entry.at,
                format!("`{}` is no name of a variable", entry.name),
                "write a name such as `HOME`",
            );
            continue;
        }
        let value = match secret::is_secret(&entry.value) {
            true => secret::secret(reader, &entry.value).map(Value::Secret),
            false => reader.text(&entry.value).map(Value::Text),
        };
        variables.extend(value.map(|value| (entry.name.clone(), value)));
    }
    variables
}

/// The beginning of tools' names has to be one of a tool's name.
fn prefix(reader: &Reader<'_>, node: &Node) -> Option<String> {
    let prefix = reader.text(node)?;
    if prefix.len() > 64 || !prefix.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c)) {
        let help = "write up to 64 letters, digits, `_`, `-`, `.` or `/`";
        reader.error(node.at, format!("`{prefix}` cannot begin the name of a tool"), help);
        return None;
    }
    Some(prefix)
}

fn unconfirmed(reader: &Reader<'_>, node: &Node, server: &McpServer) -> Unconfirmed {
    let mut read = Unconfirmed::default();
    let Some(fields) = reader.open(node, &shapes::UNCONFIRMED) else { return read };
    read.after = fields.get("after").and_then(|node| reader.duration(node)).unwrap_or(read.after);
    if let Some(node) = fields.get("then") {
        let words = [("leave", Then::Leave), ("restart", Then::Restart), ("kill_call", Then::KillCall)];
        read.then = reader.word(node, &words).unwrap_or(read.then);
        if read.then != Then::Leave && matches!(server.target, McpTarget::Url { .. }) {
            let message = "the process of a server at a URL is not ours to end";
            reader.error(node.at, message, "write `then: leave`");
        } else if read.then == Then::KillCall && server.isolation != Some(Isolation::Call) {
            let message = "`kill_call` ends a process that other calls may use";
            reader.error(node.at, message, "add `isolation: call`, or write `then: restart`");
        }
    }
    read
}
