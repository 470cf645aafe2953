//! The shapes of what a tool does: a job, one request; and of the secrets in them.

use super::{
    Field, Holds,
    Holds::{Any, Bool, Duration, Either, List, Map, Path, Shape as Of, Size, Text, Word},
    Shape, field,
};

/// What every request has.
static REQUEST_FIELDS: &[Field] = &[
    field("request", Text, "METHOD path, such as `GET /jobs/${op.id}`."),
    field("headers", Map(&Either(&[Text, Of(&SECRET)])), "Headers beside the upstream's."),
    field("query", Map(&Any), "Query parameters; an absent optional argument drops its parameter."),
    field("body", Any, "The JSON body; a string that is one placeholder keeps its JSON type."),
    field("form", Map(&Any), "A form instead of a JSON body."),
];

/// A request.
pub static REQUEST: Shape = Shape { name: "Request", doc: "A request.", fields: &[REQUEST_FIELDS] };

/// `{ header: NAME }`.
pub static HEADER: Shape = Shape {
    name: "Header",
    doc: "A header of the response.",
    fields: &[&[field("header", Text, "Its name.")]],
};

/// `{ http_status: true }`.
pub static HTTP_STATUS: Shape = Shape {
    name: "HttpStatus",
    doc: "The status code of the response.",
    fields: &[&[field("http_status", Either(&[Bool, Any]), "The state is the status code.")]],
};

/// Bounds of a create.
static CREATE_BOUNDS: &[Field] = &[
    field("shield", Duration, "How long a create in flight may go on after a cancel. Default: 30s."),
    field(
        "horizon",
        Duration,
        "How long after the end of its connection a create can still arrive. Default: twice the shield.",
    ),
];

/// What finds a lost operation again.
static LOST: &[Field] = &[
    field("find", Either(&[Of(&FIND), Text]), "The look-up by our key of one whose answer was lost."),
    field("key_window", Duration, "How long the upstream honours the idempotency key."),
    field("lost_id", Word(&["accept"]), "Accept that a lost create can never be found."),
    field("lifetime", Duration, "The hard bound, with or without a client. Default: 1h."),
];

/// `job`.
pub static JOB: Shape = Shape {
    name: "Job",
    doc: "A remote job.",
    fields: &[
        &[
            field("preset", Text, "A known API to start from."),
            field("create", Of(&CREATE), "How it is created."),
            field("status", Of(&STATUS), "How its state is read."),
            field(
                "result",
                Either(&[Of(&RESULT), Text]),
                "How its result is read; else the last status body.",
            ),
            field(
                "cancel",
                Either(&[Of(&CANCEL), Text]),
                "How it is cancelled; or `unsupported`, which must be said.",
            ),
        ],
        LOST,
    ],
};

/// `job.create`.
pub static CREATE: Shape = Shape {
    name: "Create",
    doc: "How a job is created.",
    fields: &[
        REQUEST_FIELDS,
        &[
            field(
                "id",
                Either(&[Path, Of(&HEADER)]),
                "Where the id is: a JSONPath, a header, or `${op.key}` where the API takes ours.",
            ),
            field("save", Map(&Either(&[Path, Of(&HEADER)])), "What else is kept, for `${op.saved.NAME}`."),
        ],
        CREATE_BOUNDS,
    ],
};

/// `job.status`.
pub static STATUS: Shape = Shape {
    name: "Status",
    doc: "How a job's state is read.",
    fields: &[
        REQUEST_FIELDS,
        &[
            field("every", Duration, "The shortest time between two reads. Default: 1s."),
            field("max", Duration, "The longest. Default: 10s, or `every`."),
            field(
                "state",
                Either(&[Path, Word(&["http_status"]), List(&Path), Of(&HTTP_STATUS)]),
                "Where the state is: a JSONPath, several (the first that is not null), or http_status.",
            ),
            field("running", STATES, "States that mean: it runs."),
            field("succeeded", STATES, "States that mean: it completed."),
            field("failed", STATES, "States that mean: it failed."),
            field("cancelled", STATES, "States that mean: it was cancelled."),
            field(
                "absent",
                Word(&["running", "succeeded", "failed", "cancelled"]),
                "What a missing state means.",
            ),
            field("progress", Path, "Where its progress is."),
            field("error", Path, "Where the message of a failure is."),
            field("save", Map(&Either(&[Path, Of(&HEADER)])), "What is kept, for `${op.saved.NAME}`."),
        ],
    ],
};

const STATES: Holds = Either(&[List(&Text), Text]);

/// `job.result`.
pub static RESULT: Shape = Shape {
    name: "Result",
    doc: "How a result is read.",
    fields: &[REQUEST_FIELDS, &[field("value", Path, "What of it is handed on. Default: $.")]],
};

