-- What is told of a run's scores to OpenTelemetry.

-- statement: scores
SELECT
    cases.case_key, models.model_key, evaluators.evaluator, metrics.metric, line.value, line.reason,
    CASE
        WHEN line.value IS NULL OR metrics.threshold IS NULL THEN NULL
        WHEN metrics.higher_is_better THEN line.value >= metrics.threshold
        ELSE line.value <= metrics.threshold
    END AS passes,
    json_extract_string(rows.metadata::JSON, '$.response_id') AS response_id,
    json_extract_string(rows.metadata::JSON, '$.trace_id') AS trace_id,
    json_extract_string(rows.metadata::JSON, '$.span_id') AS span_id,
    CASE WHEN $texts THEN json_extract_string(evidence.evidence::JSON, '$.message') END AS explanation
FROM (
    SELECT metric_id, row_id, avg(value) AS value, any_value(reason) FILTER (status = 'unscored') AS reason
    FROM scores
    WHERE status IN ('scored', 'unscored')
    GROUP BY metric_id, row_id
) AS line
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
LEFT JOIN evidence
    ON evidence.evaluator_id = metrics.evaluator_id AND evidence.row_id = line.row_id AND evidence.trial = 0
WHERE metrics.is_primary
ORDER BY passes NULLS FIRST, line.metric_id, line.row_id
LIMIT $most;
