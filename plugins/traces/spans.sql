-- Spans of traces by conversation; plugins/traces/read.py.

-- statement: table
CREATE TABLE spans (trace VARCHAR, rank INTEGER, session VARCHAR, place BIGINT, size BIGINT);

-- statement: by_conversation
-- A conversation has the traces that name it, by the most telling attribute that a trace has, or is a single trace.
WITH traces AS (
    SELECT trace, arg_min(session, (rank, place)) FILTER (session IS NOT NULL) AS session, min(place) AS first
    FROM spans GROUP BY trace
), conversations AS (
    SELECT trace, min(first) OVER (PARTITION BY coalesce('of ' || session, trace)) AS number FROM traces
)
SELECT conversations.number, spans.place, spans.size
FROM spans JOIN conversations USING (trace) ORDER BY conversations.number, spans.place;