/// `job.cancel`.
pub static CANCEL: Shape = Shape {
    name: "Cancel",
    doc: "How a job is cancelled, or why it cannot be.",
    fields: &[
        REQUEST_FIELDS,
        &[
            field("confirm_within", Duration, "When an unconfirmed cancel counts as late. Default: 30s."),
            field("force", Either(&[Of(&FORCE), Text]), "A harder cancel, later."),
            field("unsupported", Text, "Why it cannot be cancelled."),
        ],
    ],
};

/// `job.cancel.force`.
pub static FORCE: Shape = Shape {
    name: "Force",
    doc: "A harder cancel.",
    fields: &[
        REQUEST_FIELDS,
        &[field("after", Duration, "When it takes over from the cancel. Default: 10s.")],
    ],
};

/// `find`.
pub static FIND: Shape = Shape {
    name: "Find",
    doc: "A look-up by our key.",
    fields: &[
        REQUEST_FIELDS,
        &[
            field("id", Path, "Where the id is; may filter by `${op.key}`."),
            field("eventual", Bool, "The list lags behind: it takes two misses. Default: false."),
        ],
    ],
};

/// `http`.
pub static HTTP: Shape = Shape {
    name: "Http",
    doc: "One request.",
    fields: &[
        &[field("preset", Text, "A preset to start from.")],
        REQUEST_FIELDS,
        &[
            field("value", Path, "What of the response is handed on. Default: $."),
            field(
                "effect",
                Word(&["none", "once"]),
                "Whether it changes something. Default: none for GET and HEAD; others must say.",
            ),
            field("id", Either(&[Path, Of(&HEADER)]), "Where the id of what it made is, for `compensate`."),
        ],
        LOST,
        CREATE_BOUNDS,
    ],
};

/// What every program has.
static PROGRAM_FIELDS: &[Field] = &[
    field(
        "run",
        List(&Text),
        "The program and its arguments; no shell reads them. A name without `/` is looked for on the PATH; a relative path starts at `cwd`.",
    ),
    field("cwd", Text, "Its working directory. Default: the gateway's."),
    field("env", Map(&Either(&[Text, Of(&SECRET)])), "Variables that it gets."),
    field(
        "inherit_env",
        Either(&[List(&Text), Text]),
        "Which of the gateway's variables it gets beside PATH, HOME, USER, LOGNAME, LANG, LC_ALL, LC_CTYPE, TZ, TMPDIR; `*` for all.",
    ),
    field("stdin", Any, "What it reads: a text as it is, anything else as JSON. Default: nothing."),
];

/// A program that undoes something.
pub static PROGRAM: Shape = Shape {
    name: "Program",
    doc: "A program that undoes something; exit code 0 says that it has.",
    fields: &[PROGRAM_FIELDS],
};

/// `command`.
pub static COMMAND: Shape = Shape {
    name: "Command",
    doc: "A program as a tool. It ends with its call, or with us, and everything that it has started with it.",
    fields: &[
        PROGRAM_FIELDS,
        &[
            field(
                "stop",
                Either(&[Of(&STOP), Text]),
                "How it is asked to stop: then SIGTERM, 1 s later SIGKILL to everything. Default: TERM and 5s.",
            ),
            field("lifetime", Duration, "The hard bound, with or without a client. Default: 1h."),
            field("exit", Of(&EXIT), "What its exit codes mean. Default: 0 is success."),
            field(
                "value",
                Path,
                "What of its standard output is handed on, which is JSON then. Default: $ where the tool has `output`, else all of it as text.",
            ),
            field(
                "max_bytes",
                Size,
                "The most that it may write to standard output; beyond it the call fails, and nothing is cut. Default: 10MiB.",
            ),
        ],
    ],
};

/// `command.stop`.
pub static STOP: Shape = Shape {
    name: "Stop",
    doc: "How a program is asked to stop.",
    fields: &[&[
        field(
            "signal",
            Word(&["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "KILL"]),
            "What asks first. Default: TERM.",
        ),
        field("grace", Duration, "How long it may take to obey. Default: 5s."),
    ]],
};

/// `command.exit`.
pub static EXIT: Shape = Shape {
    name: "Exit",
    doc: "What exit codes mean. One that is in neither is a failure, and so is a death by a signal.",
    fields: &[&[
        field("ok", List(&Text), "Those that mean: it completed. Default: 0."),
        field("failed", Map(&Text), "What others mean, in words for whoever called."),
    ]],
};

/// A secret.
pub static SECRET: Shape = Shape {
    name: "Secret",
    doc: "A secret: read when it is needed, never stored, never shown. One of env, file, exec.",
    fields: &[&[
        field("env", Text, "The environment variable that holds it."),
        field("file", Text, "The file that holds it; a trailing newline is not part of it."),
        field("exec", List(&Text), "Program and arguments that print it."),
        field("prefix", Text, "What is put before it, such as `Bearer `."),
        field("ttl", Duration, "How long the answer of `exec` is used. Default: 5m."),
    ]],
};
