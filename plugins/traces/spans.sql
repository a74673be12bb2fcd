-- Runs of spans of a trace, by conversation; plugins/traces/read.py.

-- statement: table
CREATE TABLE runs (trace VARCHAR, rank INTEGER, session VARCHAR, place BIGINT, size BIGINT, spans BIGINT);

-- statement: insert
INSERT INTO runs SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6);

-- statement: by_conversation
-- A conversation has the traces that name it, by the most telling attribute that a trace has, or is a single trace.
WITH traces AS (
    SELECT trace, arg_min(session, (rank, place)) FILTER (session IS NOT NULL) AS session, min(place) AS first
    FROM runs GROUP BY trace
), conversations AS (
    SELECT trace, min(first) OVER (PARTITION BY coalesce('of ' || session, trace)) AS number FROM traces
)
SELECT conversations.number, runs.place, runs.size, runs.spans
FROM runs JOIN conversations USING (trace) ORDER BY conversations.number, runs.place;
