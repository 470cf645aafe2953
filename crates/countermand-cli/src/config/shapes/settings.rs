//! The shapes of the file itself, the gateway's own settings, and the upstreams.

use super::{
    DEFAULTS, GRACE,
    Holds::{Bool, Count, Duration, Either, Later, List, Map, Shape as Of, Size, Text, Word},
    ON_ORPHAN, PRESET, SECRET, Shape, TOOL, field,
};

/// The whole file.
pub static ROOT: Shape = Shape {
    name: "Config",
    doc: "The config file of countermand.",
    fields: &[&[
        field("server", Of(&SERVER), "What MCP clients see, and where."),
        field("admin", Of(&ADMIN), "Console, API, /metrics, /healthz and /readyz."),
        field(
            "ledger",
            Text,
            "Where operations are kept: `sqlite:PATH`, relative to the working directory. Default: sqlite:countermand.db.",
        ),
        field("retention", Duration, "How long settled operations are kept. Default: 30d."),
        field("limits", Of(&LIMITS), "What bounds the gateway."),
        field(
            "on_orphan",
            Either(&[Word(&["nobody"]), Of(&ON_ORPHAN)]),
            "Who is told of what could not be stopped. Default: the log alone.",
        ),
        field("defaults", Of(&DEFAULTS), "What every tool takes that does not say otherwise."),
        field(
            "presets",
            Map(&Of(&PRESET)),
            "Named kinds to fill in with `preset: NAME`; each field can be overridden.",
        ),
        field("upstreams", Map(&Of(&UPSTREAM)), "What the tools call."),
        field("tools", Map(&Of(&TOOL)), "The tools, by name."),
    ]],
};

/// `server`.
pub static SERVER: Shape = Shape {
    name: "Server",
    doc: "What MCP clients see.",
    fields: &[&[
        field("name", Text, "The server's name. Default: countermand."),
        field("title", Text, "Its name for people."),
        field("version", Text, "Its version. Default: that of countermand."),
        field("instructions", Text, "What a model should know about the server as a whole."),
        field("http", Either(&[Of(&SERVER_HTTP), Text]), "Streamable HTTP at /mcp. Without it: stdio only."),
        field("auth", Later, "Who may call."),
        field("tasks", Later, "Long calls as durable tasks."),
    ]],
};

/// `server.http`.
pub static SERVER_HTTP: Shape = Shape {
    name: "Listener",
    doc: "The MCP listener.",
    fields: &[&[
        field("listen", Text, "ADDRESS:PORT, such as 127.0.0.1:8717."),
        field(
            "allowed_hosts",
            Either(&[List(&Text), Text]),
            "Host names that clients may use, besides those of loopback. A listener on another address takes any while none is listed.",
        ),
        field(
            "allowed_origins",
            Either(&[List(&Text), Text]),
            "Origins that browsers may call from, besides those of loopback.",
        ),
        field("json", Bool, "Answer with plain JSON where nothing is streamed. Default: false."),
        field(
            "session_idle",
            Duration,
            "How long a session (2025 revisions) lasts with no request, no open stream and no call. Default: 30m.",
        ),
    ]],
};

/// `admin`.
pub static ADMIN: Shape = Shape {
    name: "Admin",
    doc: "The admin listener.",
    fields: &[&[
        field("listen", Text, "ADDRESS:PORT; loopback, or with a token."),
        field("token", Either(&[Of(&SECRET), Text]), "The bearer token that it asks for."),
    ]],
};

/// `limits`.
pub static LIMITS: Shape = Shape {
    name: "Limits",
    doc: "Beyond these: an error at once; nothing is queued without bound.",
    fields: &[&[
        field("per_principal", Count, "Calls in flight per principal. Default: 1000."),
        field("total", Count, "Calls in flight in all. Default: 10000."),
        field("message", Size, "The largest MCP message. Default: 4MiB."),
        field("sessions", Count, "Sessions (2025 revisions over HTTP) at the same time. Default: 10000."),
    ]],
};

/// `upstreams.NAME`.
pub static UPSTREAM: Shape = Shape {
    name: "Upstream",
    doc: "Something that tools call: exactly one kind.",
    fields: &[&[
        field("http", Either(&[Of(&UPSTREAM_HTTP), Text]), "An HTTP API; a plain string is its base_url."),
        field("postgres", Later, "A PostgreSQL database."),
        field("mysql", Later, "A MySQL or MariaDB database."),
        field(
            "mcp",
            Of(&UPSTREAM_MCP),
            "An existing MCP server; its tools, prompts and resources appear as they are.",
        ),
    ]],
};

