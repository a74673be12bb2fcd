-- What changed since the baseline, as tasks/analyse/changes.py reads it. The tables are in run_tables.py.

-- statement: counts
-- Rows that broke or were fixed on any metric, apart from those whose answer is the same as before.
SELECT
    model_id,
    count(DISTINCT row_id) FILTER (broken AND NOT same_answer) AS n_broken,
    count(DISTINCT row_id) FILTER (NOT broken AND NOT same_answer) AS n_fixed,
    count(DISTINCT row_id) FILTER (same_answer) AS n_rejudged
FROM row_changes
JOIN rows USING (row_id)
GROUP BY model_id

-- statement: metrics
WITH counted AS (
    SELECT metric_id, model_id, count_if(broken) AS n_broken, count_if(NOT broken) AS n_fixed
    FROM row_changes
    JOIN rows USING (row_id)
    WHERE NOT same_answer
    GROUP BY metric_id, model_id
)
SELECT
    metric_changes.*,
    evaluator || '.' || metric AS key,
    CASE
        WHEN is_primary THEN replace(evaluators.name, ' Evaluator', '')
        ELSE replace(evaluators.name, ' Evaluator', '') || ': ' || metrics.name
    END AS name,
    role,
    weight,
    is_share AS share,
    coalesce(n_broken, 0) AS n_broken,
    coalesce(n_fixed, 0) AS n_fixed
FROM metric_changes
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rules USING (metric_id)
LEFT JOIN counted USING (metric_id, model_id)
ORDER BY model_id, metric_id

-- statement: models
SELECT model_id, model_key AS model, model_changes.* EXCLUDE (model_id)
FROM model_changes
JOIN models USING (model_id)
ORDER BY model_id

-- statement: rows
-- The rows that broke or were fixed: by the weight that the policy gives the worst, then on most metrics, then by how far.
WITH moved AS (
    SELECT
        row_id,
        broken,
        max(weight) AS weight,
        list(metric_id ORDER BY metric_id) AS metric_ids,
        max(abs(candidate - baseline) / (high - low)) AS distance,
        any_value(baseline_answer) AS baseline_answer
    FROM row_changes
    JOIN metrics USING (metric_id)
    JOIN rules USING (metric_id)
    WHERE NOT same_answer
    GROUP BY row_id, broken
)
SELECT
    model_id, broken, row_id, case_key AS "case", metric_ids, baseline_answer,
    if(broken, (
        SELECT min(turn) FROM turn_means
        WHERE fails AND conversation_id = moved.row_id AND list_contains(moved.metric_ids, metric_id)
    ), NULL) AS turn
FROM moved
JOIN rows USING (row_id)
JOIN cases USING (case_id)
QUALIFY row_number() OVER (
    PARTITION BY model_id, broken ORDER BY weight DESC, len(metric_ids) DESC, distance DESC, row_id
) <= {most}
ORDER BY model_id, broken DESC, weight DESC, len(metric_ids) DESC, distance DESC, row_id
