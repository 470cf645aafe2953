//! The shapes of tools, and of what they share.

use super::{
    COMMAND, Field, HTTP,
    Holds::{Duration, Either, Later, List, Map, Object, Schema, Shape as Of, Text, Word},
    JOB, PROGRAM, REQUEST, SECRET, Shape, field,
};

/// What stands beside the kind of a tool, and under `defaults`.
static SIBLINGS: &[Field] = &[
    field(
        "compensate",
        List(&Either(&[Of(&REQUEST), Of(&PROGRAM), Text])),
        "What undoes it after a stop, in order: requests, or programs (`run`).",
    ),
    field("mark", Either(&[Of(&REQUEST), Text]), "What marks it upstream where it cannot be stopped."),
    field(
        "when_completed",
        Word(&["keep", "compensate"]),
        "What becomes of work that completed although a cancel was wanted. Default: compensate where that is given, else keep.",
    ),
    field(
        "timeout",
        Duration,
        "How long a call may take; its end is a cancel. Default: the lifetime; 60s for http.",
    ),
    field(
        "on_disconnect",
        Either(&[Word(&["cancel", "detach"]), Of(&GRACE)]),
        "What a vanished client means. Default: cancel; 30s of grace for the 2025 revisions over HTTP.",
    ),
    field(
        "on_reissue",
        Word(&["new", "attach"]),
        "What an identical call (same caller, tool and arguments) does while an earlier one runs: start anew, or join it. Default: new.",
    ),
    field(
        "on_orphan",
        Either(&[Word(&["nobody"]), Of(&ON_ORPHAN)]),
        "Who is told of what could not be stopped, instead of who the file names; `nobody`: the log alone.",
    ),
];

/// `on_orphan`.
pub static ON_ORPHAN: Shape = Shape {
    name: "OnOrphan",
    doc: "Who is told of an operation that may run on unseen, needs an operator or could not be undone, and once more when it is settled. One of command, webhook.",
    fields: &[&[
        field(
            "command",
            List(&Text),
            "Program and arguments; it gets the operation as JSON on its standard input and has 30 s.",
        ),
        field("webhook", Either(&[Text, Of(&SECRET)]), "Where the operation is POSTed as JSON; 2xx is done."),
        field("headers", Map(&Either(&[Text, Of(&SECRET)])), "Headers of the POST."),
    ]],
};

/// `defaults`.
pub static DEFAULTS: Shape =
    Shape { name: "Defaults", doc: "What tools take that do not say otherwise.", fields: &[SIBLINGS] };

/// `on_disconnect: { grace: … }`.
pub static GRACE: Shape = Shape {
    name: "Grace",
    doc: "A time to come back.",
    fields: &[&[field("grace", Duration, "How long the client may be away.")]],
};

/// `presets.NAME`.
pub static PRESET: Shape = Shape {
    name: "Preset",
    doc: "A kind, or a part of one, to be used by tools.",
    fields: &[&[
        field("job", Of(&JOB), "Used by `job: { preset: NAME }`."),
        field("http", Of(&HTTP), "Used by `http: { preset: NAME }`."),
    ]],
};

/// `tools.NAME`.
pub static TOOL: Shape = Shape {
    name: "Tool",
    doc: "A tool: exactly one kind, and what stands beside it.",
    fields: &[
        &[
            field("title", Text, "Its name for people."),
            field("description", Text, "What it does, for a model."),
            field("annotations", Object, "MCP's tool annotations."),
            field(
                "input",
                Schema,
                "JSON Schema of the arguments; they are validated before anything happens.",
            ),
            field("output", Schema, "JSON Schema of the structured result."),
            field("upstream", Text, "Where its requests go; a name under `upstreams`. A command has none."),
            field("job", Of(&JOB), "A remote job: created, polled, cancelled by its id."),
            field("http", Either(&[Of(&HTTP), Text]), "One request."),
            field("sql", Later, "A query."),
            field("command", Either(&[Of(&COMMAND), List(&Text)]), "A program."),
            field("steps", Later, "Several effects in a row."),
            field("tasks", Later, "Long calls as durable tasks."),
        ],
        SIBLINGS,
    ],
};
