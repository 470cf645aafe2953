//! Checked tool definitions: what the ledger keeps so that an operation can be finished under the
//! rules it was started with, whatever today's config says. Secrets appear only as references.

mod command;

pub use command::{CommandDefinition, ExitDefinition, OutputFormat};

use crate::template::{ProgramTemplate, RequestTemplate, Template};
use countermand_core::{HealthPolicy, Policy};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// A tool as its operations are performed. The body of a
/// [`ports::Definition`](countermand_core::ports::Definition).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The tool's name.
    pub tool: String,
    /// Where it is done.
    pub upstream: UpstreamDefinition,
    /// What it does.
    pub work: Work,
    /// What undoes it, in order.
    pub compensate: Vec<UndoDefinition>,
    /// What marks it where it cannot be stopped.
    pub mark: Option<RequestTemplate>,
    /// What the core decides by.
    pub policy: Policy,
}

/// Where a tool's work is done. A stored one is told by its fields, so each kind has one that no other has, beside `name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UpstreamDefinition {
    /// At an HTTP upstream.
    Http(HttpUpstream),
    /// Here: it needs no upstream.
    Local(LocalUpstream),
}

impl UpstreamDefinition {
    /// Its name in the config; empty for work that is done here.
    pub fn name(&self) -> &str {
        match self {
            Self::Http(http) => &http.name,
            Self::Local(local) => &local.name,
        }
    }

    /// When it counts as ill, and how it is spared.
    pub fn health(&self) -> HealthPolicy {
        match self {
            Self::Http(http) => http.limits.health,
            Self::Local(_) => HealthPolicy::default(),
        }
    }

    /// The HTTP upstream, where it is one.
    pub fn http(&self) -> Option<&HttpUpstream> {
        match self {
            Self::Http(http) => Some(http),
            Self::Local(_) => None,
        }
    }
}

/// This machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalUpstream {
    /// Empty: nobody has named it.
    name: String,
}

/// One step of what undoes an operation. A stored one is told by its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UndoDefinition {
    /// A request to the tool's upstream.
    Request(RequestTemplate),
    /// A program; exit code 0 says that it is done.
    Program(Box<ProgramTemplate>),
}

impl UndoDefinition {
    /// The request, where it is one.
    pub fn request(&self) -> Option<&RequestTemplate> {
        match self {
            Self::Request(request) => Some(request),
            Self::Program(_) => None,
        }
    }

    /// The program, where it is one.
    pub fn program(&self) -> Option<&ProgramTemplate> {
        match self {
            Self::Request(_) => None,
            Self::Program(program) => Some(program),
        }
    }
}

/// An HTTP upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HttpUpstream {
    /// Its name in the config.
    pub name: String,
    /// What every request path is appended to; no query, no fragment.
    pub base_url: String,
    /// Headers of every request.
    pub headers: Vec<(String, Value)>,
    /// What bounds it.
    pub limits: HttpLimits,
}

/// The bounds of an HTTP upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HttpLimits {
    /// Requests in flight; further ones wait, up to their call's timeout. Cancels, status reads of cancels and undo requests do not wait.
    pub concurrency: usize,
    /// Idle connections kept, at most.
    pub idle: usize,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a response may be silent.
    pub read_timeout: Duration,
    /// The largest response body, in bytes.
    pub max_bytes: u64,
    /// When it counts as ill, and how it is spared. Unknown to definitions that are older.
    #[serde(default)]
    pub health: HealthPolicy,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            concurrency: 1_000,
            idle: 64,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(60),
            max_bytes: 10 << 20,
            health: HealthPolicy::default(),
        }
    }
}

/// A config value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Written in the config.
    Text(String),
    /// Read from elsewhere when it is needed; never stored, never shown.
    Secret(SecretRef),
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SecretRef {
    /// Where.
    pub source: SecretSource,
    /// What is put before it, such as `Bearer `.
    pub prefix: Option<String>,
}

/// The places that a secret can come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file; a trailing newline is not part of the secret.
    File(String),
    /// The standard output of a program; cached for `ttl`, run again on a 401.
    Exec {
        /// Program and arguments.
        argv: Vec<String>,
        /// How long its answer is used.
        ttl: Duration,
    },
}

/// What a tool does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A remote job.
    Job(Box<JobDefinition>),
    /// One request.
    Http(Box<HttpDefinition>),
    /// A program.
    Command(Box<CommandDefinition>),
}

/// A remote job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobDefinition {
    /// The create.
    pub create: CreateDefinition,
    /// The status read.
    pub status: StatusDefinition,
    /// The result; without it the last status body is the result.
    pub result: Option<ResultDefinition>,
    /// The cancel.
    pub cancel: CancelDefinition,
    /// The look-up by key.
    pub find: Option<FindDefinition>,
}

/// How a job is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateDefinition {
    /// The request.
    pub request: RequestTemplate,
    /// Where its id is.
    pub id: IdSource,
    /// What else of the response is kept, by name, for `${op.saved.NAME}`.
    pub save: BTreeMap<String, Extract>,
}

