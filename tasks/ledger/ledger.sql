-- The ledger of judge calls, in SQLite (WAL mode) or PostgreSQL; any number of processes write it. Values stand for
-- question marks in the statements of operations.py, and for :names in those of ledger_report.py, where a CAST tells
-- PostgreSQL the type. In comments neither may stand, nor a percent sign.

-- statement: schema
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
    error         TEXT,
    served_model  TEXT,                 -- the model that the provider says has answered, NULL where it says none
    fingerprint   TEXT                  -- of the system that answered, where the provider tells one
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

-- The same for the teams that have a monthly budget, by month (UTC), as 2026-11.
CREATE TABLE IF NOT EXISTS team_budgets (
    team  TEXT NOT NULL,
    month TEXT NOT NULL,
    calls INTEGER NOT NULL,
    usd   DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (team, month)
);

-- When a process with calls in flight was last heard of; kept where hosts cannot see each other's processes.
CREATE TABLE IF NOT EXISTS processes (
    process TEXT PRIMARY KEY,
    seen_at DOUBLE PRECISION NOT NULL   -- seconds since 1970
);

-- Whether a judge is still the one that was enrolled, check by check.
CREATE TABLE IF NOT EXISTS drift_checks (
    judge        TEXT NOT NULL,         -- digest of its identity without the epoch
    epoch        INTEGER NOT NULL,
    at           DOUBLE PRECISION NOT NULL,  -- seconds since 1970
    occasion     TEXT NOT NULL,         -- check/<date>, the same for all who check on that day
    probes       INTEGER NOT NULL,
    differing    DOUBLE PRECISION NOT NULL,  -- probes with another verdict, averaged over pairs of replies
    expected     DOUBLE PRECISION NOT NULL,  -- the same between two replies at enrolment
    p            DOUBLE PRECISION NOT NULL,  -- chance of so much difference if nothing changed
    level        DOUBLE PRECISION NOT NULL,  -- what p was held against
    state        TEXT NOT NULL,         -- 'steady', 'suspect', 'changed'
    served_model TEXT NOT NULL,         -- as the provider named it, '' where it does not
    fingerprint  TEXT NOT NULL,
    PRIMARY KEY (judge, epoch, occasion)
);

-- statement: asks_columns
-- The columns of asks that came later, and that an old ledger gets when it is opened.
ALTER TABLE asks ADD COLUMN {column} TEXT

-- statement: find
SELECT calls.digest, calls.text, calls.finish_reason, asks.input_tokens, asks.output_tokens, asks.cost_usd,
       asks.seconds, asks.tries, asks.run
FROM calls JOIN asks ON asks.ask = calls.answered_by
WHERE calls.digest IN {digests}

-- statement: others
-- Calls that other processes make just now.
SELECT asks.digest, asks.process, asks.intended_at, processes.seen_at
FROM asks LEFT JOIN processes ON processes.process = asks.process
WHERE asks.state = 'intended' AND asks.process <> ? AND asks.intended_at > ? AND asks.digest IN {digests}

-- statement: add_judge
INSERT INTO judges VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- statement: add_call
INSERT INTO calls (digest, judge, trial, attempt, messages, schema) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- statement: add_ask
INSERT INTO asks (ask, digest, run, purpose, process, state, intended_at) VALUES (?, ?, ?, ?, ?, 'intended', ?)
ON CONFLICT DO NOTHING

-- statement: answer_ask
UPDATE asks SET state = 'answered', ended_at = ?, tries = ?, seconds = ?, input_tokens = ?, output_tokens = ?,
                cost_usd = ?, served_model = ?, fingerprint = ?
WHERE ask = ?

-- statement: fail_ask
UPDATE asks SET state = 'failed', ended_at = ?, error = ? WHERE ask = ?

-- statement: add_reply
UPDATE calls SET text = ?, finish_reason = ?, answered_by = ? WHERE digest = ? AND answered_by IS NULL

-- statement: add_verdict
INSERT INTO verdicts VALUES (?, ?, ?, ?)
ON CONFLICT (digest, parser) DO UPDATE SET verdict = excluded.verdict, problem = excluded.problem

-- statement: beat
INSERT INTO processes VALUES (?, ?) ON CONFLICT (process) DO UPDATE SET seen_at = excluded.seen_at

