-- Operations. One column for each field of a row; times are microseconds since 1970, UTC.
-- `settled` repeats what `phase` says, for the partial indexes.
CREATE TABLE operations (
    id                  TEXT PRIMARY KEY NOT NULL,
    call                TEXT NOT NULL,
    session             TEXT,
    request_id          TEXT,
    principal           TEXT NOT NULL,
    tool                TEXT NOT NULL,
    args_hash           TEXT NOT NULL,
    inputs              TEXT NOT NULL,
    definition          TEXT NOT NULL,
    upstream            TEXT NOT NULL,
    kind                TEXT NOT NULL,
    detail              TEXT NOT NULL,
    parent              TEXT,
    ordinal             INTEGER NOT NULL,
    phase               TEXT NOT NULL,
    was                 TEXT,
    desired             TEXT NOT NULL,
    cause               TEXT,
    reason              TEXT,
    outcome             TEXT,
    key                 TEXT NOT NULL,
    undo_key            TEXT,
    undo_next           INTEGER NOT NULL,
    upstream_id         TEXT,
    on_disconnect       TEXT NOT NULL,
    awaited             INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    phase_since         INTEGER NOT NULL,
    missing_since       INTEGER,
    create_sent_at      INTEGER,
    create_horizon      INTEGER,
    hard_deadline       INTEGER NOT NULL,
    disconnect_at       INTEGER,
    ended_seen_at       INTEGER,
    delivered_at        INTEGER,
    settled_at          INTEGER,
    attempts            INTEGER NOT NULL,
    turn                TEXT,
    turn_at             INTEGER,
    cancel_at           INTEGER,
    next_at             INTEGER,
    last_error          TEXT,
    owner               TEXT NOT NULL,
    epoch               INTEGER NOT NULL,
    lease_until         INTEGER,
    version             INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    settled             INTEGER NOT NULL
) STRICT;

-- What the reconciler asks every second: per epoch, the wanted cancels ('cancel' sorts before 'run'),
-- then the rest, each by its next due time; what is never due comes last.
CREATE INDEX unsettled_by_urgency
    ON operations (epoch, desired, coalesce(next_at, 9223372036854775807)) WHERE settled = 0;

CREATE INDEX unsettled_by_id ON operations (id) WHERE settled = 0;

CREATE INDEX operations_by_principal ON operations (principal, id);

-- What retention asks.
CREATE INDEX settled_by_age ON operations (updated_at) WHERE settled = 1;

-- The history: `seq` is the version that the row got with the entry.
CREATE TABLE history (
    operation TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    event     TEXT NOT NULL,
    phase     TEXT NOT NULL,
    note      TEXT,
    PRIMARY KEY (operation, seq)
) STRICT, WITHOUT ROWID;

-- Checked tool definitions, never changed.
CREATE TABLE definitions (
    hash   TEXT PRIMARY KEY NOT NULL,
    policy TEXT NOT NULL,
    body   TEXT NOT NULL
) STRICT;

-- What operators have asked for from outside.
CREATE TABLE requests (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    operation TEXT NOT NULL,
    action    TEXT NOT NULL
) STRICT;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (key, value) VALUES ('epoch', 0);
