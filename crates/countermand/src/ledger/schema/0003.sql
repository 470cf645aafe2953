-- What somebody is to be told of operations, and what became of that. What was told stays until its operation is
-- removed: that something is settled is told only of what was talked about before.
CREATE TABLE notices (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    operation  TEXT NOT NULL,
    news       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    state      TEXT NOT NULL, -- waiting, told, nobody, given_up
    attempts   INTEGER NOT NULL,
    next_at    INTEGER NOT NULL,
    last_error TEXT
) STRICT;

CREATE INDEX notices_by_operation ON notices (operation, seq);

CREATE INDEX notices_that_wait ON notices (seq) WHERE state = 'waiting';
