-- Rows whose retrieved context fails a pass/fail check although the answer passes it.
WITH boards AS (
    SELECT
        evaluator_id,
        min(metric_id) FILTER (metric LIKE '%retrieval%') AS retrieval,
        min(metric_id) FILTER (metric LIKE '%generation%') AS generation
    FROM metrics
    JOIN evaluators USING (evaluator_id)
    WHERE leaderboard = 'bool'
    GROUP BY evaluator_id
)
SELECT evaluator_id, retrieval AS metric_id, model_id, count(*) AS n, min(rows.row_id, {most}) AS row_ids
FROM boards
JOIN row_scores AS contexts ON contexts.metric_id = retrieval AND contexts.value > 0
JOIN row_scores AS answers ON answers.metric_id = generation AND answers.row_id = contexts.row_id AND answers.value = 0
JOIN rows ON rows.row_id = contexts.row_id
GROUP BY ALL
ORDER BY evaluator_id, model_id
