//! Existing MCP servers as upstreams: what the proxy needs to know of each.

use countermand::{core::OnDisconnect, definition::Value};
use std::{path::PathBuf, time::Duration};

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
}

impl McpServer {
    /// How long a request may take, where nobody says.
    pub const TIMEOUT: Duration = Duration::from_secs(3600);

    /// How long a server may take to introduce itself, where nobody says: `npx` may have to fetch it first.
    pub const CONNECT_WITHIN: Duration = Duration::from_secs(60);

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
