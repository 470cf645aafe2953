//! What a config file means, once it has been checked.

use super::mcp::McpServer;
use super::report::{ConfigErrors, Problem, Source, Span, Warning};
use countermand::{
    core::OnDisconnect,
    definition::{HttpUpstream, SecretSource, ToolDefinition, Value},
    notify::OnOrphan,
};
use countermand_mcp::Limits;
use serde_json::Value as Json;
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

/// A checked config.
#[derive(Debug, Clone)]
pub struct Config {
    /// What MCP clients see.
    pub server: Server,
    /// The admin listener, where there is one.
    pub admin: Option<Admin>,
    /// Where operations are kept, for
    /// [`LedgerUrl::parse`](countermand::ledger::LedgerUrl::parse) with the working directory as its base.
    pub ledger: String,
    /// How long settled operations are kept.
    pub retention: Duration,
    /// What bounds the gateway.
    pub limits: Limits,
    /// Who is told of orphans whose tool does not say, or is not there any more.
    pub on_orphan: Option<OnOrphan>,
    /// The upstreams, by name.
    pub upstreams: BTreeMap<String, HttpUpstream>,
    /// Existing MCP servers whose tools appear as they are, in the order of their names.
    pub servers: Vec<McpServer>,
    /// Whether it is nothing but the front of its one MCP server, all of which passes.
    pub transparent: bool,
    /// The tools, in the order of the file.
    pub tools: Vec<Tool>,
    /// What somebody should know, in the order of the file.
    pub warnings: Vec<Warning>,
    /// Where secrets are needed.
    pub(super) secrets: Vec<Needed>,
    /// The file.
    pub(super) source: Source,
}

/// What MCP clients see, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its version; `None` for that of countermand.
    pub version: Option<String>,
    /// What a model should know of it.
    pub instructions: Option<String>,
    /// The HTTP listener; without it, or without its address, stdio only.
    pub http: Option<Listener>,
}

/// The MCP listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listener {
    /// Where it listens, where the config says so.
    pub listen: Option<SocketAddr>,
    /// Host names that clients may use, besides those of loopback.
    pub allowed_hosts: Vec<String>,
    /// Origins that browsers may call from, besides those of loopback.
    pub allowed_origins: Vec<String>,
    /// Whether to answer with plain JSON where nothing is streamed.
    pub json: bool,
    /// How long a session of an older revision lasts in which nothing happens; `None` for the wire's default.
    pub session_idle: Option<Duration>,
}

/// The admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The bearer token that it asks for; there is one wherever it is not loopback.
    pub token: Option<Value>,
}

/// How long the client of a session may stay away from a call whose tool does not say. In a session a broken connection
/// is no cancel by itself.
pub const SESSION_GRACE: Duration = Duration::from_secs(30);

/// A tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// MCP's tool annotations.
    pub annotations: Option<Json>,
    /// JSON Schema of its arguments, an object's.
    pub input: Json,
    /// JSON Schema of its structured result, an object's.
    pub output: Option<Json>,
    /// What it does upstream, and the rules of its operations.
    pub definition: ToolDefinition,
    /// How long a call may take.
    pub timeout: Duration,
    /// What a client's disconnect means; `None` for the default of its transport and revision.
    pub on_disconnect: Option<OnDisconnect>,
    /// What an identical call does while an earlier one's operation runs.
    pub on_reissue: OnReissue,
    /// Who is told of its orphans.
    pub on_orphan: Option<OnOrphan>,
    /// What the checked definition cannot promise, and says so.
    pub accepted: Accepted,
}

/// What a call does that is identical to one whose operation still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnReissue {
    /// It starts an operation of its own.
    #[default]
    New,
    /// It joins that operation.
    Attach,
}

/// Risks that a config accepts knowingly, or by what its upstream offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted {
    /// `lost_id: accept`.
    pub lost_id: bool,
    /// Arguments that are never kept: a create cannot be replayed.
    pub write_only: bool,
    /// The key window is our guess.
    pub assumed_window: bool,
}

impl Tool {
    /// The validator of its arguments. It fetches nothing.
    ///
    /// # Errors
    /// Never for a tool of a checked config: its schema has been compiled once.
    pub fn validator(&self) -> Result<jsonschema::Validator, jsonschema::ValidationError<'static>> {
        compile(&self.input)
    }

    /// The validator of its structured results, where it promises a shape. It fetches nothing.
    ///
    /// # Errors
    /// Never for a tool of a checked config, as above.
    pub fn output_validator(
        &self,
    ) -> Result<Option<jsonschema::Validator>, jsonschema::ValidationError<'static>> {
        self.output.as_ref().map(compile).transpose()
    }
}

/// Compiles a schema that fetches nothing.
///
/// # Errors
/// Where it is not a valid JSON Schema.
pub fn compile(schema: &Json) -> Result<jsonschema::Validator, jsonschema::ValidationError<'static>> {
    jsonschema::options().offline().build(schema)
}

/// A secret, and where the config needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// Where its source is named.
    pub at: Span,
    /// Where it is.
    pub source: SecretSource,
}

impl Needed {
    /// Why it is not there. Programs are not run to find out.
    pub fn missing(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<Problem> {
        let (message, help) = match &self.source {
            SecretSource::Env(name) => {
                if env(name).is_some_and(|value| !value.is_empty()) {
                    return None;
                }
                (format!("the environment variable `{name}` is not set"), "`serve` needs it: set it")
            }
            SecretSource::File(path) => {
                let error = std::fs::File::open(path).err()?;
                (
                    format!("the file `{path}` cannot be read: {error}"),
                    "`serve` needs it: create it, or let us read it",
                )
            }
            SecretSource::Exec { .. } => return None,
        };
        Some(Problem::new(self.at, message).help(help))
    }
}

impl Config {
    /// The secrets that are not there: environment variables that are not set, files that cannot be
    /// read. Programs are not run. Loading warns of them; serving is impossible without them.
    pub fn missing_secrets(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<ConfigErrors> {
        let missing: Vec<_> = self.secrets.iter().filter_map(|needed| needed.missing(env)).collect();
        (!missing.is_empty()).then(|| ConfigErrors::of(&self.source, missing))
    }
}