/// Where an id comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdSource {
    /// Out of the response.
    Response(Extract),
    /// We make it: `${op.key}` or `${op.name}`.
    Ours(Template),
}

/// Something to take out of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extract {
    /// A JSONPath (RFC 9535) over the body; the first non-null node.
    JsonPath(String),
    /// A header.
    Header(String),
}

/// How a job's status is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusDefinition {
    /// The request.
    pub request: RequestTemplate,
    /// Where the state is.
    pub state: StateSource,
    /// Which states mean what; values compare as strings, `*` is the catch-all.
    pub states: States,
    /// What a missing value means.
    pub absent: Option<StateClass>,
    /// JSONPath of the progress.
    pub progress: Option<String>,
    /// JSONPath of the message of a failure.
    pub error: Option<String>,
    /// What of the response is kept, by name.
    pub save: BTreeMap<String, Extract>,
}

/// Where a job's state is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateSource {
    /// JSONPaths; the first non-null node wins.
    Paths(Vec<String>),
    /// The HTTP status code.
    HttpStatus,
}

/// Which states mean what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct States {
    /// It runs.
    pub running: Vec<String>,
    /// It completed.
    pub succeeded: Vec<String>,
    /// It failed.
    pub failed: Vec<String>,
    /// It was cancelled.
    pub cancelled: Vec<String>,
}

/// What a state means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateClass {
    /// It runs.
    Running,
    /// It completed.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// How a result is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultDefinition {
    /// The request.
    pub request: RequestTemplate,
    /// JSONPath of what is handed on; `$` for all of it.
    pub value: String,
}

/// How a job is cancelled, or why it cannot be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "one for each tool, behind the job's box")]
pub enum CancelDefinition {
    /// By a request, and a forced one later.
    Request {
        /// The cancel.
        request: RequestTemplate,
        /// The forced cancel.
        force: Option<RequestTemplate>,
    },
    /// It cannot be; the reason.
    Unsupported(String),
}

/// How an operation is looked up by our key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindDefinition {
    /// The request. 404 is a miss.
    pub request: RequestTemplate,
    /// JSONPath of the id; may name `${op.key}` inside a string literal of a filter.
    pub id: Option<Template>,
}

/// One HTTP request as a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpDefinition {
    /// The request.
    pub request: RequestTemplate,
    /// JSONPath of what is handed on.
    pub value: String,
    /// Whether it changes something upstream.
    pub effect: Effect,
    /// What tells whether a lost one was made.
    pub find: Option<FindDefinition>,
    /// Where the id of what it made is, for `compensate`.
    pub id: Option<Extract>,
}

/// What a request does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it can be aborted and sent again.
    None,
    /// Something, once.
    Once,
}

impl ToolDefinition {
    /// Every request of the definition, with what it is for.
    pub fn requests(&self) -> Vec<(&'static str, &RequestTemplate)> {
        let mut all = Vec::new();
        match &self.work {
            Work::Job(job) => {
                all.push(("create", &job.create.request));
                all.push(("status", &job.status.request));
                all.extend(job.result.iter().map(|r| ("result", &r.request)));
                if let CancelDefinition::Request { request, force } = &job.cancel {
                    all.push(("cancel", request));
                    all.extend(force.iter().map(|f| ("force", f)));
                }
                all.extend(job.find.iter().map(|f| ("find", &f.request)));
            }
            Work::Http(http) => {
                all.push(("request", &http.request));
                all.extend(http.find.iter().map(|f| ("find", &f.request)));
            }
            Work::Command(_) => {}
        }
        all.extend(self.compensate.iter().filter_map(UndoDefinition::request).map(|r| ("compensate", r)));
        all.extend(self.mark.iter().map(|r| ("mark", r)));
        all
    }
}

impl ToolDefinition {
    /// Every program of the definition, with what it is for.
    pub fn programs(&self) -> Vec<(&'static str, &ProgramTemplate)> {
        let mut all = Vec::new();
        if let Work::Command(command) = &self.work {
            all.push(("run", &command.program));
        }
        all.extend(self.compensate.iter().filter_map(UndoDefinition::program).map(|p| ("compensate", p)));
        all
    }
}

impl ToolDefinition {
    /// The definition as the ledger keeps it, under the hash of all that it says.
    pub fn stored(&self) -> countermand_core::ports::Definition {
        // Only strings, numbers, lists and maps with string keys: it cannot fail.
        let body = serde_json::to_value(self).unwrap_or_default();
        countermand_core::ports::Definition {
            hash: countermand_core::row::hash_json(&body).into(),
            policy: std::sync::Arc::new(self.policy.clone()),
            body,
        }
    }

    /// Reads a definition back from the ledger.
    ///
    /// # Errors
    /// Where it was written by a version that knew other definitions.
    pub fn from_stored(stored: &countermand_core::ports::Definition) -> Result<Self, serde_json::Error> {
        Self::deserialize(&stored.body)
    }
}
