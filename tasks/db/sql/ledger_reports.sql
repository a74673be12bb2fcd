-- Statements for SQLite and PostgreSQL alike; a CAST tells the latter what type a parameter has.

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

-- statement: one
-- One question with all that is known of it; a prefix of its digest will do.
SELECT calls.digest, judges.model, judges.identity, calls.trial, calls.attempt, calls.messages, calls.schema,
       calls.text, calls.finish_reason,
       (SELECT error FROM asks WHERE asks.digest = calls.digest ORDER BY ask DESC LIMIT 1) AS error
FROM calls JOIN judges ON judges.judge = calls.judge
WHERE calls.digest >= CAST(:digest AS TEXT) AND calls.digest < CAST(:digest AS TEXT) || 'g'
ORDER BY calls.digest LIMIT 2;

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
