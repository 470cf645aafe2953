-- What an identical call asks that may join one that still runs.
CREATE INDEX unsettled_by_identity
    ON operations (principal, tool, definition, args_hash, id) WHERE settled = 0;

-- What a caller asks that wants to know what became of its calls: what is not settled, and the settled rows
-- whose end it may not know.
CREATE INDEX unsettled_by_principal
    ON operations (principal, id) WHERE settled = 0;

CREATE INDEX untold_by_principal
    ON operations (principal, id) WHERE settled = 1 AND (cause IS NOT NULL OR delivered_at IS NULL);
