//! The plan of an existing MCP server: what a cancel of any of its tools does.

use super::{Bound, Moment, Risk, show};
use crate::config::{Isolation, McpServer, McpTarget, SESSION_GRACE, Then};
use countermand::core::OnDisconnect;
use serde::Serialize;
use std::time::Duration;

/// The plan of an existing MCP server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerPlan {
    /// Its name in the config.
    pub server: String,
    /// `mcp`.
    pub kind: &'static str,
    /// Its command, or its address without a query.
    pub target: String,
    /// What the names of its tools and prompts begin with.
    pub prefix: String,
    /// Who shares a process or session of it: `session`, `shared`, `call`.
    pub isolation: &'static str,
    /// What a cancel does, in one line.
    pub summary: String,
    /// What a cancel does, by when it comes; and what our own end does.
    pub moments: Vec<Moment>,
    /// What bounds it.
    pub bounds: Vec<Bound>,
    /// What cannot be promised.
    pub risks: Vec<Risk>,
}

impl ServerPlan {
    /// The plan of a checked server.
    pub(super) fn of(server: &McpServer) -> Self {
        let (target, local) = match &server.target {
            McpTarget::Command { argv, .. } => (argv.join(" "), true),
            McpTarget::Url { url, .. } => (url.split('?').next().unwrap_or_default().to_owned(), false),
        };
        Self {
            server: server.name.clone(),
            kind: "mcp",
            target,
            prefix: server.prefix.clone(),
            isolation: match server.isolation.unwrap_or(Isolation::Session) {
                Isolation::Session => "session",
                Isolation::Shared => "shared",
                Isolation::Call => "call",
            },
            summary: "a cancel is recorded and forwarded; whether the server obeys cannot be verified"
                .to_owned(),
            moments: moments(server, local),
            bounds: bounds(server),
            risks: risks(server, local),
        }
    }
}

fn moment(moment: &'static str, when: &'static str, what: &[String]) -> Moment {
    Moment { moment, when, what: what.to_vec(), sends: Vec::new() }
}

fn moments(server: &McpServer, local: bool) -> Vec<Moment> {
    let after = show::time(server.unconfirmed.after);
    let forwarded = "the server gets `notifications/cancelled` with the id that it knows (one of 2026-07-28 over HTTP: its response is closed); the cancel is a row in the ledger first.";
    let late = format!("An answer within {after} shows that it ran on: `completed`, and nobody gets it.");
    let then = match server.unconfirmed.then {
        Then::Leave => {
            format!("After {after} of silence the row is `unverified`: delivered, cannot be verified.")
        }
        Then::Restart => format!(
            "After {after} of silence its process is ended as soon as no other call is in flight there, and the row is `cancelled`; if others stay, it is `unverified` {after} later."
        ),
        Then::KillCall => format!(
            "After {after} of silence its process is killed, with all that it has started, and the row is `cancelled`: the kernel's word."
        ),
    };
    let policy = |default: OnDisconnect| match server.on_disconnect.unwrap_or(default) {
        OnDisconnect::Cancel => "as when it runs, at once.".to_owned(),
        OnDisconnect::Grace(grace) => {
            format!("as when it runs, unless the client is back within {}.", show::time(grace))
        }
        OnDisconnect::Detach => "the call goes on; its timeout bounds it.".to_owned(),
    };
    let our_end = if local {
        "its process is ended with all that it has started, which is the kernel's word."
    } else {
        "its session is ended."
    };
    let killed = if local {
        "its process dies with us; what that has started is not found again. A cancel that was on its way is `unverified`."
    } else {
        "the server learns it from its connection at best. A cancel that was on its way is `unverified`."
    };
    vec![
        moment("before_create", "before it was sent", &["nothing is sent.".to_owned()]),
        moment("running", "when it runs", &[forwarded.to_owned(), late, then]),
        moment(
            "cancel_fails",
            "the cancel cannot be forwarded",
            &["it is tried again, and an orphan after the same time.".to_owned()],
        ),
        moment("done", "once it has answered", &["nothing: the answer is there.".to_owned()]),
        moment("client_vanishes_stdio", "client vanishes (stdio)", &[policy(OnDisconnect::Cancel)]),
        moment(
            "client_vanishes_http_2025",
            "client vanishes (HTTP, 2025)",
            &[policy(OnDisconnect::Grace(SESSION_GRACE))],
        ),
        moment("client_vanishes_http_2026", "client vanishes (HTTP, 2026)", &[policy(OnDisconnect::Cancel)]),
        moment("gateway_killed", "gateway killed", &[killed.to_owned()]),
        moment(
            "gateway_shuts_down",
            "gateway shuts down",
            &["as when it runs; then".to_owned() + " " + our_end],
        ),
    ]
}

fn bounds(server: &McpServer) -> Vec<Bound> {
    let bound = |bound, time: Duration, what: &str| Bound {
        bound,
        time: show::time(time),
        millis: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        what: what.to_owned(),
    };
    vec![
        bound("timeout", server.timeout, "a request; its end is a cancel with cause `deadline`"),
        bound("connect_within", server.connect_within, "the server's introduction, when it is started"),
        bound("unconfirmed.after", server.unconfirmed.after, "the wait for a late answer after a cancel"),
    ]
}

fn risks(server: &McpServer, local: bool) -> Vec<Risk> {
    let risk = |risk, what: &str| Risk { risk, what: what.to_owned() };
    let mut risks = Vec::new();
    if server.unconfirmed.then != Then::KillCall {
        risks.push(risk(
            "cannot_be_verified",
            "most servers acknowledge nothing: whether it stopped its own work upstream, nobody outside can see",
        ));
    }
    risks.push(risk("effects_stay", "what a call has changed before its cancel stays: nothing is undone"));
    if local && server.isolation != Some(Isolation::Call) {
        risks.push(risk(
            "shared_process",
            "a server that blocks on one call holds up all calls of its process",
        ));
    }
    risks
}
