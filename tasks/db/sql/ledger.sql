-- The ledger of judge calls. Any number of processes write it: SQLite in WAL mode, or PostgreSQL.

-- The judges asked, by the digest of their identity.
CREATE TABLE IF NOT EXISTS judges (
    judge    TEXT PRIMARY KEY,
    model    TEXT NOT NULL,
    identity TEXT NOT NULL              -- JSON: model, address, sampling, limits; never a key
);

-- A question, once, and the first reply that it got. A reply is never replaced.
CREATE TABLE IF NOT EXISTS calls (
    digest        TEXT PRIMARY KEY,
    judge         TEXT NOT NULL REFERENCES judges,
    trial         INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,     -- 1 and more: asked again, as the reply before could not be read
    messages      TEXT NOT NULL,        -- JSON: what was sent
    schema        TEXT,                 -- JSON schema of the reply, NULL for free text
    text          TEXT,                 -- the raw reply, NULL until there is one
    finish_reason TEXT,
    answered_by   BIGINT                -- the ask that brought it
);

-- Every time that a question was put: more than once only if it failed, was lost, or two processes asked at once.
CREATE TABLE IF NOT EXISTS asks (
    ask           BIGINT PRIMARY KEY,   -- grows with time
    digest        TEXT NOT NULL,
    run           TEXT NOT NULL,
    purpose       TEXT NOT NULL,        -- evaluator:prompt that asked first
    process       TEXT NOT NULL,        -- host:pid:start of the process
    state         TEXT NOT NULL,        -- 'intended', 'answered', 'failed'
    intended_at   DOUBLE PRECISION NOT NULL,  -- seconds since 1970
    ended_at      DOUBLE PRECISION,
    tries         INTEGER,
    seconds       DOUBLE PRECISION,     -- of the attempt that was answered
    input_tokens  INTEGER,
    output_tokens INTEGER,
    cost_usd      DOUBLE PRECISION,     -- NULL: unknown, never 0 for unknown
    error         TEXT
);
CREATE INDEX IF NOT EXISTS asks_of_run ON asks (run);
CREATE INDEX IF NOT EXISTS asks_of_call ON asks (digest);

-- What a parser made of a reply.
CREATE TABLE IF NOT EXISTS verdicts (
    digest  TEXT NOT NULL,
    parser  TEXT NOT NULL,
    verdict TEXT NOT NULL,              -- JSON, null where it could not be read
    problem TEXT NOT NULL,              -- why not, '' otherwise
    PRIMARY KEY (digest, parser)
);

-- What runs with a budget have spent of it, together with what is set aside for calls without an end on record.
CREATE TABLE IF NOT EXISTS budgets (
    run   TEXT PRIMARY KEY,
    calls INTEGER NOT NULL,
    usd   DOUBLE PRECISION NOT NULL
);

-- When a process with calls in flight was last heard of; kept where hosts cannot see each other's processes.
CREATE TABLE IF NOT EXISTS processes (
    process TEXT PRIMARY KEY,
    seen_at DOUBLE PRECISION NOT NULL   -- seconds since 1970
);