/// `upstreams.NAME.mcp`.
pub static UPSTREAM_MCP: Shape = Shape {
    name: "McpServer",
    doc: "An existing MCP server: a command that is started here, or a URL.",
    fields: &[&[
        field(
            "command",
            List(&Text),
            "The program and its arguments; spoken to over stdin and stdout. It gets our environment.",
        ),
        field("url", Text, "The address of a server of Streamable HTTP."),
        field("cwd", Text, "The command's working directory. Default: ours."),
        field("env", Map(&Either(&[Text, Of(&SECRET)])), "Variables of the command, beside ours."),
        field("headers", Map(&Either(&[Text, Of(&SECRET)])), "Headers of every request to the URL."),
        field("tools", Of(&MCP_TOOLS), "Which of its tools are served, and how their names begin."),
        field(
            "isolation",
            Word(&["session", "shared", "call"]),
            "Who shares a process or session of it: each client that begins with `initialize` has its own and all others share one; all share one; every call has its own. Default: session.",
        ),
        field(
            "connections",
            Count,
            "Connections to it, and so processes of it, at once; beyond, a clear error. Default: 100.",
        ),
        field("unconfirmed", Of(&UNCONFIRMED), "What follows a cancel that it does not answer."),
        field("timeout", Duration, "How long a request to it may take. Default: 1h."),
        field("connect_within", Duration, "How long it may take to introduce itself. Default: 1m."),
        field(
            "on_disconnect",
            Either(&[Word(&["cancel", "detach"]), Of(&GRACE)]),
            "What a vanished client means. Default: cancel; 30s of grace for the 2025 revisions over HTTP.",
        ),
    ]],
};

/// `upstreams.NAME.mcp.tools`.
pub static MCP_TOOLS: Shape = Shape {
    name: "McpTools",
    doc: "Which of a server's tools are served.",
    fields: &[&[
        field("prefix", Text, "What the names of its tools and prompts begin with here, such as `gh_`."),
        field("only", List(&Text), "The only ones that are served, by the server's own names."),
        field("except", List(&Text), "Those that are not served, by the server's own names."),
    ]],
};

/// `upstreams.NAME.mcp.unconfirmed`.
pub static UNCONFIRMED: Shape = Shape {
    name: "Unconfirmed",
    doc: "After a forwarded cancel a server's silence proves nothing.",
    fields: &[&[
        field("after", Duration, "How long a late answer is waited for. Default: 10s."),
        field(
            "then",
            Word(&["leave", "restart", "kill_call"]),
            "Nothing more; end its process once no other call is in flight there; kill its process (needs `isolation: call`). Default: leave.",
        ),
    ]],
};

/// `upstreams.NAME.http`.
pub static UPSTREAM_HTTP: Shape = Shape {
    name: "HttpUpstream",
    doc: "An HTTP API.",
    fields: &[&[
        field("base_url", Text, "What every request path is appended to."),
        field("url", Text, "The same as base_url."),
        field("headers", Map(&Either(&[Text, Of(&SECRET)])), "Headers of every request."),
        field("concurrency", Count, "Requests in flight; cancels do not wait. Default: 1000."),
        field("idle", Count, "Idle connections kept, at most. Default: 64."),
        field("connect_timeout", Duration, "How long connecting may take. Default: 10s."),
        field("read_timeout", Duration, "How long a response may be silent. Default: 60s."),
        field("max_bytes", Size, "The largest response body. Default: 10MiB."),
        field("breaker", Of(&BREAKER), "When it is left alone because it fails."),
        field("retry_budget", Of(&RETRY_BUDGET), "How many requests may be retries."),
    ]],
};

/// `upstreams.NAME.http.breaker`.
pub static BREAKER: Shape = Shape {
    name: "Breaker",
    doc: "An upstream that fails is left alone for a while; then one request at a time finds out whether it is back. What is due waits and is never dropped, a cancel for 2 s at most; read-only calls fail at once.",
    fields: &[&[
        field(
            "failures",
            Count,
            "After how many failures in a row: no connection, no answer in time, 5xx. Default: 5.",
        ),
        field("open", Duration, "For how long at first; doubled as long as it fails. Default: 5s."),
        field("max", Duration, "For how long at most. Default: 60s."),
    ]],
};

/// `upstreams.NAME.http.retry_budget`.
pub static RETRY_BUDGET: Shape = Shape {
    name: "RetryBudget",
    doc: "Retries beyond it wait for their turn, cancels for 2 s at most. Both fields add up.",
    fields: &[&[
        field("percent", Count, "Retries for a hundred first requests. Default: 20."),
        field("per_second", Count, "Retries a second besides. Default: 10."),
    ]],
};
