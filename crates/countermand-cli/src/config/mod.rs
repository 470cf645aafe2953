//! The config file: read once, at the edge, into checked values.
//!
//! A file is read as a tree that keeps its positions (`node`), against tables of what there can be
//! (`shapes`, from which the JSON Schema is made, too). Every error of a file is reported together.
//! In layer order; a module imports only modules declared above it.

pub mod checked;
pub mod command;
pub mod extract;
pub mod fields;
pub mod http;
pub mod input;
pub mod job;
pub mod kind;
pub mod lost;
pub mod mask;
pub mod mcp;
pub mod node;
pub mod presets;
pub mod program;
pub mod report;
pub mod request;
pub mod scope;
pub mod secret;
pub mod settings;
pub mod shapes;
pub mod siblings;
pub mod status;
pub mod telling;
pub mod tool;
pub mod upstream;

pub use checked::{Accepted, Admin, Config, Listener, OnReissue, SESSION_GRACE, Server, Tool};
pub use countermand_mcp::Limits;
pub use mcp::{Isolation, McpServer, McpTarget, Then, Unconfirmed};
pub use report::{ConfigErrors, Warning};

use fields::Reader;
use node::Node;
use report::{Problem, Sink, Source};
use std::{cell::RefCell, collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

/// Reads and checks a config file. `env` looks up environment variables: one that a secret names
/// and that is not set is a warning here, and [`Config::missing_secrets`] tells it before `serve`.
///
/// # Errors
/// Where the file cannot be read, is not YAML, or does not pass the checks; all of it together.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigErrors> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&name, &text, env),
        Err(error) => Err(ConfigErrors::unreadable(&name, &error)),
    }
}

/// [`load`] with the environment of this process.
///
/// # Errors
/// As [`load`].
pub fn load_from_env(path: &Path) -> Result<Config, ConfigErrors> {
    load(path, &|name| std::env::var(name).ok())
}

/// Reads a time as the config and the command line write it.
///
/// # Errors
/// What to write instead.
pub fn duration(text: &str) -> Result<Duration, String> {
    fields::parse_duration(text)
        .ok_or_else(|| format!("`{text}` is no time: write a time such as {}", fields::TIMES))
}

/// Checks the text of a config file, which messages call `name`.
///
/// # Errors
/// As [`load`], but for the reading.
pub fn parse(name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigErrors> {
    let source = Source::new(name, text);
    let root = Node::parse(&source).map_err(|problem| ConfigErrors::of(&source, vec![problem]))?;
    let sink = Sink::default();
    let secrets = RefCell::default();
    let config = read(&Reader { source: &source, sink: &sink, env, secrets: &secrets }, &root);
    let warnings = sink.finish(&source)?;
    match config {
        Some(config) => Ok(Config { warnings, secrets: secrets.into_inner(), ..config }),
        // Whatever yields nothing has said why; this is for a reader that forgets to.
        None => Err(ConfigErrors::of(&source, vec![Problem::new(root.at, "this config cannot be used")])),
    }
}

/// The config of a gateway that is nothing but the front of an existing MCP server.
pub fn wrapping(server: McpServer, listen: Option<SocketAddr>, ledger: String) -> Config {
    Config {
        server: Server {
            name: "countermand".to_owned(),
            title: None,
            version: None,
            instructions: None,
            http: listen.map(|address| Listener { listen: Some(address), ..Listener::default() }),
        },
        admin: None,
        ledger,
        retention: settings::DEFAULT_RETENTION,
        limits: Limits::default(),
        on_orphan: None,
        upstreams: BTreeMap::new(),
        servers: vec![server],
        transparent: true,
        tools: Vec::new(),
        warnings: Vec::new(),
        secrets: Vec::new(),
        source: Source::new("", ""),
    }
}

fn read(reader: &Reader<'_>, root: &Node) -> Option<Config> {
    let fields = reader.open(root, &shapes::ROOT)?;
    let server = settings::server(reader, fields.get("server"));
    let admin = fields.get("admin").and_then(|node| settings::admin(reader, node));
    let ledger = settings::ledger(reader, fields.get("ledger"));
    let retention = fields.get("retention").and_then(|node| reader.duration(node));
    let limits = settings::limits(reader, fields.get("limits"));
    let named = reader.optional_entries(fields.get("upstreams"));
    let (servers, upstreams): (Vec<_>, Vec<_>) = named.iter().partition(|entry| mcp::is_server(&entry.value));
    let servers: BTreeMap<_, _> = servers
        .into_iter()
        .map(|entry| (entry.name.clone(), mcp::server(reader, &entry.name, &entry.value)))
        .collect();
    let upstreams: BTreeMap<_, _> = upstreams
        .into_iter()
        .map(|entry| (entry.name.clone(), upstream::upstream(reader, &entry.name, &entry.value)))
        .collect();
    let defaults = fields.get("defaults").filter(|node| reader.open(node, &shapes::DEFAULTS).is_some());
    let on_orphan = fields.get("on_orphan").and_then(|node| telling::on_orphan(reader, node));
    let presets = presets::Presets::read(reader, fields.get("presets"));
    let names = servers.keys().cloned().collect();
    let shared = tool::Shared { upstreams, servers: names, presets, defaults, on_orphan };
    let entries = reader.optional_entries(fields.get("tools"));
    let tools: Vec<_> = entries.iter().filter_map(|entry| tool::read_tool(reader, entry, &shared)).collect();
    shared.presets.warn_of_unused(reader);
    if entries.is_empty() && servers.is_empty() {
        reader.warn(root.at, "there are no tools", "add one under `tools:`");
    }
    let on_orphan = shared.on_orphan;
    let upstreams = shared.upstreams.into_iter().filter_map(|(name, one)| Some((name, one?))).collect();
    Some(Config {
        server,
        admin,
        ledger,
        retention: retention.unwrap_or(settings::DEFAULT_RETENTION),
        limits,
        on_orphan,
        upstreams,
        servers: servers.into_values().flatten().collect(),
        transparent: false,
        tools,
        warnings: Vec::new(),
        secrets: Vec::new(),
        source: reader.source.clone(),
    })
}