-- statement: add_drift_check
INSERT INTO drift_checks (occasion, judge, epoch, at, probes, differing, expected, p, level, state, served_model,
                          fingerprint)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- statement: drift_checks
-- Checks of judges, youngest first.
SELECT judge, epoch, at, occasion, probes, differing, expected, p, level, state, served_model, fingerprint
FROM drift_checks
WHERE CAST(:judge AS TEXT) IS NULL OR judge = :judge
ORDER BY at DESC, occasion DESC;

-- statement: told
-- What the provider told of the replies of a run beside their texts.
SELECT calls.digest, asks.output_tokens, asks.served_model, asks.fingerprint
FROM asks JOIN calls ON calls.answered_by = asks.ask
WHERE asks.run = :run;

-- statement: served
-- Which models and systems answered the judges of a run, by what the provider tells.
SELECT DISTINCT judges.identity, asks.served_model, asks.fingerprint
FROM asks JOIN calls ON calls.answered_by = asks.ask JOIN judges ON judges.judge = calls.judge
WHERE asks.run = :run;

-- statement: add_budget
INSERT INTO budgets VALUES (?, 0, 0) ON CONFLICT DO NOTHING

-- statement: spend
UPDATE budgets SET calls = calls + ?, usd = usd + ? WHERE run = ?

-- statement: spent
SELECT calls, usd FROM budgets WHERE run = ?

-- statement: add_team_budget
INSERT INTO team_budgets VALUES (?, ?, 0, 0) ON CONFLICT DO NOTHING

-- statement: spend_of_team
UPDATE team_budgets SET calls = calls + ?, usd = usd + ? WHERE team = ? AND month = ?

-- statement: spent_by_team
SELECT calls, usd FROM team_budgets WHERE team = ? AND month = ?

-- statement: teams
-- What teams have spent of their monthly budgets, together with what is set aside for calls in flight.
SELECT team, month, calls, usd
FROM team_budgets
WHERE CAST(:month AS TEXT) IS NULL OR month = :month
ORDER BY month DESC, team;

-- statement: asks
-- Calls as they were put, newest first.
SELECT asks.ask, asks.digest, asks.run, asks.purpose, judges.model, calls.trial, calls.attempt, asks.state,
       asks.process, processes.seen_at, asks.intended_at, asks.ended_at, asks.tries, asks.seconds, asks.input_tokens,
       asks.output_tokens, asks.cost_usd, asks.error, calls.finish_reason, length(calls.text) AS reply_length,
       (SELECT count(*) FROM asks AS every WHERE every.digest = asks.digest) AS times_asked,
       (SELECT problem FROM verdicts WHERE verdicts.digest = asks.digest ORDER BY parser DESC LIMIT 1) AS problem
FROM asks
JOIN calls ON calls.digest = asks.digest
JOIN judges ON judges.judge = calls.judge
LEFT JOIN processes ON processes.process = asks.process
WHERE CAST(:run AS TEXT) IS NULL OR asks.run = :run
ORDER BY asks.ask DESC;

-- statement: replies
-- What the first replies to calls cost, and how long they took.
SELECT calls.digest, asks.cost_usd, asks.seconds, asks.input_tokens, asks.output_tokens
FROM calls JOIN asks ON asks.ask = calls.answered_by
WHERE calls.digest IN ({digests});

-- statement: call_times
SELECT purpose, state, intended_at, ended_at, tries, seconds
FROM asks
WHERE run = :run AND ended_at IS NOT NULL
ORDER BY intended_at, ask
LIMIT CAST(:most AS BIGINT);

-- statement: one
-- One question with all that is known of it; a prefix of its digest will do.
SELECT calls.digest, judges.model, judges.identity, calls.trial, calls.attempt, calls.messages, calls.schema,
       calls.text, calls.finish_reason,
       (SELECT error FROM asks WHERE asks.digest = calls.digest ORDER BY ask DESC LIMIT 1) AS error
FROM calls JOIN judges ON judges.judge = calls.judge
WHERE calls.digest >= CAST(:digest AS TEXT) AND calls.digest < CAST(:digest AS TEXT) || 'g'
ORDER BY calls.digest LIMIT 2;

-- statement: mentioning
-- Questions in whose messages a text stands, as a pattern in JSON.
SELECT calls.digest, judges.model, calls.trial, calls.attempt, calls.text IS NOT NULL AS answered,
       (SELECT min(purpose) FROM asks WHERE asks.digest = calls.digest) AS purpose,
       (SELECT problem FROM verdicts WHERE verdicts.digest = calls.digest ORDER BY parser DESC LIMIT 1) AS problem
