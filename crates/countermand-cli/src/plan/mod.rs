//! The cancellation plan: per tool, what a cancel does at each moment, what bounds it, what is
//! undone, and what cannot be promised.
//!
//! Serialized, it is the stable answer of `check --json`: fields are added, never renamed.

mod command;
mod moments;
mod promises;
mod render;
mod servers;
mod show;

pub use servers::ServerPlan;
pub(crate) use show::undo as undo_line;

use crate::config::{Config, OnReissue, Tool};
use countermand::definition::{Effect, Work};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The plan of a config.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The server's name.
    pub server: String,
    /// The tools, in the order of the file.
    pub tools: Vec<ToolPlan>,
    /// The existing MCP servers, in the order of their names.
    pub servers: Vec<ServerPlan>,
}

/// The plan of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolPlan {
    /// The tool's name.
    pub tool: String,
    /// `job`, `http_once` (a request with an effect), `http_none` (one without) or `command`.
    pub kind: &'static str,
    /// The upstream's name; `null` where it needs none.
    pub upstream: Option<String>,
    /// Where its requests go; `null` where it sends none.
    pub base_url: Option<String>,
    /// What a cancel does, in one line.
    pub summary: String,
    /// What an identical call does while an earlier one runs: `new`, or `attach`.
    pub on_reissue: &'static str,
    /// Whether its operations are kept in the ledger, and so survive us.
    pub durable: bool,
    /// Whether the upstream can be told to stop.
    pub stoppable: bool,
    /// What a cancel does, by when it comes; and what our own end does.
    pub moments: Vec<Moment>,
    /// What bounds it.
    pub bounds: Vec<Bound>,
    /// What is undone; `null` where nothing is.
    pub undo: Option<Undo>,
    /// Each request as configured.
    pub requests: Vec<Request>,
    /// Each program as configured.
    pub programs: Vec<Program>,
    /// What cannot be promised.
    pub risks: Vec<Risk>,
}

/// What happens when a cancel comes at some moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Which: `before_create`, `create_in_flight`, `create_answer_lost`, `running`, `cancel_fails`,
    /// `not_confirmed`, `done`, `client_vanishes_stdio`, `client_vanishes_http_2025`,
    /// `client_vanishes_http_2026`, `gateway_killed`, `gateway_shuts_down`.
    pub moment: &'static str,
    /// The same for people.
    pub when: &'static str,
    /// What happens, a sentence each.
    pub what: Vec<String>,
    /// The requests that this sends, in order, as `METHOD path?query`.
    pub sends: Vec<String>,
}

/// A bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Its name in the config.
    pub bound: &'static str,
    /// The time.
    pub time: String,
    /// The time in milliseconds.
    pub millis: u64,
    /// What it bounds.
    pub what: String,
}

/// What is undone, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undo {
    /// When.
    pub when: String,
    /// Whether completed work is undone, too, where its cancel was wanted.
    pub after_completed: bool,
    /// The requests in order, as `METHOD path?query`.
    pub sends: Vec<String>,
}

/// A request as configured; secrets are references.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    /// What it is for: `create`, `status`, `result`, `cancel`, `force`, `find`, `request`,
    /// `compensate`, `mark`.
    pub purpose: &'static str,
    /// `METHOD path?query`.
    pub request: String,
    /// Headers beside the upstream's.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Option<Json>,
    /// Whether the body is a form.
    pub form: bool,
}

/// A program as configured; secrets are references.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Program {
    /// What it is for: `run`, `compensate`.
    pub purpose: &'static str,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Its working directory; `null` for the gateway's.
    pub cwd: Option<String>,
    /// Variables that it gets.
    pub env: BTreeMap<String, String>,
    /// Which of the gateway's variables it gets; `null` for all.
    pub inherit_env: Option<Vec<String>>,
    /// What it reads.
    pub stdin: Option<Json>,
}

/// Something that cannot be promised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Risk {
    /// Which: `cannot_be_stopped`, `lost_id`, `replay_creates`, `assumed_window`, `never_replayed`,
    /// `effects_stay`, `sent_is_sent`, `abort_only`, `undo_may_fail`, `ends_with_us`, `escapes`.
    pub risk: &'static str,
    /// The same for people.
    pub what: String,
}

impl Plan {
    /// The plan of a checked config.
    pub fn of(config: &Config) -> Self {
        Self {
            server: config.server.name.clone(),
            tools: config.tools.iter().map(ToolPlan::of).collect(),
            servers: config.servers.iter().map(ServerPlan::of).collect(),
        }
    }

    /// The plan for people: wrapped to `width` columns, or one line per statement without one.
    pub fn render(&self, width: Option<usize>) -> String {
        render::render(self, width)
    }
}

impl ToolPlan {
    /// The plan of a tool.
    pub fn of(tool: &Tool) -> Self {
        let definition = &tool.definition;
        let (kind, durable) = match &definition.work {
            Work::Job(_) => ("job", true),
            Work::Http(http) if http.effect == Effect::Once => ("http_once", true),
            Work::Http(_) => ("http_none", false),
            Work::Command(_) => ("command", true),
        };
        Self {
            tool: tool.name.clone(),
            kind,
            upstream: Some(definition.upstream.name()).filter(|name| !name.is_empty()).map(str::to_owned),
            base_url: definition.upstream.http().map(|http| http.base_url.clone()),
            summary: promises::summary(tool),
            on_reissue: match tool.on_reissue {
                OnReissue::New => "new",
                OnReissue::Attach => "attach",
            },
            durable,
            stoppable: definition.policy.can_cancel || !durable,
            moments: moments::of(tool),
            bounds: promises::bounds(tool),
            undo: promises::undo(tool),
            requests: promises::requests(tool),
            programs: promises::programs(tool),
            risks: promises::risks(tool),
        }
    }
}
