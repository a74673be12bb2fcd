-- What evaluators flagged of single rows.
WITH flagged AS (
    SELECT
        evaluator_id,
        row_id,
        unnest(from_json(flags, '[{{"type": "VARCHAR", "severity": "VARCHAR", "message": "VARCHAR"}}]')) AS flag
    FROM evidence
    WHERE flags IS NOT NULL
)
SELECT
    evaluator_id,
    model_id,
    flag.type AS type,
    flag.severity AS severity,
    count(DISTINCT row_id) AS n,
    mode(flag.message) AS message,
    count(DISTINCT flag.message) AS n_messages,
    min(row_id, {most}) AS row_ids
FROM flagged
JOIN rows USING (row_id)
GROUP BY ALL
ORDER BY evaluator_id, model_id, type, severity
