-- Rows that could not be measured, by evaluator, reason and model, with the commonest message of the instrument.
WITH lost AS (
    SELECT DISTINCT evaluator_id, row_id, reason
    FROM row_scores
    JOIN metrics USING (metric_id)
    WHERE status = 'unscored'
),
messages AS (
    SELECT evaluator_id, row_id, any_value(error) AS error
    FROM evidence
    WHERE error IS NOT NULL
    GROUP BY evaluator_id, row_id
)
SELECT
    lost.evaluator_id,
    coalesce(reason, 'unknown') AS reason,
    model_id,
    count(*) AS n,
    mode(messages.error) AS message,
    min(lost.row_id, {most}) AS row_ids
FROM lost
JOIN rows USING (row_id)
LEFT JOIN messages ON messages.evaluator_id = lost.evaluator_id AND messages.row_id = lost.row_id
GROUP BY ALL
ORDER BY lost.evaluator_id, reason, model_id