FROM calls JOIN judges ON judges.judge = calls.judge
WHERE calls.messages LIKE :pattern ESCAPE '!'
ORDER BY purpose, calls.trial, calls.attempt, calls.digest
LIMIT CAST(:most AS BIGINT);

-- statement: verdicts
SELECT parser, verdict, problem FROM verdicts WHERE digest = :digest ORDER BY parser;

-- statement: totals
-- What was asked by run and purpose. A lost call's tokens and price are unknown, too.
SELECT run, purpose,
       count(*) AS asked,
       count(*) FILTER (WHERE state = 'answered') AS answered,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       coalesce(sum(input_tokens), 0) AS input_tokens,
       coalesce(sum(output_tokens), 0) AS output_tokens,
       coalesce(sum(cost_usd), 0.0) AS cost_usd,
       count(*) FILTER (WHERE state = 'answered' AND cost_usd IS NULL) AS unknown_price,
       coalesce(sum(tries - 1), 0) AS repeated_attempts
FROM asks
WHERE CAST(:run AS TEXT) IS NULL OR run = :run
GROUP BY run, purpose
ORDER BY run, purpose;

-- statement: by_model
SELECT judges.model,
       count(*) FILTER (WHERE state = 'answered') AS answered,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       coalesce(sum(tries - 1), 0) AS retries,
       coalesce(sum(seconds), 0.0) AS seconds,
       coalesce(sum(input_tokens), 0) AS input_tokens,
       coalesce(sum(output_tokens), 0) AS output_tokens,
       coalesce(sum(cost_usd), 0.0) AS cost_usd,
       count(*) FILTER (WHERE state = 'answered' AND cost_usd IS NULL) AS unpriced
FROM asks JOIN calls ON calls.digest = asks.digest JOIN judges ON judges.judge = calls.judge
WHERE state <> 'intended'
GROUP BY judges.model
ORDER BY count(*) DESC, judges.model;

-- statement: open_calls
SELECT count(*) AS calls FROM asks WHERE state = 'intended';

-- statement: unreadable
-- Replies whose youngest verdict is that they cannot be read.
SELECT count(*) AS replies
FROM verdicts AS newest
WHERE problem <> ''
  AND NOT EXISTS (SELECT 1 FROM verdicts AS other WHERE other.digest = newest.digest AND other.parser > newest.parser);

-- statement: open
-- Calls that were begun and have no end on record; those of processes that are gone are lost.
SELECT asks.ask, asks.digest, asks.run, asks.purpose, asks.process, processes.seen_at, asks.intended_at
FROM asks LEFT JOIN processes ON processes.process = asks.process
WHERE asks.state = 'intended' AND (CAST(:run AS TEXT) IS NULL OR asks.run = :run);

-- statement: open_before
-- Calls without an end that a run had to make again.
SELECT lost.ask, lost.digest, lost.run, lost.purpose, lost.process, processes.seen_at, lost.intended_at
FROM asks AS lost LEFT JOIN processes ON processes.process = lost.process
WHERE lost.state = 'intended'
  AND EXISTS (SELECT 1 FROM asks AS again WHERE again.digest = lost.digest AND again.run = :run AND again.ask > lost.ask);

-- statement: faults
-- What contradicts itself: a call that ended with a reply that is not there, and entries whose other half is missing.
SELECT asks.digest, 'it was answered, and its reply is missing' AS fault
FROM asks LEFT JOIN calls ON calls.digest = asks.digest
WHERE asks.state = 'answered' AND calls.text IS NULL
UNION ALL
SELECT asks.digest, 'it was begun, and its question is missing'
FROM asks LEFT JOIN calls ON calls.digest = asks.digest
WHERE asks.state <> 'answered' AND calls.digest IS NULL
UNION ALL
SELECT calls.digest, 'it has a reply that no call on record brought'
FROM calls LEFT JOIN asks ON asks.ask = calls.answered_by
WHERE calls.text IS NOT NULL AND asks.ask IS NULL
UNION ALL
SELECT calls.digest, 'its judge is missing'
FROM calls LEFT JOIN judges ON judges.judge = calls.judge
WHERE judges.judge IS NULL
ORDER BY 1, 2;
