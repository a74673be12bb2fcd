-- What a metric over whole datasets is computed from: the payloads of both sides of a case, and how many cases have
-- these two. Of a row scored in several trials the first that has a payload counts, so that pairs stay pairs.
WITH ours AS (
    SELECT row_id, arg_min(payload, trial) AS payload
    FROM baseline.evidence
    WHERE evaluator_id = {baseline_evaluator} AND payload IS NOT NULL
    GROUP BY row_id
),
theirs AS (
    SELECT row_id, arg_min(payload, trial) AS payload
    FROM candidate.evidence
    WHERE evaluator_id = {candidate_evaluator} AND payload IS NOT NULL
    GROUP BY row_id
)
SELECT ours.payload AS baseline, theirs.payload AS candidate, {unit} AS unit, count(*) AS n
FROM row_pairs
JOIN ours ON ours.row_id = baseline_row
JOIN theirs ON theirs.row_id = candidate_row
LEFT JOIN families ON families.case_id = case_no
WHERE NOT changed
GROUP BY ALL
ORDER BY ALL
